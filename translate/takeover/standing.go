package takeover

import (
	"context"
	"fmt"
	"slices"

	"klink/translate/exact"
)

// State is how much is known of where MirrorMaker 2 left off.
type State string

// The states.
const (
	// Proven: the target's log ends with the copy of a known record (O1).
	Proven State = "PROVEN"
	// Stale: MirrorMaker 2's own record counts, and copies behind it may be made
	// again (O3).
	Stale State = "STALE"
	// Untouched: nothing was copied.
	Untouched State = "UNTOUCHED"
	// Refused: nothing tells where to go on.
	Refused State = "REFUSED"
)

// Standing is where MirrorMaker 2 left off with a partition.
type Standing struct {
	State State
	// Next is the source offset to go on with.
	Next int64
	// Doubles is the most records that the target holds and that are copied again.
	Doubles int64
	// Lost is how many source offsets are gone and were not copied.
	Lost int64
	// Map tells where the copies lie, from Floor on (O4). Its sequences count its
	// records.
	Map *exact.Map
	// Floor is 0 where the map tells of all copies.
	Floor int64
	// Walk is what comparing the logs showed.
	Walk Walk
	// Detail says how it is known, or why it is not.
	Detail string
}

// Sequence is that of the next record to be copied.
func (s Standing) Sequence() int32 {
	if r, ok := s.Map.Last(); ok {
		return r.SeqEnd()
	}
	return 0
}

// Find tells where MirrorMaker 2 left off. It reads the logs from as few records below
// their ends as f.Oldest asks for. The error is one of the logs.
func Find(ctx context.Context, f Facts, src, dst Log) (Standing, error) {
	var best Walk
	for _, a := range anchors(f) {
		w, err := walk(ctx, f, a.Sync, src, dst)
		if err != nil {
			return Standing{}, err
		}
		if a.guessed && w.complete() {
			if w.Held, err = unlikeNext(ctx, w, src); err != nil {
				return Standing{}, err
			}
		}
		if w.complete() {
			w.High = max(w.High, highBefore(f.Syncs, a.Sync))
			return bounded(f, proven(f, w)), nil
		}
		if w.Held && !a.guessed && (!best.Held || w.Last.Up > best.Last.Up) {
			best = w
		}
	}
	return bounded(f, unproven(f, best)), nil
}

// unlikeNext tells whether the record after the last copy is another one, without
// which a guessed anchor may be some records off among equal ones.
func unlikeNext(ctx context.Context, w Walk, src Log) (bool, error) {
	src.Begin(w.Last.Up)
	last, ok, err := src.Next(ctx)
	if err != nil || !ok {
		return false, err
	}
	next, ok, err := src.Next(ctx)
	return !ok || next.Sum != last.Sum, err
}

// proven is the standing behind the copy that the target's log ends with.
func proven(f Facts, w Walk) Standing {
	s := Standing{State: Proven, Next: w.Last.Up + 1, Doubles: min(w.High, f.Src.End-1) - w.Last.Up, Map: w.Map, Walk: w}
	if r, ok := first(w.Map); ok && r.Src > f.Src.Start && r.Dst > f.Dst.Start {
		s.Floor = r.Src
	}
	s.Detail = fmt.Sprintf("the target ends with the copy of source offset %d", w.Last.Up)
	switch {
	case s.Doubles > 0:
		s.Detail += fmt.Sprintf("; before that MirrorMaker 2 may have come up to %d, and gone back", w.Last.Up+s.Doubles)
	case f.Connect == Unknown:
		s.Detail += "; MirrorMaker 2 had nothing committed"
	case f.Connect < w.Last.Up:
		s.Detail += fmt.Sprintf("; MirrorMaker 2 had committed %d", f.Connect)
	case f.Connect > w.Last.Up:
		s.Detail += fmt.Sprintf("; MirrorMaker 2 had committed %d, and of what follows the target holds nothing", f.Connect)
	}
	return s
}

func first(m *exact.Map) (exact.Run, bool) {
	for r := range m.Runs() {
		return r, true
	}
	return exact.Run{}, false
}

// unproven is the standing by what MirrorMaker 2 has on record. w is the walk that
// came furthest.
func unproven(f Facts, w Walk) Standing {
	s := Standing{State: Stale, Map: &exact.Map{}, Walk: w}
	known := Sync{f.Connect, Unknown}
	if u, ok := newest(f); ok && u.Up >= known.Up {
		known = u
	}
	if w.Held && w.Last.Up >= known.Up {
		known = w.Last
	}
	switch {
	case known.Up == Unknown && f.Dst.End == 0:
		s.State, s.Next, s.Detail = Untouched, f.Src.Start, "MirrorMaker 2 has copied nothing"
		return s
	case known.Up == Unknown:
		s.State, s.Detail = Refused, "the target holds records, and nothing tells which ones they are copies of"
		return s
	}
	s.Next = known.Up + 1
	s.Floor = s.Next
	way := f.Syncs
	if w.Held {
		way = append(slices.Clip(way), w.Last)
	}
	s.Doubles = max(0, min(f.Src.End-s.Next, f.Dst.End-1-below(way, f.Dst.End, s.Next)))
	s.Detail = fmt.Sprintf("MirrorMaker 2 says that it copied up to source offset %d; what the target ends with is no record of the source near there", known.Up)
	return s
}

// newest is the last sync that both logs bear out.
func newest(f Facts) (Sync, bool) {
	all := usable(f)
	if len(all) == 0 {
		return Sync{}, false
	}
	return all[len(all)-1], true
}

// usable are the syncs whose records both logs hold.
func usable(f Facts) (all []Sync) {
	for _, s := range f.Syncs {
		if f.Src.holds(s.Up) && f.Dst.holds(s.Down) {
			all = append(all, s)
		}
	}
	return all
}

// passes follows MirrorMaker 2's way by its syncs.
type passes struct {
	last Sync
	any  bool
	// high is the highest source offset that may have been copied before last.
	high int64
}

// add takes the next sync. Between two of them no more was copied than there are
// target offsets, and it began behind the first one.
func (p *passes) add(s Sync) {
	if p.any {
		p.high = max(p.high, p.last.Up, p.last.Up+s.Down-p.last.Down-1)
	}
	p.last, p.any = s, true
}

// below is a target offset with all copies of source records from next on above it,
// as far as the syncs that are left tell; -1 where they do not.
func below(syncs []Sync, dstEnd, next int64) int64 {
	at, way := int64(-1), passes{high: -1}
	for _, s := range syncs {
		if s.Down >= dstEnd {
			continue
		}
		if way.add(s); s.Up >= next || way.high >= next {
			break
		}
		at = s.Down
	}
	return at
}

// highBefore is the highest source offset that may have been copied before an anchor.
func highBefore(syncs []Sync, a Sync) int64 {
	way := passes{high: -1}
	for _, s := range syncs {
		if s.Down <= a.Down {
			way.add(s)
		}
	}
	return way.high
}

// bounded holds a standing against the source's log.
func bounded(f Facts, s Standing) Standing {
	switch {
	case s.State == Refused:
	case s.Next > f.Src.End:
		s.Detail = fmt.Sprintf("the source ends at offset %d, and MirrorMaker 2 copied up to %d: the source's log was cut off, or made anew", f.Src.End, s.Next-1)
		s.State = Refused
	case s.Next < f.Src.Start:
		s.Lost = f.Src.Start - s.Next
		s.Detail += fmt.Sprintf("; the source begins at offset %d, so that what it held from %d on is lost", f.Src.Start, s.Next)
		s.Next, s.Doubles = f.Src.Start, 0
	}
	return s
}

// anchor is a pair of offsets to begin to compare at.
type anchor struct {
	Sync
	// guessed: nothing on record says so.
	guessed bool
}

const (
	// margin is how far below the last sync comparing begins, so that it shows what a
	// task copied that began again shortly before.
	margin = 2000
	// guess is how many records a guessed anchor lies before the target's end.
	guess = 32
)

// anchors are where to begin to compare, the best one first.
func anchors(f Facts) (all []anchor) {
	add := func(a anchor) {
		if f.Src.holds(a.Up) && f.Dst.holds(a.Down) && !slices.ContainsFunc(all, func(b anchor) bool { return a.Sync == b.Sync }) {
			all = append(all, a)
		}
	}
	begin := anchor{Sync{f.Src.Start, f.Dst.Start}, false}
	near := f.Dst.End-f.Dst.Start <= f.Depth
	syncs := usable(f)
	deep := slices.DeleteFunc(slices.Clone(syncs), func(s Sync) bool { return s.Down < f.Dst.End-f.Depth })
	if last, ok := newest(f); ok {
		want := last.Up
		if f.Oldest != Unknown {
			want = min(want, f.Oldest)
		}
		if i := lastBelow(deep, Sync{want, last.Down - margin}); i >= 0 {
			add(anchor{deep[i], false})
		} else if near && (len(deep) == 0 || deep[0].Up > want) {
			add(begin)
		}
		if len(deep) > 0 {
			add(anchor{deep[0], false})
		}
		add(anchor{last, false})
	}
	if n := min(guess, f.Connect+1-f.Src.Start, f.Dst.End-f.Dst.Start); f.Connect != Unknown && n > 0 {
		add(anchor{Sync{f.Connect + 1 - n, f.Dst.End - n}, true})
	}
	if near {
		add(begin)
	}
	return all
}

// lastBelow is the last sync, in the topic's order, that is below another one on both
// sides; -1 for none.
func lastBelow(syncs []Sync, than Sync) int {
	for i := len(syncs) - 1; i >= 0; i-- {
		if syncs[i].Up <= than.Up && syncs[i].Down <= than.Down {
			return i
		}
	}
	return -1
}
