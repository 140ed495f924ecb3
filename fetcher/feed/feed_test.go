package feed

import (
	"errors"
	"strings"
	"testing"
)

// TestF3_AChunkIsReleasedOnce, however often it is asked for.
func TestF3_AChunkIsReleasedOnce(t *testing.T) {
	n := 0
	c := &Chunk{Batches: [][]byte{{1}}}
	c.OnRelease(func() { n++ })
	c.Release()
	c.Release()
	if n != 1 || c.Batches != nil {
		t.Errorf("released %d times, batches %v", n, c.Batches)
	}
	(&Chunk{}).Release() // without a budget behind it
}

// TestFaultsSayWhatIsKnown: numbers where there are some, and nothing made up.
func TestFaultsSayWhatIsKnown(t *testing.T) {
	p := Partition{Topic: "orders", Partition: 3}
	cause := errors.New("cause")
	plain := NewFault(Unreachable, p, 7, cause)
	if got, want := plain.Error(), "orders/3: unreachable at offset 7: cause"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(plain, cause) {
		t.Error("the cause is lost")
	}
	d := NewFault(Diverged, p, 80, nil)
	d.LogStart, d.LogEnd, d.DivergingEpoch, d.DivergingEnd = 0, 120, 0, 30
	for _, want := range []string{"source log start 0, end 120", "epoch 0 ends at 30"} {
		if !strings.Contains(d.Error(), want) {
			t.Errorf("%q lacks %q", d.Error(), want)
		}
	}
}

// TestKindsAreNamed: each kind has a name of its own, and the data kinds do not
// end by themselves.
func TestKindsAreNamed(t *testing.T) {
	seen := map[string]Kind{}
	for k := Unreachable; k <= Unexpected; k++ {
		name := k.String()
		if strings.HasPrefix(name, "kind-") || seen[name] != 0 {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[name] = k
	}
	for _, k := range []Kind{Gone, Recreated, Overrun, Diverged, Corrupt, Unexpected} {
		if k.Temporary() {
			t.Errorf("%s is about data and counts as temporary", k)
		}
	}
	if Kind(99).String() != "kind-99" {
		t.Error("an unknown kind has no name")
	}
}
