package switchover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/state"
	"klink/translate/exact"
)

// sight is the last that was seen of a source partition, and what its mirror
// reported with it.
type sight struct {
	stable, high *int64
	at           time.Time
	targetEnd    *int64
	state        state.State
	reason       string
	// worker reported last, at heard.
	worker string
	heard  time.Time
}

// sights takes the last sighting of each partition out of reported states.
func sights(records []control.StateRecord) map[feed.Partition]sight {
	out := make(map[feed.Partition]sight)
	for _, r := range records {
		for _, p := range r.Topic.Partitions {
			out[feed.Partition{Topic: r.Topic.SourceTopic, Partition: p.Partition}] = sight{stable: p.SourceEnd, high: p.SourceHighWatermark,
				at: p.AsOf.Time, targetEnd: p.TargetEnd, state: p.State, reason: p.Reason,
				worker: p.Worker, heard: p.AsOf.Time}
		}
	}
	return out
}

// newest is what two looks at the record know together: a worker that stopped may
// report less than it did before.
func (s sight) newest(later sight) sight {
	if later.stable == nil || later.at.Before(s.at) {
		later.stable, later.high, later.at = s.stable, s.high, s.at
	}
	if later.targetEnd == nil {
		later.targetEnd = s.targetEnd
	}
	return later
}

// facts are all that the numbers of one partition follow from.
type facts struct {
	n int32
	// ends are the target's, with Err where they are not known.
	ends appender.Ends
	// fenced: a fence stands in the log, at fenceAt or, where that is
	// feed.Unknown, nobody knows where.
	fenced  bool
	fenceAt int64
	// word is the end that a worker confirmed, nil for none.
	word *int64
	// goal is the offset up to which the partition was padded, 0 for none.
	goal int64
	seen sight
	// unasked: the source was to say what it took in after the cut, and did not.
	unasked bool
	// transactions: the source's log is known to hold some.
	transactions bool
	// copies tell where copies lie in checkpoint mode, up to the end; nil in mirror
	// mode, where they lie at the source's offsets.
	copies *exact.Map
	// of is when the numbers hold.
	of      time.Time
	details []string
}

// mirrored is the end of what the mirror wrote, feed.Unknown where it is not
// known.
func (f facts) mirrored() int64 {
	if end := f.end(); f.copies == nil || end == feed.Unknown {
		return end
	}
	_, dst := f.copies.End()
	return dst
}

// mirroredSource is the source's part of mirrored: the end of what was mirrored of
// it.
func (f facts) mirroredSource() int64 {
	if end := f.end(); f.copies == nil || end == feed.Unknown {
		return end
	}
	src, _ := f.copies.End()
	return src
}

// lastMirrored is the last source offset that the target holds, nil for none or
// where that is not known.
func (f facts) lastMirrored() *int64 {
	end := f.mirroredSource()
	if f.copies != nil && end != feed.Unknown {
		r, any := f.copies.Last()
		if !any {
			return nil
		}
		end = r.SrcEnd() // what follows was looked at, and not copied
	}
	if end <= f.goal {
		return nil
	}
	last := end - 1
	return &last
}

// end is the end of the log that the mirror may have written to.
func (f facts) end() int64 {
	switch {
	case f.ends.Err != nil:
		return feed.Unknown
	case f.fenced:
		return f.fenceAt
	case f.word != nil:
		return min(*f.word, f.ends.LogEnd) // what lies beyond is somebody else's
	default:
		return f.ends.LogEnd
	}
}

// numbers are a partition's part of a Result.
func (f facts) numbers() Partition {
	p := Partition{Partition: f.n, Fenced: f.fenced, SourceEnd: f.seen.stable, OpenRecords: state.OpenRecords(f.seen.stable, f.seen.high)}
	if f.ends.Err == nil {
		p.TargetEnd = known(f.ends.LogEnd)
	}
	if f.fenced {
		p.FenceOffset = known(f.fenceAt)
	}
	end := f.mirroredSource()
	p.LastMirrored = f.lastMirrored()
	if f.seen.stable != nil && end != feed.Unknown && !f.unasked {
		lost := max(0, *f.seen.stable-end)
		p.RecordsLost = &lost
	}
	if !f.seen.at.IsZero() && f.seen.stable != nil {
		at, unseen := f.seen.at.UTC(), max(0, f.of.Sub(f.seen.at).Seconds())
		p.SourceEndAsOf, p.UnseenSeconds = &at, &unseen
	}
	p.Detail = strings.Join(slices.Concat(f.details, f.remarks(p)), "; ")
	return p
}

// remarks say what the numbers alone do not.
func (f facts) remarks(p Partition) []string {
	var out []string
	if f.transactions && (p.RecordsLost == nil || *p.RecordsLost > 0) {
		out = append(out, "the mirror may end inside a transaction, of which the target then shows a part")
	}
	if f.goal > 0 && f.ends.Err == nil && f.ends.LogStart < f.goal {
		out = append(out, fmt.Sprintf("consumers can read padding below offset %d", f.goal))
	}
	if f.ends.Err != nil {
		out = append(out, fmt.Sprintf("its end cannot be read: %v", f.ends.Err))
	}
	return out
}

func known(offset int64) *int64 {
	if offset == feed.Unknown {
		return nil
	}
	return &offset
}

// cutFacts are those of a partition whose cut is on record (X7).
func cutFacts(c cut) facts {
	f := facts{n: c.Partition, ends: appender.Ends{LogStart: feed.Unknown, LogEnd: c.TargetEnd}, of: c.of.At,
		seen: sight{stable: c.SourceEnd, at: c.SourceSeenAt}}
	if c.FenceOffset != nil {
		f.fenced, f.fenceAt = true, *c.FenceOffset
		f.ends.LogEnd = *c.FenceOffset + 1
	}
	return f
}

// groupInput is all that the numbers of groups follow from.
type groupInput struct {
	records []control.GroupRecord
	// committed are the offsets on the target, by group; one that is missing was
	// not asked or did not answer.
	committed map[string]map[feed.Partition]int64
	// parts maps target partitions to what is known of them.
	parts map[feed.Partition]groupPart
	now   time.Time
}

type groupPart struct {
	source          feed.Partition
	start, mirrored int64      // feed.Unknown where not known
	copies          *exact.Map // nil in mirror mode
	samples         *samples   // as copies
}

// toRead is how many records lie between a target offset and the end of what was
// mirrored.
func (p groupPart) toRead(at int64) *int64 {
	var n int64
	switch at = max(at, p.start); {
	case p.copies != nil:
		n = copied(p.copies, at)
	default:
		n = max(0, p.mirrored-at)
	}
	return &n
}

// readAgain is how many records lie between the offset where a group goes on and the
// one that its commit on the source leads to; nil where that is not known.
func (p groupPart) readAgain(at, want int64) *int64 {
	if at == feed.Unknown || want == feed.Unknown || p.mirrored == feed.Unknown {
		return nil
	}
	n := max(0, *p.toRead(at)-*p.toRead(want))
	return &n
}

// readAgainMM2 is the same for where MirrorMaker 2 would have the group go on.
func (p groupPart) readAgainMM2(src, want int64) *int64 {
	if p.copies == nil || src == feed.Unknown {
		return nil
	}
	at, ok := p.samples.translate(p.copies, src)
	if !ok {
		return nil
	}
	return p.readAgain(at, want)
}

// expected is where a commit of the source leads to, feed.Unknown where that is not
// known. ahead: the mirror has not come that far.
func (p groupPart) expected(src int64) (dst int64, ahead bool) {
	if p.copies == nil || src == feed.Unknown {
		return src, false
	}
	a := p.copies.ToTarget(src)
	if a.Kind == exact.None {
		return feed.Unknown, false
	}
	return a.Offset, a.Kind == exact.Ahead
}

// Words of GroupPartition.Reason: those of the group sync where the meaning is the
// same.
const (
	groupClamped   = "CLAMPED"
	groupBelow     = "BELOW_START"
	groupOwned     = "TARGET_OWNED"
	groupNone      = "NOT_COMMITTED"
	groupUnasked   = "TARGET_UNKNOWN"
	groupAllSynced = "SYNCED"
	groupSyncing   = "SYNCING"
)

// groupNumbers tells what each group that is carried over meets on the target.
func groupNumbers(in groupInput) []Group {
	out := make([]Group, 0, len(in.records))
	for _, r := range in.records {
		g := Group{Group: r.Group, State: groupAllSynced, Partitions: []GroupPartition{}}
		committed, asked := in.committed[r.Group]
		for _, o := range r.Offsets {
			p, ok := in.parts[feed.Partition{Topic: o.Topic, Partition: o.Partition}]
			if !ok {
				continue
			}
			at, has := committed[feed.Partition{Topic: o.Topic, Partition: o.Partition}]
			gp := groupPartition(o, p, commit{at: at, has: has && at >= 0, asked: asked}, in.now)
			if gp.Reason != "" {
				g.State, g.Reason = groupSyncing, cmp.Or(g.Reason, gp.Reason)
			}
			g.Partitions = append(g.Partitions, gp)
		}
		if len(g.Partitions) > 0 {
			slices.SortFunc(g.Partitions, func(a, b GroupPartition) int {
				return cmp.Or(cmp.Compare(a.SourceTopic, b.SourceTopic), cmp.Compare(a.Partition, b.Partition))
			})
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

// commit is what the target told of one commit.
type commit struct {
	at         int64
	has, asked bool
}

func groupPartition(o control.GroupOffset, p groupPart, c commit, now time.Time) GroupPartition {
	gp := GroupPartition{SourceTopic: p.source.Topic, Partition: p.source.Partition, SourceOffset: known(o.SourceOffset)}
	if !o.At.IsZero() {
		age := max(0, now.Sub(o.At).Seconds())
		gp.AgeSeconds = &age
	}
	at := o.Written
	if c.asked {
		at = feed.Unknown
		if c.has {
			at = c.at
		}
	}
	gp.TargetOffset = known(at)
	if at != feed.Unknown && p.mirrored != feed.Unknown {
		gp.RecordsToRead = p.toRead(at)
	}
	want, ahead := p.expected(o.SourceOffset)
	gp.RecordsReadAgain, gp.RecordsReadAgainMM2 = p.readAgain(at, want), p.readAgainMM2(o.SourceOffset, want)
	switch {
	case !c.asked:
		gp.Reason = groupUnasked
	case !c.has:
		gp.Reason = groupNone
	case at != o.Written && at != o.Previous:
		gp.Reason = groupOwned
	case p.start != feed.Unknown && at < p.start:
		gp.Reason = groupBelow
	case ahead || want != feed.Unknown && at < want:
		gp.Reason = groupClamped
	}
	return gp
}
