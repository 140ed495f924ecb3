package groups

import (
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/groups/commits"
)

// clockSlack is how far the clocks of klink and of the source's brokers may be
// apart before an event is wrongly taken for older than a poll's answer, which
// the next poll corrects.
const clockSlack = 2 * time.Second

// Desk knows what both sides said about each group, and when, and what is to be
// done next. It asks nobody, has no clock, and is not safe for concurrent use.
type Desk struct {
	pace   Pace
	groups map[string]*entry
	// queue holds the entries that wait to be looked at and are not busy.
	queue     map[*entry]struct{}
	unmatched []string
	peers     peers
}

// peers is the target's last listing.
type peers struct {
	listed map[string]Peer
	whole  bool
	asked  time.Time
}

// entry is one group.
type entry struct {
	name string
	// facts are the source's offsets by source partition.
	facts map[feed.Partition]*fact
	// carried: a listing showed a kind of group whose offsets are carried over;
	// foreign: one of another kind.
	carried, foreign bool
	// trouble is why its offsets on the source could not be read.
	trouble Verdict
	// members and coordinator are the target's, as listed at listedAt.
	members     Members
	coordinator int32
	listedAt    time.Time
	// put is the time in the last record that this process wrote of the group.
	put time.Time

	wait waiting
}

// fact is one offset that the source has.
type fact struct {
	// offset is feed.Unknown once the source has it no more.
	offset   int64
	metadata string
	// at is when the source had it last, as far as is known: when it was
	// committed, or when a question was asked that it answered.
	at time.Time
	// committed is the time of its commit while it is new and not on the target.
	committed time.Time
	// event is when the last event of it was received, asked when the last
	// question was asked that told it.
	event, asked time.Time

	// As of the last look at the target.
	target int64
	// stands is the source offset that target stands for, feed.Unknown for none.
	stands  int64
	verdict Verdict
	// synced is when the source last had what the target has.
	synced time.Time
	// written is when this process committed it last, dropped the offset that it
	// committed without its metadata.
	written time.Time
	dropped int64
	own     own
}

// newFact is an offset of which nothing is known yet.
func newFact() *fact {
	return &fact{offset: feed.Unknown, target: feed.Unknown, stands: feed.Unknown, dropped: feed.Unknown, verdict: Pending}
}

// NewDesk returns a Desk that knows nothing.
func NewDesk(p Pace) *Desk {
	return &Desk{pace: p, groups: make(map[string]*entry), queue: make(map[*entry]struct{})}
}

func (d *Desk) entry(group string) *entry {
	e := d.groups[group]
	if e == nil {
		e = &entry{name: group, facts: make(map[feed.Partition]*fact), coordinator: noCoordinator}
		d.groups[group] = e
		d.meet(e)
	}
	return e
}

// noCoordinator stands for one that was not told yet.
const noCoordinator = -1

func (e *entry) fact(p feed.Partition) *fact {
	f := e.facts[p]
	if f == nil {
		f = newFact()
		e.facts[p] = f
	}
	return f
}

// settled are the verdicts with which what is on the target means what the source has.
var settled = map[Verdict]bool{Synced: true, BelowStart: true, MetadataDropped: true}

// Restore takes what is on record of a group: what the source had last, until it
// says so itself. source names the topic that a target topic mirrors.
func (d *Desk) Restore(r control.GroupRecord, source func(target string) (string, bool), now time.Time) {
	e := d.entry(r.Group)
	for _, o := range r.Offsets {
		topic, ok := source(o.Topic)
		if !ok || o.SourceOffset < 0 {
			continue
		}
		e.carried = true
		f := e.fact(feed.Partition{Topic: topic, Partition: o.Partition})
		f.offset, f.at, f.target, f.verdict = o.SourceOffset, o.At, o.Written, Verdict(o.Reason)
		if settled[f.verdict] && o.Written >= 0 {
			f.stands, f.synced = o.SourceOffset, o.At
		}
	}
	d.mark(e, now)
}

// Events takes a batch of the tail. selects tells which commits are of interest.
// It reports whether a group has to be listed before it can be carried.
func (d *Desk) Events(b commits.Batch, selects func(group, topic string) bool) (stranger bool) {
	for _, ev := range b.Events {
		if !selects(ev.Group, ev.Topic) {
			continue
		}
		e := d.entry(ev.Group)
		if e.foreign {
			continue
		}
		stranger = stranger || !e.carried
		if e.event(ev, b.Received) {
			d.mark(e, b.Received)
		}
	}
	return stranger
}

// event reports whether it changed anything.
func (e *entry) event(ev commits.Event, received time.Time) bool {
	p := feed.Partition{Topic: ev.Topic, Partition: ev.Partition}
	if ev.Offset < 0 && e.facts[p] == nil {
		return false
	}
	f := e.fact(p)
	older := !f.asked.IsZero() && ev.Offset < f.offset && ev.At.Add(clockSlack).Before(f.asked)
	if older {
		return false
	}
	f.event = received
	if ev.Offset < 0 {
		return f.remove()
	}
	changed := f.offset != ev.Offset || f.metadata != ev.Metadata
	f.set(ev.Offset, ev.Metadata, received)
	if changed {
		f.committed = ev.At
	}
	return changed
}

// set takes what the source had at a time.
func (f *fact) set(offset int64, metadata string, at time.Time) {
	f.offset, f.metadata, f.at = offset, metadata, at
	if f.stands == offset {
		f.synced = at
	}
}

func (f *fact) remove() bool {
	gone := f.offset != feed.Unknown
	f.offset, f.metadata, f.committed = feed.Unknown, "", time.Time{}
	return gone
}

// Confirm tells that the tail has told of all changes since a time. What was known
// then or later is what the source has now.
func (d *Desk) Confirm(since, now time.Time) {
	for _, e := range d.groups {
		for _, f := range e.facts {
			if f.offset == feed.Unknown || f.event.Before(since) && f.asked.Before(since) {
				continue
			}
			if f.at = now; f.stands == f.offset {
				f.synced = now
			}
		}
	}
}

// Listing is what the source's brokers list.
type Listing struct {
	// Groups tells of each selected one whether it is of a kind that is carried.
	Groups map[string]bool
	// Whole: all brokers answered, so a group that is not in it is not there.
	Whole bool
	Asked time.Time
	// Unmatched are the patterns of the filter that match no group.
	Unmatched []string
}

// Listed takes a listing and returns the groups whose offsets are to be asked
// for: those listed and those that are known and may be there (C016).
func (d *Desk) Listed(l Listing) (ask []string) {
	for name, carried := range l.Groups {
		e := d.entry(name)
		e.foreign = !carried
		if carried && !e.carried {
			e.carried = true
			d.mark(e, l.Asked)
		}
	}
	if l.Whole {
		d.unmatched = l.Unmatched
	}
	for name, e := range d.groups {
		switch _, listed := l.Groups[name]; {
		case e.foreign && !listed && l.Whole:
			d.forget(e)
		case e.foreign:
		case listed || !l.Whole:
			ask = append(ask, name)
		default:
			d.gone(e, l.Asked)
		}
	}
	return ask
}

// gone is a group that the source does not have any more.
func (d *Desk) gone(e *entry, asked time.Time) {
	changed := false
	for _, f := range e.facts {
		if !f.event.After(asked) {
			f.asked = asked
			changed = f.remove() || changed
		}
	}
	e.trouble = Synced
	switch {
	case len(e.facts) == 0 && !e.wait.busy:
		d.forget(e)
	case changed:
		d.mark(e, asked)
	}
}

// forget leaves a group out of everything.
func (d *Desk) forget(e *entry) {
	delete(d.groups, e.name)
	delete(d.queue, e)
}

// Answer is what the source answered for one group.
type Answer struct {
	Group string
	// Trouble is why there is no answer.
	Trouble Verdict
	// Offsets are all of the group's on mirrored topics.
	Offsets []SourceOffset
	Asked   time.Time
}

// Answered takes an answer; of what an event told later it takes nothing.
func (d *Desk) Answered(a Answer) {
	e := d.groups[a.Group]
	if e == nil {
		return
	}
	e.trouble = a.Trouble
	if a.Trouble != Synced {
		return
	}
	told := make(map[feed.Partition]bool, len(a.Offsets))
	changed := false
	for _, o := range a.Offsets {
		if o.Offset < 0 {
			continue // U2
		}
		told[o.Partition] = true
		if f := e.fact(o.Partition); !f.event.After(a.Asked) {
			changed = changed || f.offset != o.Offset || f.metadata != o.Metadata
			f.asked = a.Asked
			f.set(o.Offset, o.Metadata, a.Asked)
		}
	}
	for p, f := range e.facts {
		if !told[p] && !f.event.After(a.Asked) {
			f.asked = a.Asked
			changed = f.remove() || changed
		}
	}
	if changed {
		d.mark(e, a.Asked)
	}
}

// Peer is a group as the target lists it.
type Peer struct {
	Members     Members
	Coordinator int32
}

// Peers takes the target's listing. A group that is not in it has no members
// where all brokers answered, else nothing is known of it (U1).
func (d *Desk) Peers(listed map[string]Peer, whole bool, asked time.Time) {
	d.peers = peers{listed, whole, asked}
	for _, e := range d.groups {
		d.meet(e)
	}
}

// meet takes what the last listing of the target tells of a group.
func (d *Desk) meet(e *entry) {
	p, ok := d.peers.listed[e.name]
	switch {
	case ok:
		e.coordinator = p.Coordinator
	case !d.peers.whole:
		return
	default:
		p.Members = NoMembers
	}
	before := e.members
	e.members, e.listedAt = p.Members, d.peers.asked
	if before != NoMembers && p.Members == NoMembers && len(e.facts) > 0 {
		e.wait.after = time.Time{}
		d.mark(e, d.peers.asked)
	}
}

// Unmatched are the patterns of the filter that matched no group.
func (d *Desk) Unmatched() []string { return d.unmatched }
