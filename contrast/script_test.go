package contrast

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"klink/cmd/lab"
)

func scripted(seed uint64, ticks int) (all []deed) {
	s := newScript(seed, 2000)
	for range ticks {
		all = append(all, s.next()...)
	}
	return all
}

// X2.
func TestTheSameSeedGivesTheSameLoad(t *testing.T) {
	digest := func(seed uint64) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, scripted(seed, 40))) }
	first := digest(7)
	if again := digest(7); again != first {
		t.Error("it differs")
	}
	if digest(8) == first {
		t.Error("another seed gives the same load")
	}
}

func TestTheLoadHasAllShapes(t *testing.T) {
	const ticks = 100
	counts, aborted, committed := map[string]int64{}, 0, 0
	serials := map[lab.Partition]int64{}
	keys := map[string]int{}
	for _, d := range scripted(7, ticks) {
		switch {
		case d.abort:
			aborted++
		case d.part.transactional:
			committed++
		}
		for _, m := range d.messages {
			counts[m.at.Topic]++
			if m.serial != serials[m.at] {
				t.Fatalf("%s: serial %d, want %d", m.at, m.serial, serials[m.at])
			}
			serials[m.at]++
			if d.part.keys > 0 {
				keys[m.key]++
			}
		}
	}
	var want int64 = 2000 * ticks / ticksPerSecond
	for _, p := range parts {
		if counts[p.name] != want*p.percent/100 {
			t.Errorf("%s has %d records, want %d %% of %d", p.name, counts[p.name], p.percent, want)
		}
		for n := range p.partitions {
			if serials[lab.Partition{Topic: p.name, Number: n}] == 0 {
				t.Errorf("%s[%d] has no records", p.name, n)
			}
		}
	}
	if aborted == 0 || committed <= aborted {
		t.Errorf("%d transactions aborted, %d committed", aborted, committed)
	}
	if keys["first"] != 2 || len(keys) > 42 {
		t.Errorf("keys %v", keys)
	}
}

func TestBurstsPause(t *testing.T) {
	s := newScript(1, 1000)
	for tick := 1; tick <= 40; tick++ {
		n := 0
		for _, d := range s.next() {
			if d.part.name == "bursts" {
				n += len(d.messages)
			}
		}
		if want := map[bool]int{true: 500}[tick%20 == 0]; n != want {
			t.Errorf("tick %d has %d, want %d", tick, n, want)
		}
	}
}

func TestPlacesOfTheGroups(t *testing.T) {
	const steps = 10
	for name, want := range map[string][][2]int{
		"current": {{100, 0}, {100, 5}, {100, 6}, {100, 8}, {100, 10}},
		"lagging": {{40, 0}, {40, 5}, {40, 6}, {40, 8}, {40, 10}},
		"rewinds": {{100, 0}, {100, 5}, {30, 6}, {40, 6}, {50, 6}},
	} {
		for _, m := range company {
			if m.name != name {
				continue
			}
			for i, step := range []int{0, 5, 6, 8, 10} {
				if percent, of := m.place(step, steps); [2]int{percent, of} != want[i] {
					t.Errorf("%s at step %d: %d %% of step %d, want %v", name, step, percent, of, want[i])
				}
			}
		}
	}
	for steps := range 5 { // also of very short loads
		for step := range steps + 1 {
			if percent, of := rewinding(step, steps); percent < 0 || percent > 100 || of < 0 || of > max(step, 1) {
				t.Errorf("step %d of %d: %d %% of step %d", step, steps, percent, of)
			}
		}
	}
}

func TestCommitAt(t *testing.T) {
	src := log(0, -1, 3, 4, 6)
	for _, c := range []struct {
		serials int64
		percent int
		want    int64
	}{{0, 100, 0}, {1, 100, 1}, {2, 100, 1}, {5, 100, 7}, {5, 50, 4}, {5, 0, 0}, {99, 100, 7}} {
		if got := commitAt(src, c.serials, c.percent); got != c.want {
			t.Errorf("%d %% of %d: %d, want %d", c.percent, c.serials, got, c.want)
		}
	}
}
