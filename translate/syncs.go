package translate

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/mm2"
)

// Syncs are all offset syncs that are still in their topic.
type Syncs struct {
	Read
	lines map[Partition]*mm2.History
}

// ReadSyncs reads an offset syncs topic (mm2.Policy.OffsetSyncsOnSource and
// OffsetSyncsOnTarget). Errors and rights are those of ReadCheckpoints.
func ReadSyncs(ctx context.Context, cl *kgo.Client, topic string) (*Syncs, error) {
	s := &Syncs{}
	r, err := readAll(ctx, cl, topic, s.apply)
	s.Read = r
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Syncs) apply(r *kgo.Record) error {
	got, err := mm2.DecodeSync(r.Key, r.Value)
	if err != nil {
		return err
	}
	p := Partition{got.Topic, got.Partition}
	h := s.lines[p]
	if h == nil {
		h = &mm2.History{}
		if s.lines == nil {
			s.lines = make(map[Partition]*mm2.History)
		}
		s.lines[p] = h
	}
	h.Add(got.Up, got.Down)
	return nil
}

// Translate answers for a source offset.
func (s *Syncs) Translate(p Partition, offset int64) mm2.Translation {
	h := s.lines[p]
	if h == nil {
		return mm2.Translation{}
	}
	return h.Translate(offset)
}

// TranslateBack answers for an offset of the partition's copy.
func (s *Syncs) TranslateBack(p Partition, offset int64) mm2.Translation {
	h := s.lines[p]
	if h == nil {
		return mm2.Translation{}
	}
	return h.TranslateBack(offset)
}

// allows tells whether a checkpoint can still be right, as far as the syncs tell
// (mm2.History.Allows).
func (s *Syncs) allows(p Partition, cp *Checkpoint) bool {
	h := s.lines[p]
	return h == nil || h.Allows(cp.Up, cp.Down)
}
