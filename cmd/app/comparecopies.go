package app

import (
	"context"
	"errors"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/comparator"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/translate/exact"
)

// comparedModes are the comparator's words for the modes of a link.
var comparedModes = map[config.Mode]comparator.Mode{config.ModeMirror: comparator.Mirror, config.ModeCheckpoint: comparator.Checkpoint}

// errOtherMirror: what is on record of a topic is not about those that are compared.
var errOtherMirror = errors.New("the mirror on record is of other topics: one of them was made anew, or renamed")

// comparedCopies tells the comparator where a link's copies lie, by what is on the
// target.
type comparedCopies struct {
	link config.Link
	view *control.View // nil where nothing is on record of any link
	lies *targetCopies
	m    *leaders.Map
}

// newComparedCopies reads what is on record of a link; close must be called.
func newComparedCopies(ctx context.Context, l config.Link, dst *kafka.Target, memory config.Bytes) (*comparedCopies, error) {
	within, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := control.Read(within, dst.Control)
	why := remote.ReasonOf(err)
	// Whoever may not read the record compares topics of a link in mirror mode by their
	// offsets.
	if err != nil && why != state.TopicMissing && (l.Translates() || why != state.NoPermission) {
		return nil, err
	}
	c := &comparedCopies{link: l, view: v, m: leaders.New(dst.Admin)}
	c.lies = newTargetCopies(l.Name, dst, c.m, fetcher.NewBudget(int64(memory)))
	return c, nil
}

func (c *comparedCopies) close() {
	c.lies.close()
	c.m.Close()
}

// of tells where the copies of a partition lie; nil of one that keeps offsets.
func (c *comparedCopies) of(ctx context.Context, p comparator.CopiedPartition) (*comparator.Copied, error) {
	none := &comparator.Copied{} // of a link in checkpoint mode that has not begun
	if c.link.Mode != config.ModeCheckpoint {
		none = nil
	}
	if c.view == nil {
		return none, nil
	}
	rec, known := c.view.Topic(c.link.Name, p.Topic.Source)
	src, _ := c.view.Link(c.link.Name)
	switch {
	case !known || rec.Mode != control.ModeCheckpoint && !c.link.Translates():
		return none, nil
	case rec.TargetTopic != p.Topic.Target || rec.SourceID != feed.TopicID(p.SourceID) || rec.TargetID != feed.TopicID(p.TargetID):
		return nil, errOtherMirror
	}
	if rec.Mode == control.ModeCheckpoint {
		none = &comparator.Copied{}
	}
	m, producer, err := c.lies.onRecord(ctx, src.SourceClusterID, rec, p.Partition)
	if err != nil || m == nil {
		return none, err
	}
	out := copiedOf(m)
	out.Producer = producer
	return out, nil
}

// beginsAt is where a map begins that goes on from what another mirror copied.
func beginsAt(m *exact.Map, c *comparator.Copied) int64 {
	switch {
	case m.Adopted() == 0:
		return 0
	case len(c.Runs) == 0:
		return c.Next
	default:
		return c.Runs[0].Source
	}
}

// copiedOf is a map in the comparator's words.
func copiedOf(m *exact.Map) *comparator.Copied {
	out := &comparator.Copied{Runs: make([]comparator.Run, 0, m.Len()), Producer: -1}
	for r := range m.Runs() {
		out.Runs = append(out.Runs, comparator.Run{Source: r.Src, Target: r.Dst, Records: r.Count})
	}
	out.Next, _ = m.End()
	out.Begins = beginsAt(m, out)
	return out
}
