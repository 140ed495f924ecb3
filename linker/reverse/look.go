package reverse

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
)

func compareNames(a, b string) int { return cmp.Compare(a, b) }

// looksAtOnce bounds the partitions that are read side by side, and with them the
// pieces held outside the fetch budget: two each.
const looksAtOnce = 8

// looked is one topic with what was found.
type looked struct {
	was control.TopicRecord
	// old and promoted are the topics on the two sides now.
	old, promoted seenTopic
	cut           control.CutRecord
	partitions    []lookedPartition
	// verdict is set where the partitions were not looked at, and detail with it.
	verdict Verdict
	detail  string
	// recreate: the request lets it be mirrored anew, and it has to be.
	recreate bool
	// generation is that of the new link's producer ids.
	generation int32
}

// lookedPartition is one partition with what was found.
type lookedPartition struct {
	facts   Facts
	verdict Verdict
	detail  string
	// toldProducers are the old source's.
	toldProducers
	err error
}

// cutOf finds a partition's cut.
func cutOf(r control.CutRecord, partition int32) Cut {
	for _, p := range r.Partitions {
		if p.Partition != partition {
			continue
		}
		c := Cut{End: p.TargetEnd, Fence: feed.Unknown}
		if p.FenceOffset != nil {
			c.Fence = *p.FenceOffset
		}
		return c
	}
	return noCut()
}

// lookAt reads the partitions of topics on both sides, first of all the old
// source's ends, and those once more at the end (H2).
func (r *Reverser) lookAt(ctx context.Context, s *survey, ts []*looked) error {
	var jobs []job
	onOld, onNew, seen := make(map[string]feed.TopicID), make(map[string]feed.TopicID), make(map[string]seenTopic)
	for _, t := range ts {
		t.partitions = make([]lookedPartition, max(t.old.partitions, t.promoted.partitions))
		if t.old.partitions > 0 {
			onOld[t.was.SourceTopic], seen[t.was.SourceTopic] = t.old.id, t.old
		}
		onNew[t.was.TargetTopic] = t.promoted.id
		for n := range t.partitions {
			jobs = append(jobs, job{t, int32(n)})
		}
	}
	old, err := readEnds(ctx, r.o.Source.Admin, onOld)
	if err != nil {
		return fmt.Errorf("old source: %w", err)
	}
	promoted, err := readEnds(ctx, r.o.Target.Admin, onNew)
	if err != nil {
		return fmt.Errorf("promoted side: %w", err)
	}
	producers := readProducers(ctx, r.o.Source.Admin, onOld, seen)
	g := new(errgroup.Group)
	g.SetLimit(looksAtOnce)
	for _, j := range jobs {
		j.note(s, r.o.VisibleFills)
		j.tell(old, promoted)
		j.found().toldProducers = producers[j.onOld()]
		if p := j.found(); p.err == nil && j.n < j.old.partitions {
			g.Go(func() error { p.err = r.compare(ctx, j); return nil })
		}
	}
	_ = g.Wait() // the functions return no errors
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.lookAgain(ctx, ts)
}

// lookAgain reads the old source's ends once more.
func (r *Reverser) lookAgain(ctx context.Context, ts []*looked) error {
	ids := make(map[string]feed.TopicID)
	for _, t := range ts {
		if len(t.partitions) > 0 && t.old.partitions > 0 {
			ids[t.was.SourceTopic] = t.old.id
		}
	}
	again, err := readEnds(ctx, r.o.Source.Admin, ids)
	if err != nil {
		return fmt.Errorf("old source: %w", err)
	}
	for _, t := range ts {
		for n := range t.partitions {
			j := job{t, int32(n)}
			if p := j.found(); p.err == nil && j.n < t.old.partitions {
				p.facts.Again, p.err = again[j.onOld()].Ends, answered(again, j.onOld())
			}
		}
	}
	return nil
}

// answered is what stands in the way of a partition's ends.
func answered(all map[feed.Partition]toldEnds, p feed.Partition) error {
	e, ok := all[p]
	if !ok {
		return errNoAnswer
	}
	return e.err
}

// job is one partition to look at.
type job struct {
	*looked
	n int32
}

func (j job) found() *lookedPartition { return &j.partitions[j.n] }

func (j job) onOld() feed.Partition {
	return feed.Partition{Topic: j.was.SourceTopic, Partition: j.n}
}

func (j job) onPromoted() feed.Partition {
	return feed.Partition{Topic: j.was.TargetTopic, Partition: j.n}
}

// note takes in what is on record.
func (j job) note(s *survey, visibleFills bool) {
	f := &j.found().facts
	f.Cut, f.Compacted, f.VisibleFills = cutOf(j.cut, j.n), j.was.Compacted, visibleFills
	if l, ok := s.old.Ledger(s.req.Link, j.was.SourceTopic, j.n); ok {
		f.Windows = windows(l)
	}
}

// tell takes in what the clusters say; a side that has not got the partition has no
// ends.
func (j job) tell(old, promoted map[feed.Partition]toldEnds) {
	p := j.found()
	if j.n < j.old.partitions {
		p.facts.Old, p.err = old[j.onOld()].Ends, answered(old, j.onOld())
	}
	p.facts.Again = p.facts.Old
	if j.n < j.promoted.partitions && p.err == nil {
		p.facts.New, p.err = promoted[j.onPromoted()].Ends, answered(promoted, j.onPromoted())
	}
}

// compare reads both logs from some way below the cut up to the old source's end.
func (r *Reverser) compare(ctx context.Context, j job) error {
	f := &j.found().facts
	b := bounds(*f, r.o.Sample)
	old := log{reader: r.o.Source.Reader, at: j.onOld(), id: j.old.id}
	promoted := log{reader: r.o.Target.Reader, at: j.onPromoted(), id: j.promoted.id}
	var err error
	f.Found, err = compare(old.records(ctx, b.From, b.End), promoted.records(ctx, b.From, min(b.End, f.New.Stable)), b)
	return err
}

// knows tells whether any leader of the old source remembers a producer of a
// generation; see appender.ProducerID. source is the promoted cluster's id.
func (t *looked) knows(source string) func(generation int32) bool {
	return func(generation int32) bool {
		for n := range t.partitions {
			if t.partitions[n].ids[appender.ProducerID(source, t.was.TargetID, int32(n), generation)] {
				return true
			}
		}
		return false
	}
}

// settle gives every partition and the topic their verdicts.
func (t *looked) settle(markers Answer) {
	if t.verdict != "" {
		return
	}
	t.verdict = InPlace
	for n := range t.partitions {
		p := &t.partitions[n]
		switch {
		case p.err != nil:
			p.verdict, p.detail = Unreadable, p.err.Error()
		default:
			p.verdict, p.detail = Decide(p.facts)
			p.barMarkers(markers)
			p.nameHolder()
		}
		if worse := t.verdict.worse(p.verdict); worse != t.verdict {
			t.verdict, t.detail = worse, fmt.Sprintf("partition %d: %s", n, p.detail)
		}
	}
	if t.old.partitions > t.promoted.partitions && t.verdict.rank() < MorePartitions.rank() {
		t.verdict, t.detail = MorePartitions, fmt.Sprintf("the old source's topic has %d partitions, the promoted side's %d", t.old.partitions, t.promoted.partitions)
	}
}

// nameHolder says whose transaction is open on the old source.
func (p *lookedPartition) nameHolder() {
	if p.verdict == Undecided && p.holder != nil {
		p.detail += fmt.Sprintf("; producer %d (epoch %d) has a transaction open there from offset %d on", p.holder.ID, p.holder.Epoch, p.holder.TxnStart)
	}
}

// barMarkers holds a partition back whose first step would be a marker that may not
// be written: the promoted side's fence.
func (p *lookedPartition) barMarkers(markers Answer) {
	if f := p.facts; p.verdict == InPlace && markers == No && f.Cut.Fence != feed.Unknown && f.Cut.Fence >= f.Old.End {
		p.verdict = NoPermission
		p.detail = fmt.Sprintf("missing right on the old source: %s: the promoted side's fence at offset %d has to be covered there", markersRight, f.Cut.Fence)
	}
}
