package reverse

import (
	"cmp"
	"context"
	"errors"
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
	// ids are the producers that the old source's leader remembers, holder the one
	// of them with the oldest open transaction.
	ids    map[int64]bool
	holder *feed.Producer
	err    error
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
	for _, t := range ts {
		t.partitions = make([]lookedPartition, max(t.old.partitions, t.promoted.partitions))
		for n := range t.partitions {
			jobs = append(jobs, job{t, int32(n)})
		}
	}
	for _, pass := range []func(context.Context, job){r.oldEnds, func(ctx context.Context, j job) { r.lookInto(ctx, s, j) }, r.oldEndsAgain} {
		g := new(errgroup.Group)
		g.SetLimit(looksAtOnce)
		for _, j := range jobs {
			if p := j.found(); p.err == nil && ctx.Err() == nil {
				g.Go(func() error { pass(ctx, j); return nil })
			}
		}
		_ = g.Wait() // the functions return no errors
	}
	return ctx.Err()
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

// ends reads one log's ends; the true log end where the leader tells it.
func ends(ctx context.Context, r Reader, p feed.Partition, id feed.TopicID) (Ends, error) {
	b, err := r.Bounds(ctx, p, id)
	if err != nil {
		return Ends{}, err
	}
	return Ends{Start: max(0, b.LogStart), Stable: b.LastStable, End: max(b.LogEnd, b.HighWatermark)}, nil
}

// oldEnds reads the old source's ends; a partition that it has not got has none.
func (r *Reverser) oldEnds(ctx context.Context, j job) {
	p := j.found()
	if j.n < j.old.partitions {
		p.facts.Old, p.err = ends(ctx, r.o.Source.Reader, j.onOld(), j.old.id)
	}
	p.facts.Again = p.facts.Old
}

func (r *Reverser) oldEndsAgain(ctx context.Context, j job) {
	p := j.found()
	if j.n < j.old.partitions {
		p.facts.Again, p.err = ends(ctx, r.o.Source.Reader, j.onOld(), j.old.id)
	}
}

// lookInto reads the promoted side's ends and compares the logs.
func (r *Reverser) lookInto(ctx context.Context, s *survey, j job) {
	p := j.found()
	f := &p.facts
	f.Cut, f.Compacted, f.VisibleFills = cutOf(j.cut, j.n), j.was.Compacted, r.o.VisibleFills
	if j.n < j.promoted.partitions {
		if f.New, p.err = ends(ctx, r.o.Target.Reader, j.onPromoted(), j.promoted.id); p.err != nil {
			return
		}
	}
	if l, ok := s.old.Ledger(s.req.Link, j.was.SourceTopic, j.n); ok {
		f.Windows = windows(l)
	}
	if j.n >= j.old.partitions {
		return
	}
	if p.err = r.compare(ctx, j); p.err == nil {
		p.err = r.remember(ctx, j)
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

// remember notes the producers that the old source's leader knows of. A broker that
// does not tell is no obstacle: what is on record then has to do.
func (r *Reverser) remember(ctx context.Context, j job) error {
	all, err := r.o.Source.Reader.Producers(ctx, j.onOld(), j.old.id)
	if err != nil {
		var f *feed.Fault
		if errors.As(err, &f) && f.Kind.Temporary() && f.Kind != feed.Unauthorized {
			return err
		}
		r.o.Logger.Debug("the old source does not tell of its producers", "topic", j.was.SourceTopic, "partition", j.n, "error", err)
		return nil
	}
	p := j.found()
	p.ids = make(map[int64]bool, len(all))
	for i, x := range all {
		p.ids[x.ID] = true
		if x.TxnStart != feed.Unknown && (p.holder == nil || x.TxnStart < p.holder.TxnStart) {
			p.holder = &all[i]
		}
	}
	return nil
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
