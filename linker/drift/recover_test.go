package drift

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"klink/translate/exact"
)

func mapOf(t testing.TB, runs ...exact.Run) *exact.Map {
	t.Helper()
	m := &exact.Map{}
	for _, r := range runs {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestRecover(t *testing.T) {
	first := exact.Run{Src: 0, Dst: 0, Count: 10}
	second := exact.Run{Src: 12, Dst: 10, Count: 5, Seq: 10} // planned, never written or misplaced
	for name, c := range map[string]struct {
		recorded []exact.Run
		cursor   Position
		scan     Scan
		want     []exact.Run
		at       Position
		err      error
	}{
		"nothing yet": {cursor: Position{Src: 7, Dst: 100}, scan: Scan{From: 100, End: 130}, at: Position{Src: 7, Dst: 130}},
		"planned, never written": {recorded: []exact.Run{first, second}, cursor: Position{Src: 12, Dst: 10, Seq: 10},
			scan: Scan{From: 9, End: 10, Own: []OwnBatch{{0, 10, 0}}}, want: []exact.Run{first}, at: Position{Src: 12, Dst: 10, Seq: 10}},
		"written as planned": {recorded: []exact.Run{first, second}, cursor: Position{Src: 12, Dst: 10, Seq: 10},
			scan: Scan{From: 9, End: 15, Own: []OwnBatch{{0, 10, 0}, {10, 5, 10}}}, want: []exact.Run{first, second}, at: Position{Src: 17, Dst: 15, Seq: 15}},
		"written beyond the recorded end of the last run": {recorded: []exact.Run{first}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 9, End: 15, Own: []OwnBatch{{0, 10, 0}, {10, 5, 10}}}, want: []exact.Run{{Count: 15}}, at: Position{Src: 15, Dst: 15, Seq: 15}},
		"a foreign record came between": {recorded: []exact.Run{first, second}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 9, End: 20, Own: []OwnBatch{{0, 10, 0}, {13, 5, 10}}}, want: []exact.Run{first, {Src: 12, Dst: 13, Count: 5, Seq: 10}}, at: Position{Src: 17, Dst: 20, Seq: 15}},
		"one batch over two runs": {recorded: []exact.Run{first, second}, cursor: Position{Src: 0, Dst: 0},
			scan: Scan{From: 0, End: 13, Own: []OwnBatch{{0, 13, 0}}}, want: []exact.Run{first, {Src: 12, Dst: 10, Count: 3, Seq: 10}}, at: Position{Src: 15, Dst: 13, Seq: 13}},
		"the target lost its tail": {recorded: []exact.Run{first}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 5, End: 6, Own: []OwnBatch{{4, 2, 4}}}, want: []exact.Run{{Count: 6}}, at: Position{Src: 6, Dst: 6, Seq: 6}},
		"the target lost its tail, and others wrote": {recorded: []exact.Run{first}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 9, End: 20}, err: ErrMoved},
		"seen whole after that": {recorded: []exact.Run{first}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 0, End: 20, Own: []OwnBatch{{0, 4, 0}}}, want: []exact.Run{{Count: 4}}, at: Position{Src: 4, Dst: 20, Seq: 4}},
		"all is gone": {recorded: []exact.Run{first}, cursor: Position{Src: 10, Dst: 10, Seq: 10},
			scan: Scan{From: 0, End: 0}, at: Position{}},
		"retention took it": {recorded: []exact.Run{first}, cursor: Position{Src: 11, Dst: 10, Seq: 10},
			scan: Scan{From: 50, Start: 50, End: 60}, want: []exact.Run{first}, at: Position{Src: 11, Dst: 60, Seq: 10}},
		"on no record": {cursor: Position{}, scan: Scan{From: 0, End: 5, Own: []OwnBatch{{0, 5, 0}}}, err: ErrUnmapped},
	} {
		m, at, err := Recover(mapOf(t, c.recorded...), c.cursor, c.scan)
		if !errors.Is(err, c.err) || at != c.at {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, at, err, c.at, c.err)
			continue
		}
		if err == nil && !slices.Equal(allRuns(m), c.want) {
			t.Errorf("%s: %+v, want %+v", name, allRuns(m), c.want)
		}
	}
}

// TestRecoverBeyondAllSequences: a run of more records than there are sequences goes
// on where it ended.
func TestRecoverBeyondAllSequences(t *testing.T) {
	for _, count := range []int64{1<<30 - 1, 1 << 30, 1<<31 - 1, 1 << 31, 3_000_000_000, 9_000_000_000} {
		run := exact.Run{Src: 7, Dst: 20, Count: count, Seq: math.MaxInt32 - 3}
		seq := func(n int64) int32 { return seqAfter(run.Seq, n) }
		cursor := Position{Src: run.SrcEnd(), Dst: run.DstEnd(), Seq: run.SeqEnd()}
		for _, more := range []int64{0, 5} {
			own := []OwnBatch{{Base: run.DstEnd() - 5, Count: 5, Seq: seq(count - 5)}}
			if more > 0 {
				own = append(own, OwnBatch{Base: run.DstEnd(), Count: more, Seq: seq(count)})
			}
			end := run.DstEnd() + more
			m, at, err := Recover(mapOf(t, run), cursor, Scan{From: run.DstEnd() - 1, End: end, Own: own})
			if want := (Position{Src: run.SrcEnd() + more, Dst: end, Seq: seq(count + more)}); err != nil || at != want {
				t.Errorf("%d and %d more: %+v, %v; want %+v", count, more, at, err, want)
				continue
			}
			if got := allRuns(m); len(got) != 1 || got[0].Src != run.Src || got[0].Count != count+more {
				t.Errorf("%d and %d more: %+v", count, more, got)
			}
		}
	}
}

func TestScanFrom(t *testing.T) {
	m := mapOf(t, exact.Run{Src: 3, Dst: 100, Count: 10})
	for _, c := range []struct {
		dst, start, end, want int64
	}{{110, 0, 200, 109}, {105, 0, 200, 104}, {110, 0, 103, 102}, {110, 150, 200, 150}, {50, 0, 200, 50}} {
		if got := ScanFrom(m, Position{Dst: c.dst}, c.start, c.end); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// FuzzRecover writes a log at random, puts on record what a copier would, loses the
// end of the log at times, and holds Recover to a list of every copy.
func FuzzRecover(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		recorded := &exact.Map{}
		firstSeq := []int32{0, math.MaxInt32 - 20}[r.IntN(2)]
		now := Position{Dst: int64(r.IntN(5)), Seq: firstSeq}
		cursor := now
		truth := &exact.Map{}
		var log []OwnBatch
		for range r.IntN(30) {
			others := int64(r.IntN(3))
			now.Dst += others
			gap := int64(r.IntN(2))
			now.Src += gap
			n := int64(1 + r.IntN(6))
			run := exact.Run{Src: now.Src, Dst: now.Dst, Count: n, Seq: now.Seq}
			if last, ok := truth.Last(); gap > 0 || !ok || last.DstEnd() != now.Dst || r.IntN(3) == 0 {
				recorded = truth.Clone() // else the last run goes on, and nothing is put on record
				planned := run
				planned.Dst -= int64(r.IntN(2)) * others // they came in between
				mustAdd(t, recorded, planned)
			}
			mustAdd(t, truth, run)
			log = append(log, OwnBatch{Base: run.Dst, Count: n, Seq: run.Seq})
			now = Position{Src: run.SrcEnd(), Dst: run.DstEnd(), Seq: run.SeqEnd()}
			if r.IntN(4) == 0 {
				cursor, recorded = now, truth.Clone()
			}
		}
		end := now.Dst + int64(r.IntN(3))
		if len(log) > 0 && r.IntN(3) == 0 {
			cut := r.IntN(len(log))
			end = log[cut].Base
			log = log[:cut]
			truth.CutDst(end)
		}
		from := ScanFrom(recorded, cursor, 0, end)
		m, at, err := Recover(recorded, cursor, Scan{From: from, End: end, Own: seen(log, from)})
		if errors.Is(err, ErrMoved) {
			m, at, err = Recover(recorded, cursor, Scan{End: end, Own: log})
		}
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(allRuns(m), allRuns(truth)) {
			t.Fatalf("%+v\nwant %+v", allRuns(m), allRuns(truth))
		}
		want := firstSeq
		if last, ok := truth.Last(); ok {
			want = last.SeqEnd()
		}
		if at.Seq != want || at.Dst != end {
			t.Fatalf("%+v, want sequence %d at %d", at, want, end)
		}
	})
}

func seen(log []OwnBatch, from int64) []OwnBatch {
	return slices.DeleteFunc(slices.Clone(log), func(b OwnBatch) bool { return b.Base+b.Count <= from })
}

func mustAdd(t testing.TB, m *exact.Map, r exact.Run) {
	t.Helper()
	if err := m.Add(r); err != nil {
		t.Fatal(err)
	}
}
