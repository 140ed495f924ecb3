package reverse

import (
	"testing"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
)

// TestH4_Generations: above all on record for the pair of topics, whichever link had
// them, and none that a broker remembers.
func TestH4_Generations(t *testing.T) {
	id, other := feed.TopicID{1}, feed.TopicID{2}
	rec := func(link, target string, source feed.TopicID, generation int32) control.TopicRecord {
		return control.TopicRecord{Link: link, TargetTopic: target, SourceID: source, Generation: generation}
	}
	for name, c := range map[string]struct {
		records    []control.TopicRecord
		remembered []int32
		want       int32
	}{
		"nothing":            {nil, nil, 0},
		"one":                {[]control.TopicRecord{rec("a", "t", id, 0)}, nil, 1},
		"two links":          {[]control.TopicRecord{rec("a", "t", id, 3), rec("b", "t", id, 7)}, nil, 8},
		"another source":     {[]control.TopicRecord{rec("a", "t", other, 3)}, nil, 0},
		"another target":     {[]control.TopicRecord{rec("a", "u", id, 3)}, nil, 0},
		"remembered":         {nil, []int32{0, 1, 3}, 2},
		"remembered, behind": {[]control.TopicRecord{rec("a", "t", id, 3)}, []int32{0, 3}, 4},
		"remembered, ahead":  {[]control.TopicRecord{rec("a", "t", id, 3)}, []int32{4, 5}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			l := looked{was: control.TopicRecord{SourceTopic: "t", TargetID: id}, partitions: make([]lookedPartition, 2)}
			for _, g := range c.remembered {
				l.partitions[1].ids = map[int64]bool{}
				for _, g := range c.remembered {
					l.partitions[1].ids[appender.ProducerID("B", id, 1, g)] = true
				}
				l.partitions[0].ids = map[int64]bool{appender.ProducerID("B", id, 1, g): true} // of another partition
			}
			s := survey{link: control.LinkRecord{TargetClusterID: "B"}, claims: claims{records: map[string][]control.TopicRecord{}}}
			for _, r := range c.records {
				s.claims.records[r.TargetTopic] = append(s.claims.records[r.TargetTopic], r)
			}
			if got := s.generation(&l); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
