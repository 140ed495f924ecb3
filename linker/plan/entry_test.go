package plan

import "testing"

// TestShowsCompaction: only what a cleaner alone leaves behind is a proof.
func TestShowsCompaction(t *testing.T) {
	plain := shape{last: 9, count: 10, pid: -1}
	for name, c := range map[string]struct {
		s    shape
		want Compaction
	}{
		"plain":                  {plain, NotCompacted},
		"holes":                  {shape{last: 9, count: 4, pid: -1}, Compacted},
		"header only":            {shape{last: 9, pid: 7}, Compacted},
		"delete horizon":         {shape{last: 9, count: 10, pid: -1, attributes: horizonBit}, Compacted},
		"marker":                 {shape{pid: 7, marker: "commit"}, NotCompacted},
		"emptied marker":         {shape{pid: 7, marker: "emptied"}, Compacted},
		"marker with a horizon":  {shape{pid: 7, marker: "abort", attributes: horizonBit}, Compacted},
		"old format, holes hide": {shape{old: true, last: 9, pid: -1}, NotCompacted},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := ReadEntries(nil, [][]byte{plain.bytes(t), c.s.bytes(t)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := ShowsCompaction(entries); got != c.want {
				t.Errorf("compacted: %v", got)
			}
		})
	}
}
