package groups

import (
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/translate/exact"
)

// Mirror is one topic of the link, as offsets are concerned.
type Mirror struct {
	Source, Target string
	// ID is the target topic's, zero where the cluster has none or it is not made.
	ID feed.TopicID
	// Drifts: it is in checkpoint mode, so that a Translator tells where offsets lie.
	Drifts bool
	// Barred is why none of its offsets may be written, Synced where they may.
	Barred Verdict
	// Partitions tells of single ones why their offsets may not be written.
	Partitions map[int32]Verdict
}

// bars is why nothing may be written for a partition, Synced where it may.
func (m Mirror) bars(partition int32) Verdict {
	if m.Barred != Synced {
		return m.Barred
	}
	return m.Partitions[partition]
}

// accepts tells whether a command takes over what the target has of a partition.
func (l Look) accepts(p feed.Partition) bool {
	c := l.Accept
	return c.Number > l.Record.Accepted && (len(c.Topics) == 0 || slices.Contains(c.Topics, p.Topic)) &&
		(len(c.Partitions) == 0 || slices.Contains(c.Partitions, p.Partition))
}

// Place is an offset of a source partition.
type Place struct {
	Partition feed.Partition
	Offset    int64
}

// Look is what a group is decided on.
type Look struct {
	Mirrors map[string]Mirror // by source topic
	// Translated is where source offsets of topics that drift lie on the target; of one
	// that is missing that is not known.
	Translated map[Place]exact.Answer
	// Committed are the group's offsets on the target, with Metadata; Untold those
	// that it did not tell; Trouble is why it told none at all.
	Committed map[feed.Partition]int64
	Metadata  map[feed.Partition]string
	Untold    map[feed.Partition]Verdict
	Trouble   Verdict
	// Record is the one that stands in the control topic.
	Record control.GroupRecord
	// Accept is the newest command by which what the target has counts as klink's;
	// it is obeyed once.
	Accept intent.Command
	// RenewAfter is how long an offset of klink's may stay as it is.
	RenewAfter time.Duration
	Now        time.Time
}

// Places lists the source offsets of groups that may be written.
func (d *Desk) Places(groups []string, mirrors map[string]Mirror) (out []Place) {
	for _, g := range groups {
		e := d.groups[g]
		if e == nil {
			continue
		}
		for p, f := range e.facts {
			if m, ok := mirrors[p.Topic]; ok && m.bars(p.Partition) == Synced {
				out = append(out, Place{p, f.offset})
			}
		}
	}
	return out
}

// wantedOf lists the target partitions of source offsets, with the highest offset that
// any of them is to have.
func wantedOf(places []Place, l Look) map[feed.Partition]int64 {
	out := make(map[feed.Partition]int64)
	for _, p := range places {
		at := max(0, p.Offset)
		if a := l.translated(p); a != nil {
			at = a.Offset
		}
		t := feed.Partition{Topic: l.Mirrors[p.Partition.Topic].Target, Partition: p.Partition.Partition}
		out[t] = max(out[t], at)
	}
	return out
}

// translated tells where an offset lies on the target, nil where that is at the same
// number, as on topics that keep their offsets. One that was not asked for is not known
// (exact.None).
func (l Look) translated(p Place) *exact.Answer {
	if !l.Mirrors[p.Partition.Topic].Drifts {
		return nil
	}
	a := l.Translated[p]
	return &a
}

// Input is what a group's commits follow from, but for the bounds.
func (d *Desk) Input(group string, l Look) Input {
	in := Input{Committed: l.Committed, Written: make(map[feed.Partition][]int64)}
	e := d.groups[group]
	if e == nil {
		return in
	}
	if l.Now.Sub(e.listedAt) <= d.pace.ListedFor && e.members != MembersUnknown {
		in.Members = e.members
	}
	recorded := entries(l.Record)
	for p, f := range e.facts {
		m, ok := l.Mirrors[p.Topic]
		if !ok {
			continue
		}
		t := feed.Partition{Topic: m.Target, Partition: p.Partition}
		if f.restored() {
			f.metadata = l.Metadata[t] // the source's is not known yet
		}
		s := SourceOffset{Partition: p, Target: t, Offset: f.offset, Metadata: f.metadata, Barred: m.bars(p.Partition),
			Translated: l.translated(Place{p, f.offset})}
		f.own.settle(l.Now)
		in.Written[t] = f.own.may(recorded[t], e.trusts(l.Record))
		if have, ok := l.Committed[t]; ok && l.accepts(p) {
			f.own.answered(have)
			in.Written[t] = append(in.Written[t], have)
		}
		switch {
		case s.Barred != Synced:
		case l.Trouble != Synced:
			s.Barred = l.Trouble
		case l.Untold[t] != Synced:
			s.Barred = l.Untold[t]
		case f.offset == feed.Unknown:
			s.Barred = SourceDeleted
		}
		want, _ := s.want()
		s.Renew = e.renews(f, l) || f.metadata != l.Metadata[t] && f.dropped != want
		in.Source = append(in.Source, s)
	}
	return in
}

// restored tells whether all that is known of the offset was on record.
func (f *fact) restored() bool { return f.event.IsZero() && f.asked.IsZero() }

// trusts tells whether the record is the one that this process wrote last.
func (e *entry) trusts(r control.GroupRecord) bool { return !e.put.IsZero() && r.At.Equal(e.put) }

// renews tells whether an offset that did not change is old enough to be written
// again. One that an earlier process wrote is renewed at some time of the first
// period, so that not all groups are at once; by then it is two periods old at
// most (U7).
func (e *entry) renews(f *fact, l Look) bool {
	if f.written.IsZero() {
		f.written = l.Now.Add(-time.Duration(spread(e.name) * float64(l.RenewAfter)))
	}
	return l.Now.Sub(f.written) >= l.RenewAfter
}

// spread gives each name its place between 0 and 1.
func spread(name string) float64 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return float64(h%1024) / 1024
}

// entries are a record's by target partition; absent ones know of nothing.
func entries(r control.GroupRecord) map[feed.Partition]control.GroupOffset {
	out := make(map[feed.Partition]control.GroupOffset, len(r.Offsets))
	for _, o := range r.Offsets {
		out[feed.Partition{Topic: o.Topic, Partition: o.Partition}] = o
	}
	return out
}

// Record gives the record that goes ahead of a group's commits, and tells
// whether it says anything that the one before does not. What is on record of
// topics that this link does not mirror now stays.
func (d *Desk) Record(group string, l Look, commits []Commit, standings []Standing) (next control.GroupRecord, news bool) {
	e := d.groups[group]
	if e == nil {
		return l.Record, false
	}
	old, trusted := entries(l.Record), e.trusts(l.Record)
	writes := make(map[feed.Partition]Commit, len(commits))
	for _, c := range commits {
		writes[c.Partition] = c
	}
	next = control.GroupRecord{Link: l.Record.Link, Group: group, At: l.Now, Accepted: max(l.Record.Accepted, l.Accept.Number)}
	all := make(map[feed.Partition]control.GroupOffset, len(old))
	for p, o := range old {
		all[p] = o
	}
	for _, s := range standings {
		t := s.Source.Target
		f := e.facts[s.Source.Partition]
		o, was := old[t]
		if !was {
			o = control.GroupOffset{Topic: t.Topic, Partition: t.Partition, Previous: feed.Unknown, Written: feed.Unknown, SourceOffset: feed.Unknown}
		}
		if f.over(s) {
			delete(all, t) // the copy has expired: nothing is left to know of
			continue
		}
		mays := f.own.may(o, trusted)
		o.Previous, o.Written = f.own.recorded(o, trusted)
		if have, ok := l.Committed[t]; ok && have != o.Written && slices.Contains(mays, have) {
			o.Previous = have // it came late: the next process must know it for klink's
		}
		if have, ok := l.Committed[t]; ok && l.accepts(s.Source.Partition) {
			o.Previous, o.Written = have, have
		}
		if c, ok := writes[t]; ok && !c.Renewal() {
			o.Previous, o.Written = c.Previous, c.Offset
		}
		if f.offset != feed.Unknown {
			o.SourceOffset, o.At = f.offset, f.at
		}
		o.Reason = string(s.Verdict)
		all[t] = o
	}
	for _, o := range all {
		next.Offsets = append(next.Offsets, o)
	}
	slices.SortFunc(next.Offsets, func(a, b control.GroupOffset) int {
		return compare(feed.Partition{Topic: a.Topic, Partition: a.Partition}, feed.Partition{Topic: b.Topic, Partition: b.Partition})
	})
	return next, next.Accepted != l.Record.Accepted || differs(l.Record.Offsets, next.Offsets)
}

// over tells whether there is nothing more to know of a partition: neither side has an
// offset, and none that klink wrote can come yet (U4).
func (f *fact) over(s Standing) bool {
	return s.Verdict == SourceDeleted && s.Target == feed.Unknown && !f.own.pending()
}

// differs tells whether more than times differ.
func differs(a, b []control.GroupOffset) bool {
	return !slices.EqualFunc(a, b, func(x, y control.GroupOffset) bool {
		x.At, y.At = time.Time{}, time.Time{}
		return x == y
	})
}

// Put notes the record that this process wrote.
func (d *Desk) Put(group string, at time.Time) {
	if e := d.groups[group]; e != nil {
		e.put = at
	}
}

// Outcome is what became of one commit.
type Outcome struct {
	Commit  Commit
	Verdict Verdict
	// Unanswered: it may have been carried out, or be some time later.
	Unanswered bool
}

// written tells whether the target has acknowledged it.
func (o Outcome) written() bool {
	return !o.Unanswered && (o.Verdict == Synced || o.Verdict == MetadataDropped)
}

// Stand takes the standings of a look, with what became of its commits. It
// returns how long each new commit of the source took to the target.
func (d *Desk) Stand(group string, standings []Standing, outcomes []Outcome, now time.Time) (took []time.Duration) {
	e := d.groups[group]
	if e == nil {
		return nil
	}
	by := make(map[feed.Partition]Outcome, len(outcomes))
	for _, o := range outcomes {
		by[o.Commit.Partition] = o
	}
	for _, s := range standings {
		f := e.facts[s.Source.Partition]
		if f == nil {
			continue
		}
		o, tried := by[s.Source.Target]
		if tried {
			s = e.outcome(f, s, o, now)
		}
		if s.Verdict == Synced && f.dropped == s.Target {
			s.Verdict = MetadataDropped
		}
		f.target, f.stands, f.verdict = s.Target, s.Source.stands(s.Target), s.Verdict
		if f.over(s) {
			delete(e.facts, s.Source.Partition)
			continue
		}
		if f.offset != feed.Unknown && f.stands == f.offset {
			f.synced = f.at
			if tried && o.written() && !f.committed.IsZero() {
				took = append(took, max(0, now.Sub(f.committed)))
			}
			f.committed = time.Time{}
		}
	}
	if len(e.facts) == 0 {
		d.forget(e)
	}
	return took
}

// outcome corrects a standing by what became of its commit.
func (e *entry) outcome(f *fact, s Standing, o Outcome, now time.Time) Standing {
	switch {
	case o.written():
		f.own.answered(o.Commit.Offset)
		f.written, f.dropped = now, feed.Unknown
		if o.Verdict == MetadataDropped {
			f.dropped = o.Commit.Offset
		}
		return s
	case o.Unanswered:
		f.own.unanswered(o.Commit.Offset, now)
	default:
		f.own.answered(o.Commit.Previous)
	}
	s.Target, s.Verdict = o.Commit.Previous, o.Verdict
	if o.Verdict == GroupActive {
		e.members, e.listedAt = HasMembers, now
	}
	return s
}

// Trouble has all partitions of a group wait for the same.
func (d *Desk) Trouble(group string, v Verdict) {
	if e := d.groups[group]; e != nil {
		for _, f := range e.facts {
			f.verdict = v
		}
	}
}
