package takeover

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"klink/translate/exact"
	"klink/translate/mm2"
)

// memLog is a log in memory. End bounds what it gives.
type memLog struct {
	records []Record
	at      int
	read    int
}

func (l *memLog) Begin(offset int64) {
	l.at, _ = slices.BinarySearchFunc(l.records, offset, func(r Record, o int64) int { return int(r.Offset - o) })
}

func (l *memLog) Next(context.Context) (Record, bool, error) {
	if l.at == len(l.records) {
		return Record{}, false, nil
	}
	l.at++
	l.read++
	return l.records[l.at-1], true, nil
}

func sumOf(text string) Sum { return sha256.Sum256([]byte(text)) }

// world is a source, and a target that a MirrorMaker 2 wrote to.
type world struct {
	rng *rand.Rand
	src []Record
	// values is how many different records there are; 0 is that all differ.
	values int
	// committed: its consumer leaves aborted records out.
	committed bool

	dst    []Record
	dstEnd int64
	of     map[int64]int64 // source offset by target offset
	syncs  []Sync
	commit int64
	srcEnd int64
}

func newWorld(seed uint64, n, values int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), values: values, of: map[int64]int64{}, commit: Unknown, committed: seed%3 == 0}
	at := int64(w.rng.IntN(50))
	w.dstEnd = int64(w.rng.IntN(3) * 40)
	for range n {
		if w.rng.IntN(30) == 0 {
			at += int64(w.rng.IntN(3)) // markers
		}
		text := fmt.Sprint("v", at)
		if values > 0 {
			text = fmt.Sprint("v", w.rng.IntN(values))
		}
		w.src = append(w.src, Record{Offset: at, Sum: sumOf(text), Aborted: w.rng.IntN(40) == 0})
		at++
	}
	w.srcEnd = at
	return w
}

// task copies n records from the commit on, as one life of a task, and commits up to
// stale records behind what it copied.
func (w *world) task(n, stale int) {
	e := mm2.NewEmitter(20)
	i := slices.IndexFunc(w.src, func(r Record) bool { return r.Offset > w.commit })
	var copied []int64
	for ; i >= 0 && i < len(w.src) && len(copied) < n; i++ {
		s := w.src[i]
		if s.Aborted && w.committed {
			continue
		}
		if w.rng.IntN(25) == 0 {
			w.dstEnd++ // a marker of its own
		}
		w.of[w.dstEnd] = s.Offset
		w.dst = append(w.dst, Record{Offset: w.dstEnd, Sum: s.Sum})
		if e.Copied(s.Offset, w.dstEnd) {
			w.syncs = append(w.syncs, Sync{s.Offset, w.dstEnd})
		}
		w.dstEnd++
		copied = append(copied, s.Offset)
	}
	if k := len(copied) - 1 - stale; k >= 0 {
		w.commit = copied[k]
	}
}

// again is a batch that the target has taken twice: the last n records.
func (w *world) again(n int) {
	n = min(n, len(w.dst))
	for _, r := range slices.Clone(w.dst[len(w.dst)-n:]) {
		w.of[w.dstEnd] = w.of[r.Offset]
		w.dst = append(w.dst, Record{Offset: w.dstEnd, Sum: r.Sum})
		w.dstEnd++
	}
}

func (w *world) foreign() {
	w.dst = append(w.dst, Record{Offset: w.dstEnd, Sum: sumOf(fmt.Sprint("foreign", w.dstEnd))})
	w.dstEnd++
}

func (w *world) facts() Facts {
	f := Facts{Connect: w.commit, Syncs: w.syncs, Src: Bounds{w.src[0].Offset, w.srcEnd}, Dst: Bounds{0, w.dstEnd}, Oldest: Unknown, Depth: 1_000_000}
	if len(w.dst) > 0 {
		f.Dst.Start = w.dst[0].Offset
	}
	return f
}

func (w *world) logs() (src, dst *memLog) { return &memLog{records: w.src}, &memLog{records: w.dst} }

// doubles is how many records the target holds that are copied again.
func (w *world) doubles(next int64) (n int64) {
	seen := map[int64]bool{}
	for _, up := range w.of {
		if up >= next && !seen[up] {
			seen[up] = true
			n++
		}
	}
	return n
}

// truth is the map as it is, from a source offset on.
func (w *world) truth(t testing.TB, from int64) (runs []exact.Run) {
	t.Helper()
	m := &exact.Map{}
	for _, r := range w.dst {
		if up, ok := w.of[r.Offset]; ok {
			if err := m.Add(exact.Run{Src: up, Dst: r.Offset, Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for r := range m.Runs() {
		for i := range r.Count {
			if r.Src+i >= from {
				runs = append(runs, exact.Run{Src: r.Src + i, Dst: r.Dst + i, Count: 1})
			}
		}
	}
	return runs
}

func single(m *exact.Map) (runs []exact.Run) {
	for r := range m.Runs() {
		for i := range r.Count {
			runs = append(runs, exact.Run{Src: r.Src + i, Dst: r.Dst + i, Count: 1})
		}
	}
	return runs
}
