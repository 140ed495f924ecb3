package switchover

import (
	"context"
	"fmt"

	"klink/fetcher/feed"
	"klink/translate/exact"
)

// Copies tells where the copies lie of a partition that is mirrored in checkpoint
// mode.
type Copies interface {
	// Copies returns the map of a partition with all that its log holds, also what
	// went there after the map's last record; nil for one in mirror mode. The caller
	// may change it.
	Copies(ctx context.Context, p CopiedPartition) (*exact.Map, error)
}

// CopiedPartition is a partition whose copies are asked for.
type CopiedPartition struct {
	Source, Target     feed.Partition
	SourceID, TargetID feed.TopicID
	// Producer is the id of the mirror's batches in the target's log.
	Producer int64
}

// copies asks for the map of a partition, nil where it is in mirror mode: that takes
// no right on the topic of maps, which such a link does not have.
func (s *Switch) copies(ctx context.Context, f *fate) (*exact.Map, error) {
	if s.o.Copies == nil || f.m.TargetID.IsZero() || f.m.keepsOffsets {
		return nil, nil
	}
	m, err := s.o.Copies.Copies(ctx, CopiedPartition{Source: f.source(), Target: f.place(),
		SourceID: f.m.SourceID, TargetID: f.m.TargetID, Producer: f.producer})
	if err != nil {
		return nil, fmt.Errorf("read where its copies lie: %w", err)
	}
	return m, nil
}

// addCopies puts the map into a partition's facts, up to where its mirror ends
// (X8). A map that cannot be read leaves the end unknown.
func (s *Switch) addCopies(ctx context.Context, f *fate) {
	m, err := s.copies(ctx, f)
	switch {
	case err != nil:
		f.facts.ends.Err = err
	case m != nil:
		if end := f.facts.end(); end != feed.Unknown {
			m.CutDst(end)
		}
		f.facts.copies = m
	}
}

// copied is the number of copies at or above a target offset.
func copied(m *exact.Map, dst int64) (n int64) {
	for r := range m.Runs() {
		if r.DstEnd() > dst {
			n += r.DstEnd() - max(r.Dst, dst)
		}
	}
	return n
}
