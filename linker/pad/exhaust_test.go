package pad

import (
	"slices"
	"testing"
	"testing/synctest"
)

// script chooses fates by number: the choices, then well for the rest.
type script struct {
	choices []int
	// taken are the numbers of fates that could be chosen from, call by call.
	taken []int
}

func (s *script) pick(_ string, fates []fate) fate {
	i := len(s.taken)
	s.taken = append(s.taken, len(fates))
	if i < len(s.choices) {
		return fates[s.choices[i]]
	}
	return well
}

// next is the script that follows, nil after the last one: all with at most most
// choices that are not well, by the calls that the last run made.
func (s *script) next(most int) *script {
	c := append(slices.Clone(s.choices), make([]int, max(0, len(s.taken)-len(s.choices)))...)
	for i := len(c) - 1; i >= 0; i-- {
		spent := 0
		for _, x := range c[:i] {
			if x > 0 {
				spent++
			}
		}
		if spent < most && c[i]+1 < s.taken[i] {
			c[i]++
			return &script{choices: c[:i+1]}
		}
	}
	return nil
}

// TestEveryFault: whatever happens at whatever call, and at any second call after
// it, padding ends at the goal, with the policy as it was, and P1 to P6 hold on
// the way (sim checks them at each call).
func TestEveryFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		goal   int64
		policy string
		faults int
	}{
		{"a chunk and a bit, compacted", 11, "compact", 2},
		{"one pad", 1, "compact", 2},
		{"a piece", 4, "delete", 2},
		{"two chunks", 16, "delete", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := c.faults
			if testing.Short() {
				faults = 1
			}
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				for s := (&script{}); s != nil; s = s.next(faults) {
					m := newSim(t, c.policy)
					m.pick = s.pick
					m.requireDone(m.lead(padded(c.goal), quick()), c.goal, quick())
					runs++
				}
				t.Logf("%d runs", runs)
			})
		})
	}
}
