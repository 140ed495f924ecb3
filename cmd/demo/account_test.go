package demo

import (
	"testing"

	"klink/cmd/lab"
)

func ranges(bounds ...int64) (out []lab.Range) {
	for i := 0; i < len(bounds); i += 2 {
		out = append(out, lab.Range{From: bounds[i], To: bounds[i+1]})
	}
	return out
}

func TestAccount(t *testing.T) {
	for _, c := range []struct {
		name                   string
		d                      delivered
		end                    int64
		twice, lost, resumedAt int64
	}{
		{"nothing at all", delivered{}, 0, 0, 0, -1},
		{"nothing delivered", delivered{}, 7, 0, 7, -1},
		{"everything before the switch", delivered{source: ranges(0, 10)}, 10, 0, 0, -1},
		{"goes on exactly where it stopped", delivered{source: ranges(0, 6), target: ranges(6, 10)}, 10, 0, 0, 6},
		{"since the last commit again", delivered{source: ranges(0, 8), target: ranges(5, 10)}, 10, 3, 0, 5},
		{"a hole between the sides", delivered{source: ranges(0, 4), target: ranges(6, 10)}, 10, 0, 2, 6},
		{"the tail is missing", delivered{source: ranges(0, 4), target: ranges(4, 7)}, 10, 0, 3, 4},
		{"read what was never mirrored", delivered{source: ranges(0, 15), target: ranges(8, 10)}, 10, 2, 0, 8},
		{"never mirrored, and a hole below it", delivered{source: ranges(0, 5, 12, 15), target: ranges(7, 10)}, 10, 0, 2, 7},
		{"all of it again", delivered{source: ranges(0, 10), target: ranges(0, 10)}, 10, 10, 0, 0},
		{"one side repeats by itself", delivered{source: ranges(0, 10), sourceRepeats: 4, target: ranges(9, 12), targetRepeats: 1}, 12, 6, 0, 9},
		{"holes on both sides", delivered{source: ranges(0, 2, 4, 6), target: ranges(1, 5, 8, 9)}, 10, 2, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.d.twice(); got != c.twice {
				t.Errorf("twice: %d, want %d", got, c.twice)
			}
			if got := c.d.lost(c.end); got != c.lost {
				t.Errorf("lost: %d, want %d", got, c.lost)
			}
			if got := c.d.resumedAt(); got != c.resumedAt {
				t.Errorf("resumed at: %d, want %d", got, c.resumedAt)
			}
		})
	}
}
