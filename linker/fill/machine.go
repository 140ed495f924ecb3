package fill

import (
	"fmt"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// kind is what the machine wants done.
type kind int8

const (
	doPause kind = iota
	doRead
	doWrite
	doSettle
	doReserve
	doEnd
)

// action is one thing to do. Its answer goes to the method that kind names:
// read, wrote, settled, reserved.
type action struct {
	kind kind
	// pause is for doPause, count for doReserve.
	pause time.Duration
	count int32
	// epochs and leaderEpoch are for doWrite.
	epochs      []int32
	leaderEpoch int32
}

// phase is what the machine waits for.
type phase int8

const (
	// looking: a log end decides, once it is replicated.
	looking phase = iota
	// settling: as looking, and it must have stood still for long enough.
	settling
	// ready: the next marker may go.
	ready
	// over: res is final.
	over
)

// machine fills one gap. It does nothing by itself and knows no clock.
type machine struct {
	set Settings
	end int64 // of the gap
	at  int64 // everything below is occupied and replicated
	pos walk  // of at
	res Result

	phase phase
	epoch int32 // the leader epoch of what makes the next write right (M1)
	// trusted: that was an error-free answer, and no log end that may be old.
	trusted bool
	// careful: something happened in this gap that asks for a last look; looked:
	// nothing was sent since the last one.
	careful, looked bool

	// limit is the highest log end that what was sent can lead to; above at only
	// where something is not accounted for. least is the lowest, where a fence
	// was answered.
	limit, least int64
	// open: what is not accounted for may still be on its way; only a fence may be
	// sent, and its reason is the one at hint.
	open bool
	// short: a bulk was answered and is not there as a whole; the next marker
	// goes alone, so that the answer tells why.
	short bool
	hint  int64

	calm    calm
	inWrite int // markers of the request under way
	floor   int32
	outruns int
	unsent  int

	rest    time.Time // nothing is done before
	pause   time.Duration
	waiting Waiting
}

func newMachine(set Settings, g Gap, c Counters) *machine {
	m := &machine{set: set.orDefault(), at: g.Expect, end: g.Expect, limit: g.Expect, least: g.Expect,
		pos: walk{runs: g.Runs}, floor: c.Next, res: Result{Counters: c}}
	n, err := g.count()
	if err != nil {
		m.open = g.Doubt
		m.fail("take the gap", "", err)
		return m
	}
	m.end += n
	switch {
	case g.Doubt:
		m.doubt(m.end)
		m.res.Doubts = 0 // not one of its own
	case g.Trust.Known:
		m.phase, m.trusted, m.looked, m.epoch = ready, true, true, g.Trust.LeaderEpoch
	}
	return m
}

// next returns what is to be done now.
func (m *machine) next(now time.Time) action {
	switch {
	case m.phase == over:
		return action{kind: doEnd}
	case now.Before(m.rest):
		return action{kind: doPause, pause: m.rest.Sub(now)}
	case m.phase != ready && m.at < m.end && m.res.Counters.Left() == 0:
		// Before the look and not after it, so that as little time as can be
		// lies between the look and the marker.
		return m.reserve()
	case m.phase == settling && m.calm.wantsSettle():
		return action{kind: doSettle}
	case m.phase != ready:
		m.calm.asked(now, m.set.PollTime)
		return action{kind: doRead}
	case m.at == m.end && m.careful && !m.looked:
		m.look()
		return action{kind: doRead}
	case m.at == m.end:
		m.phase = over
		m.res.Trust = Trust{Known: m.looked || m.trusted, LeaderEpoch: m.epoch}
		return action{kind: doEnd}
	case m.res.Counters.Left() == 0: // only directly after an answer, see above
		return m.reserve()
	}
	return m.write()
}

func (m *machine) reserve() action { return action{kind: doReserve, count: m.set.BlockCounters} }

// reserved takes the answer of Reserve.
func (m *machine) reserved(first int32, err error) {
	switch {
	case err == nil && first >= ledger.CounterLimit:
		m.fail("reserve marker counters", state.Unfillable, ErrSpent)
	case err == nil && first < m.floor:
		m.fail("reserve marker counters", state.ControlUnwritable,
			fmt.Errorf("%w: got %d although all below %d are used", ErrPorts, first, m.floor))
	case err == nil:
		end := min(int64(first)+int64(m.set.BlockCounters), ledger.CounterLimit)
		m.res.Counters, m.floor = Counters{Next: first, End: int32(end)}, first
	default:
		m.fail("reserve marker counters", reserveReason(err), err)
	}
}

// write builds the next request. Its counters are used up whatever becomes of
// it (M2).
func (m *machine) write() action {
	n := m.batch()
	w := m.pos
	if m.open {
		w.forward(m.hint - m.at)
	}
	epochs := make([]int32, n)
	for i := range epochs {
		epochs[i] = ledger.CoordinatorEpoch(m.res.Counters.Next, w.reason())
		m.res.Counters.Next++
		w.forward(1)
	}
	m.floor, m.inWrite = m.res.Counters.Next, n
	return action{kind: doWrite, epochs: epochs, leaderEpoch: m.epoch}
}

// batch is how many markers go into the next request. A bulk leaves the gap's
// last offset to the single marker that fences it (M3).
func (m *machine) batch() int {
	left := m.end - m.at
	if m.open || m.short || left <= singlesUpTo {
		return 1
	}
	return int(min(left-1, int64(m.set.BulkMarkers), int64(m.res.Counters.Left())))
}

// singlesUpTo is the largest gap that goes as single markers: with two looks at
// the log end, a bulk is not quicker before.
const singlesUpTo = 3

// wrote takes the answer of Write.
func (m *machine) wrote(now time.Time, w Written) {
	n := m.inWrite
	if w.Outcome == NotSent {
		m.notWritten(now, w)
		return
	}
	m.unsent = 0
	m.res.Requests++
	m.res.Markers += int64(n)
	m.looked, m.trusted = false, false
	if n > 1 {
		m.wroteBulk(w)
		return
	}
	m.short = false
	switch w.Outcome {
	case Done:
		m.done(w)
	case Refused:
		m.notWritten(now, w)
	case CoordinatorFenced:
		m.outrun(w)
	case ProducerFenced:
		m.fail("write a marker", state.Fenced, fmt.Errorf("%w: %w", ErrFenced, orNoWord(w.Err)))
	default:
		m.waits(fmt.Sprintf("a marker for offset %d is in doubt: %v", m.at, w.Err))
		m.doubt(min(m.end, m.limit+1))
	}
}

// done takes the error-free answer about a single marker.
func (m *machine) done(w Written) {
	m.outruns = 0
	switch {
	case m.open:
		// What the fence overtook will never come; what came before it will.
		m.open, m.least = false, m.at+1
		m.limit = min(m.end, m.limit+1)
		m.look()
	default:
		m.advance(m.at + 1)
		if w.LeaderEpoch == m.epoch {
			m.trusted = true
			return
		}
		m.careful = true
		m.look()
	}
}

// wroteBulk takes the answer about several markers: at best it says that none of
// them is still to come.
func (m *machine) wroteBulk(w Written) {
	m.careful = true
	m.limit = m.at + int64(m.inWrite)
	if w.Outcome == Unknown {
		m.waits(fmt.Sprintf("%d markers from offset %d on are in doubt: %v", m.inWrite, m.at, w.Err))
		m.open = true
		m.res.Doubts++
	}
	m.look()
}

// notWritten takes an answer that says for certain that nothing was written.
func (m *machine) notWritten(now time.Time, w Written) {
	m.unsent++
	switch {
	case m.open: // a fence; what it was for goes on
		m.waits(fmt.Sprintf("the marker that ends the doubt could not be written: %v", w.Err))
		m.again(now)
		m.look()
	case w.Outcome == NotSent && m.unsent == 1:
		m.look() // perhaps the leader moved
	default:
		m.fail("write markers", w.Reason, orNoWord(w.Err))
	}
}

// outrun takes a refused counter: somebody has used higher ones, so that what
// they wrote, and may still write, is not known either.
func (m *machine) outrun(w Written) {
	m.outruns++
	m.res.Counters.Next = m.res.Counters.End
	m.floor = m.res.Counters.End
	m.waits(fmt.Sprintf("a marker counter was refused: %v", w.Err))
	m.doubt(m.end)
	if m.outruns > maxOutruns {
		m.fail("write a marker", state.FillUnknown, fmt.Errorf("%w: %w", ErrOutrun, orNoWord(w.Err)))
	}
}

// maxOutruns is how many blocks one fill may lose: each is a 4096th of all.
const maxOutruns = 3

// doubt begins settling; what was sent can lead to a log end up to limit.
func (m *machine) doubt(limit int64) {
	m.limit, m.open, m.careful = limit, true, true
	m.res.Doubts++
	m.phase, m.calm = settling, calm{}
}

// look makes a log end decide about the next step.
func (m *machine) look() { m.phase = looking }

// advance takes the offsets below to as occupied and replicated.
func (m *machine) advance(to int64) {
	m.pos.forward(to - m.at)
	m.at, m.least = to, to
	m.limit = max(m.limit, to)
	m.pause = 0
}

// again makes the machine rest, longer each time until something advances.
func (m *machine) again(now time.Time) {
	m.pause = min(max(2*m.pause, minPause), m.set.PollTime)
	m.rest = now.Add(m.pause)
}

// minPause is about what a follower in the same region takes.
const minPause = 5 * time.Millisecond

// fail ends the fill early.
func (m *machine) fail(op string, r state.Reason, err error) {
	m.finish(r, &Fault{Op: op, Expected: -1, LogEnd: -1, Err: err})
}

func (m *machine) finish(r state.Reason, err error) {
	m.phase = over
	m.res.Reason, m.res.Err = r, err
}

// result is final once next returned doEnd, and right at any time.
func (m *machine) result() Result {
	r := m.res
	r.End, r.Filled, r.InDoubt = m.at, m.pos.behind(), m.open
	return r
}
