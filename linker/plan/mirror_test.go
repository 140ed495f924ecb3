package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/state"
)

// mirror is the plainest executor: it does what the planner says, chunk by
// chunk, and stops in the middle of things now and then.
type mirror struct {
	t   *rapid.T
	log *srcLog
	pol Policy
	lim Limits
	// known is the end of what the oracle can tell of the log.
	known int64
	// dst is the target's log, a cell per offset.
	dst   []cell
	epoch int32
	// broken: the process died within the last step. It does so a few times.
	broken bool
	deaths int
}

func (m *mirror) next() int64 { return int64(len(m.dst)) }

// run mirrors until the target has all that the source has, or nothing moves.
func (m *mirror) run() (halt *Step) {
	at := m.next()
	for m.next() < m.log.end {
		got, a := m.log.fetch(m.t, at, rapid.IntRange(1, 8).Draw(m.t, "batches in a fetch"))
		if len(got) == 0 {
			s := Tail(m.next(), Evidence{LastStable: m.log.end, Alone: true, Empty: 2, LeaderEpochUnchanged: true, LeaderEpoch: m.log.lastEpoch()}, m.pol, m.lim)
			if s.Kind != Fill {
				return &s
			}
			m.apply(s, nil)
			at, m.broken = m.next(), false
			continue
		}
		if s := m.chunk(got, a); s != nil {
			return s
		}
		at = got[len(got)-1].last + 1
		if m.broken || rapid.IntRange(0, 4).Draw(m.t, "restart") == 4 {
			at, m.broken, m.epoch = m.next(), false, feed.NoEpoch
			if rapid.Bool().Draw(m.t, "read again") {
				at = rapid.Int64Range(0, at).Draw(m.t, "from")
			}
		}
	}
	return nil
}

func (l *srcLog) lastEpoch() int32 {
	if n := len(l.batches); n > 0 {
		return l.batches[n-1].epoch
	}
	return 0
}

func (m *mirror) chunk(got []stored, a answer) (halt *Step) {
	entries, err := ReadEntries(nil, a.raw, a.aborted)
	if err != nil {
		m.t.Fatalf("read entries: %v", err)
	}
	m.compareVisible(got, a)
	for len(entries) > 0 && !m.broken {
		s := Next(m.next(), entries, m.pol, m.lim)
		if s.Kind == Halt {
			return &s
		}
		m.apply(s, got)
		entries, got = entries[s.Entries:], got[s.Entries:]
		if s.Kind == Wait {
			break
		}
	}
	return nil
}

// compareVisible checks the form for a whole fetch against the same truth.
func (m *mirror) compareVisible(got []stored, a answer) {
	for i, visible := range Visible(a.raw, a.aborted) {
		b := got[i]
		if b.base >= m.known {
			return
		}
		if want := b.marker == "" && (b.txn == nil || !b.txn.aborted || !b.txn.listed); visible != want {
			m.t.Fatalf("batch %d to %d visible: %v", b.base, b.last, visible)
		}
	}
}

func (m *mirror) apply(s Step, got []stored) {
	switch s.Kind {
	case Wait, Drop:
		return
	case Append, Merge, Recode, Fill, Repeat:
	default:
		m.t.Fatalf("unexpected step %+v", s)
	}
	if s.Base != m.next() || s.End <= s.Base {
		m.t.Fatalf("P1 broken: step %+v at %d", s, m.next())
	}
	if s.Epoch != feed.NoEpoch && s.Epoch < m.epoch {
		m.t.Fatalf("P3 broken: step %+v after epoch %d", s, m.epoch)
	}
	m.epoch = max(m.epoch, s.Epoch)
	m.checkEpoch(s, got)
	switch s.Kind {
	case Append, Merge:
		for _, b := range got[:s.Entries] {
			if b.old || b.base != m.next() || int64(len(b.records)) != b.last-b.base+1 {
				m.t.Fatalf("P1 broken: %+v takes %+v as it is at %d", s, b, m.next())
			}
			m.records(b.last + 1)
		}
	case Recode:
		m.recode(s, got[0])
	case Fill:
		m.checkRuns(s)
		for _, r := range s.Runs {
			m.fill(r)
		}
	case Repeat:
		m.repeat(s, got[s.Entries-1])
	}
}

// checkEpoch: every batch that a step takes has its epoch (P3).
func (m *mirror) checkEpoch(s Step, got []stored) {
	for _, b := range got[:s.Entries] {
		if want := b.epoch; !b.old && want != s.Epoch && s.Kind != Repeat {
			m.t.Fatalf("P3 broken: step %+v takes batch %d of epoch %d", s, b.base, want)
		}
	}
}

func (m *mirror) checkRuns(s Step) {
	sum := int64(0)
	for i, r := range s.Runs {
		if r.Count < 1 || (i > 0 && s.Runs[i-1].Reason == r.Reason) {
			m.t.Fatalf("P5 broken: %+v", s)
		}
		sum += r.Count
	}
	if sum != s.End-s.Base || sum > m.lim.MaxFillOffsets {
		m.t.Fatalf("P5 broken: %+v", s)
	}
}

func (m *mirror) records(end int64) {
	for m.next() < end {
		m.dst = append(m.dst, cell{visible: true, repeats: -1})
	}
}

func (m *mirror) dies() bool {
	if !m.broken && m.deaths < 5 && rapid.IntRange(0, 30).Draw(m.t, "crash") == 30 {
		m.broken, m.deaths = true, m.deaths+1
	}
	return m.broken
}

// fill writes markers one by one, and may die between two of them.
func (m *mirror) fill(r ledger.Run) {
	for range r.Count {
		if m.dies() {
			return
		}
		m.dst = append(m.dst, cell{reason: r.Reason, repeats: -1})
	}
}

// recode makes pieces of neighbouring records, cut anywhere.
func (m *mirror) recode(s Step, b stored) {
	var pieces []Piece
	for _, o := range b.records {
		if o < s.Base {
			continue
		}
		n := len(pieces)
		if n > 0 && pieces[n-1].Base+int64(pieces[n-1].Count) == o && rapid.IntRange(0, 3).Draw(m.t, "cut") > 0 {
			pieces[n-1].Count++
			continue
		}
		pieces = append(pieces, Piece{o, 1})
	}
	moves, err := Pieces(s.Base, s.End, pieces)
	if err != nil {
		m.t.Fatalf("pieces of %+v: %v", s, err)
	}
	for _, move := range moves {
		if m.broken {
			return
		}
		if move.Piece < 0 {
			m.fill(move.Hole)
			continue
		}
		p := pieces[move.Piece]
		if p.Base != m.next() {
			m.t.Fatalf("piece %+v at %d", p, m.next())
		}
		m.records(p.Base + int64(p.Count))
	}
	if !m.broken && m.next() != s.End {
		m.t.Fatalf("pieces of %+v end at %d", s, m.next())
	}
}

// repeat writes the donor's records, each as often as there are offsets from
// the one before it on, and may die between any two.
func (m *mirror) repeat(s Step, donor stored) {
	for _, o := range donor.records {
		for m.next() < o && !m.dies() {
			m.dst = append(m.dst, cell{repeats: o})
		}
		if m.next() == o && !m.dies() {
			m.records(o + 1)
		}
	}
}

// checkLog draws a log and mirrors it.
func checkLog(t *rapid.T) {
	m := mirror{t: t, epoch: feed.NoEpoch, pol: Policy{
		Gaps:       rapid.SampledFrom([]GapWay{FillMarkers, FillMarkers, FillRecords}).Draw(t, "gaps"),
		Compaction: Compaction(rapid.Bool().Draw(t, "compacted")),
	}}
	if m.pol.Compaction == NotCompacted {
		m.pol.Gaps = FillMarkers
	}
	m.lim = DefaultLimits()
	m.lim.MaxFillOffsets = rapid.SampledFrom([]int64{1, 3, 10, DefaultMaxFillOffsets}).Draw(t, "fill")
	m.log = drawLog(t, m.pol.Compaction)
	m.known = m.log.end
	want := m.log.cells()
	halt := m.run()
	if m.pol.Gaps == FillMarkers {
		if halt != nil {
			t.Fatalf("stopped: %+v", *halt)
		}
		if d := cmp.Diff(want, m.dst, cmp.AllowUnexported(cell{})); d != "" {
			t.Fatalf("target differs (-want +got):\n%s", d)
		}
		return
	}
	if halt != nil && halt.Kind != Wait {
		t.Fatalf("stopped: %+v", *halt)
	}
	checkRepeats(t, want, m.dst)
}

// checkRepeats: records where the source has them, and in every gap the record
// that follows; nothing after the last record.
func checkRepeats(t *rapid.T, want, got []cell) {
	next := int64(-1) // the nearest record behind
	for o := len(want) - 1; o >= 0; o-- {
		if want[o].visible {
			next = int64(o)
		}
		switch {
		case next < 0 && o >= len(got):
		case o >= len(got):
			t.Fatalf("offset %d is missing", o)
		case want[o].visible && !got[o].visible, !want[o].visible && got[o].repeats != next:
			t.Fatalf("offset %d: %+v, source has %+v, next record is at %d", o, got[o], want[o], next)
		}
	}
}

// TestPlanAgainstOracle: for any log of transactions, compaction, old formats
// and leader changes, however it is cut into fetches and wherever the process
// dies, each offset gets its record or the reason why there is none (P1, P4).
func TestPlanAgainstOracle(t *testing.T) { rapid.Check(t, checkLog) }

// FuzzPlan is TestPlanAgainstOracle by the fuzzer's choice.
func FuzzPlan(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkLog)) }

// TestLostBatchIsCorrupt: on a topic that was never compacted a batch that is
// missing halts right where it should be, and nothing is written there (P6).
func TestLostBatchIsCorrupt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mirror{t: t, epoch: feed.NoEpoch, lim: DefaultLimits(), log: drawLog(t, NotCompacted)}
		m.pol.Gaps = FillMarkers
		i := rapid.IntRange(0, len(m.log.batches)-1).Draw(t, "lost")
		lost := m.log.batches[i]
		m.known = lost.base
		m.log.batches = append(m.log.batches[:i:i], m.log.batches[i+1:]...)
		halt := m.run()
		if halt == nil || halt.Reason != state.Corrupt || halt.Base != lost.base || m.next() != lost.base {
			t.Fatalf("lost %d to %d: halt %+v at %d", lost.base, lost.last, halt, m.next())
		}
	})
}
