package exact

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
)

// TestBytes pins the form: what is stored on targets stays readable.
func TestBytes(t *testing.T) {
	runs := []Run{{Src: 5, Dst: 7, Count: 300, Seq: 0}, {Src: 306, Dst: 307, Count: 1, Seq: 300}, {Src: 307, Dst: 400, Count: 2, Seq: 5}}
	const want = "01" + "03" + "0507ac0200" + "01000100" + "005c02" + "d8fdffff07"
	b, err := Encode(nil, runs)
	if err != nil || hex.EncodeToString(b) != want {
		t.Fatalf("%x, %v; want %s", b, err, want)
	}
	if got, err := Decode(b); err != nil || !slices.Equal(got, runs) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	one := Run{Src: 1, Dst: 1, Count: 2}
	for name, runs := range map[string][]Run{
		"an empty run":  {{}},
		"an overlap":    {one, {Src: 2, Dst: 9, Count: 1}},
		"a lower copy":  {one, {Src: 9, Dst: 2, Count: 1}},
		"the rest":      {one, {Src: 3, Dst: 3, Count: 1, Seq: 2}},
		"too many runs": make([]Run, MostRuns+1),
	} {
		if b, err := Encode(nil, runs); err == nil {
			t.Errorf("%s: %x", name, b)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		err  error
	}{
		"nothing":            {"", ErrCorrupt},
		"a later version":    {"02", ErrNewer},
		"no count":           {"01", ErrCorrupt},
		"more than there is": {"01ff01", ErrCorrupt},
		"a run of none":      {"010100000000", ErrCorrupt},
		"bytes behind":       {"01010000010000", ErrCorrupt},
		"a longer form":      {"0101800000010000", ErrCorrupt},
		"beyond the highest": {"0101ffffffffffffffff7f000200", ErrCorrupt},
		"a sequence above":   {"01010000018080808008", ErrCorrupt},
	} {
		b, err := hex.DecodeString(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b); !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestFromRunsRefusesAnOverlap(t *testing.T) {
	if _, err := FromRuns([]Run{{Src: 0, Dst: 0, Count: 3}, {Src: 2, Dst: 9, Count: 1}}, 0); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, runs := range [][]Run{nil, {{Src: 5, Dst: 7, Count: 300}}, {{Count: 1}, {Src: 3, Dst: math.MaxInt64 - 9, Count: 9, Seq: math.MaxInt32}}} {
		b, err := Encode(nil, runs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(nil, runs)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
		var src int64
		if n := len(runs); n > 0 {
			src = runs[n-1].SrcEnd()
		}
		if m, err := FromRuns(runs, src); err != nil || m.Len() != len(runs) {
			t.Fatal(err)
		}
	})
}
