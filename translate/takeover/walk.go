package takeover

import (
	"context"
	"slices"

	"klink/translate/exact"
)

const (
	// lookBack is how many source records are kept behind the position: a batch that
	// was produced twice, or a task that began again, goes back no further as a rule;
	// where it does, a sync tells of it.
	lookBack = 8192
	// mostUnmatched ends a comparison of logs that have nothing to do with each other.
	mostUnmatched = 10_000
)

// Walk is what comparing both logs from an anchor on showed.
type Walk struct {
	// Held: the records at the anchor are equal. Nothing else counts where they are not.
	Held bool
	// Last is the last pair of equal records.
	Last Sync
	// High is the highest source offset whose copy was seen.
	High int64
	// Matched counts target records that are copies, Again those of them whose source
	// record had been copied before.
	Matched, Again int64
	// Foreign counts target records that are no copies; Unmatched are those of them
	// behind Last.
	Foreign, Unmatched int64
	// Map tells of all pairs; where a record was copied twice, of the later copy.
	Map *exact.Map
}

// complete tells whether the log ends with a copy.
func (w Walk) complete() bool { return w.Held && w.Unmatched == 0 }

// walker compares two logs.
type walker struct {
	src, dst Log
	// anchors are source offsets by the target offset of their copies.
	anchors map[int64]int64
	cleaned bool
	// buf are source records around the position, at the index of the next one.
	buf []Record
	at  int
	// hole is how many target offsets before the record at hand hold none.
	hole int64
	// jumped: the buffer begins with the match at hand.
	jumped bool
	// run is the end of the map, not in it yet.
	run exact.Run
	out Walk
}

// walk compares the logs from an anchor to the target's end.
func walk(ctx context.Context, f Facts, from Sync, src, dst Log) (Walk, error) {
	w := &walker{src: src, dst: dst, cleaned: f.Cleaned, anchors: make(map[int64]int64, len(f.Syncs)),
		out: Walk{High: from.Up - 1, Map: &exact.Map{}}}
	for _, s := range f.Syncs {
		w.anchors[s.Down] = s.Up
	}
	src.Begin(from.Up)
	dst.Begin(from.Down)
	err := w.all(ctx, from.Down)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		w.out.Map, err = numbered(w.out.Map)
	}
	return w.out, err
}

func (w *walker) all(ctx context.Context, next int64) error {
	for w.out.Unmatched < mostUnmatched {
		t, ok, err := w.dst.Next(ctx)
		if err != nil || !ok {
			return err
		}
		w.hole = t.Offset - next
		k, found, err := w.find(ctx, t)
		next = t.Offset + 1
		switch {
		case err != nil:
			return err
		case found:
			if err := w.matched(k, t); err != nil {
				return err
			}
		case !w.out.Held:
			return nil
		default:
			w.out.Foreign, w.out.Unmatched = w.out.Foreign+1, w.out.Unmatched+1
		}
	}
	return nil
}

// find tells which source record a target record is a copy of.
func (w *walker) find(ctx context.Context, t Record) (k int, found bool, err error) {
	if up, ok := w.anchors[t.Offset]; ok && w.out.Held {
		if k, found, err = w.jump(ctx, up, t); found || err != nil {
			return k, found, err
		}
	}
	if k, found, err = w.ahead(ctx, t); found || err != nil || !w.out.Held {
		return k, found, err // of the anchor nothing but the record itself counts
	}
	for k = min(w.at, len(w.buf)) - 1; k >= 0; k-- {
		if w.buf[k].Sum == t.Sum {
			return k, true, nil
		}
	}
	return 0, false, nil
}

// ahead looks for the record at the position, and behind those that may be passed
// over (O2).
func (w *walker) ahead(ctx context.Context, t Record) (k int, found bool, err error) {
	cleaned := w.hole
	for k = w.at; ; k++ {
		r, ok, err := w.source(ctx, k)
		switch {
		case err != nil || !ok:
			return 0, false, err
		case r.Sum == t.Sum:
			return k, true, nil
		case !w.out.Held:
			return 0, false, nil
		case r.Aborted || r.Offset <= w.out.High:
		case w.cleaned && cleaned > 0:
			cleaned--
		default:
			return 0, false, nil
		}
	}
}

// source is the source record at an index of the buffer, which is filled as far.
func (w *walker) source(ctx context.Context, k int) (Record, bool, error) {
	for k >= len(w.buf) {
		r, ok, err := w.src.Next(ctx)
		if err != nil || !ok {
			return Record{}, false, err
		}
		w.buf = append(w.buf, r)
	}
	return w.buf[k], true, nil
}

// jump goes to the source record that a sync tells of, where its copy is equal and it
// is not the next one anyway.
func (w *walker) jump(ctx context.Context, up int64, t Record) (k int, found bool, err error) {
	next, ok, err := w.source(ctx, w.at)
	if err != nil || ok && next.Offset == up {
		return 0, false, err
	}
	if k, found = slices.BinarySearchFunc(w.buf, up, func(r Record, up int64) int { return int(min(1, max(-1, r.Offset-up))) }); found {
		return k, w.buf[k].Sum == t.Sum, nil
	}
	w.src.Begin(up)
	r, ok, err := w.src.Next(ctx)
	switch {
	case err != nil:
		return 0, false, err
	case ok && r.Offset == up && r.Sum == t.Sum:
		w.buf, w.at, w.jumped = []Record{r}, 0, true
		return 0, true, nil
	case len(w.buf) > 0:
		w.src.Begin(w.buf[len(w.buf)-1].Offset + 1)
	}
	return 0, false, nil
}

// matched enters a pair.
func (w *walker) matched(k int, t Record) error {
	s := w.buf[k]
	o := &w.out
	if w.leavesOut(k) {
		w.run, o.Map = exact.Run{}, &exact.Map{}
	}
	w.at = k + 1
	if o.Held && s.Offset <= o.High {
		o.Again++
	}
	o.Held, o.Unmatched, o.Last, o.High = true, 0, Sync{s.Offset, t.Offset}, max(o.High, s.Offset)
	o.Matched++
	if w.at > 2*lookBack {
		w.buf = slices.Delete(w.buf, 0, w.at-lookBack)
		w.at = lookBack
	}
	if w.run.Count > 0 && w.run.SrcEnd() == s.Offset && w.run.DstEnd() == t.Offset {
		w.run.Count++
		return nil
	}
	err := w.flush()
	w.run = exact.Run{Src: s.Offset, Dst: t.Offset, Count: 1}
	return err
}

// leavesOut tells whether a match at an index passes over records whose copies are not
// known then (O4): among equal records a wrong one may have been taken before.
func (w *walker) leavesOut(k int) bool {
	if !w.out.Held {
		return false
	}
	if w.jumped {
		w.jumped = false
		return w.buf[k].Offset > w.out.Last.Up
	}
	cleaned := w.hole
	for i := w.at; i < k; i++ {
		if w.buf[i].Aborted {
			continue
		}
		if cleaned--; cleaned < 0 || !w.cleaned {
			return true
		}
	}
	return false
}

func (w *walker) flush() error {
	if w.run.Count == 0 {
		return nil
	}
	r := w.run
	w.run = exact.Run{}
	return w.out.Map.Add(r)
}

// numbered gives the records of a map the sequences that they would have if a mirror
// had copied them.
func numbered(m *exact.Map) (*exact.Map, error) {
	out := &exact.Map{}
	for r := range m.Runs() {
		if last, ok := out.Last(); ok {
			r.Seq = last.SeqEnd()
		}
		if err := out.Add(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}
