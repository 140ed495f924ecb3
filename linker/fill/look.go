package fill

import (
	"fmt"
	"time"

	"klink/linker/state"
)

// read takes the answer of Ends.
func (m *machine) read(now time.Time, e Ends, err error) {
	switch {
	case err != nil:
		m.blind(now, e, err)
	case e.HighWatermark > m.limit, m.untouched() && e.LogEnd != m.at:
		m.beyond(e)
	case m.phase == settling:
		m.readCalm(now, e)
	case m.open:
		m.readOpen(now, e)
	case e.LogEnd < m.least:
		m.moved(e)
	case e.LogEnd != e.HighWatermark || e.LogEnd > m.limit:
		m.lags(e)
		m.again(now)
	default:
		m.short = e.LogEnd < m.limit
		m.accept(e)
	}
}

// untouched tells that nobody can have changed the log since the caller looked.
func (m *machine) untouched() bool { return m.res.Requests == 0 && !m.open }

// blind takes a look that failed. With nothing at stake the caller waits.
func (m *machine) blind(now time.Time, e Ends, err error) {
	if m.untouched() {
		m.fail("read the log end", e.Reason, err)
		return
	}
	m.calm = calm{}
	m.waits(fmt.Sprintf("the log end cannot be read: %v", err))
	m.pause = m.set.PollTime
	m.again(now)
}

// beyond takes a log end that cannot come from what was sent.
func (m *machine) beyond(e Ends) {
	if m.res.Requests == 0 || m.outruns > 0 {
		m.moved(e) // by somebody else
		return
	}
	m.finish(state.Overshot, &Fault{Op: "fill a gap", Expected: m.limit, LogEnd: max(e.LogEnd, e.HighWatermark), Err: ErrOvershot})
}

func (m *machine) moved(e Ends) {
	m.finish("", &Fault{Op: "fill a gap", Expected: m.limit, LogEnd: e.LogEnd, Err: ErrMoved})
}

// readOpen decides about a bulk in doubt: it is all there, or a fence is sent, or
// it must settle before the fence's reason can be known.
func (m *machine) readOpen(now time.Time, e Ends) {
	low := max(m.at, min(e.LogEnd, e.HighWatermark)) // no clean election takes more away
	w := m.pos
	w.forward(low - m.at)
	switch {
	case e.LogEnd >= m.limit && e.HighWatermark == m.limit:
		m.open = false
		m.accept(e)
	case e.LogEnd >= m.limit: // nothing is left to fence
		m.lags(e)
		m.again(now)
	case e.LogEnd >= m.at && w.same(m.limit-low):
		m.fence(low, e.LeaderEpoch)
	default:
		m.phase, m.calm = settling, calm{}
		m.readCalm(now, e)
	}
}

// fence lets one single marker go although the log end is not final.
func (m *machine) fence(at int64, leaderEpoch int32) {
	m.phase, m.hint, m.epoch, m.trusted = ready, at, leaderEpoch, false
}

// readCalm decides in a doubt that has to settle.
func (m *machine) readCalm(now time.Time, e Ends) {
	m.calm.saw(now, e)
	if m.calm.stood < m.set.SettleTime || m.calm.wantsSettle() || e.LogEnd != e.HighWatermark {
		m.waits("")
		m.rest = now
		if !m.calm.wantsSettle() {
			m.rest = now.Add(m.set.PollTime)
		}
		return
	}
	m.open = e.LogEnd < m.limit
	if e.LogEnd < m.at {
		m.moved(e)
		return
	}
	m.accept(e)
	m.hint = m.at
}

// settled takes the answer of Settle.
func (m *machine) settled(now time.Time, err error) {
	if err == nil {
		m.calm.settled = true
		return
	}
	m.waits(fmt.Sprintf("the leader does not answer: %v", err))
	m.rest = now.Add(m.set.PollTime)
}

// accept takes a log end as final. The limit stays where something may be on its
// way, and falls to the log end elsewhere.
func (m *machine) accept(e Ends) {
	limit := m.limit
	m.advance(e.LogEnd)
	m.limit = m.at
	if m.open {
		m.limit = limit
	}
	m.phase, m.epoch, m.looked, m.trusted = ready, e.LeaderEpoch, true, false
	m.waiting = Waiting{}
}

// calm measures how long a log end has stood still under one leader.
type calm struct {
	known   bool
	settled bool // nothing older is queued at this leader
	ends    Ends
	// stood counts only the time between an answer and the next question, each at
	// most twice the poll time: a clock that ran on while this process or the
	// broker was frozen proves nothing.
	stood    time.Duration
	answered time.Time
	credit   time.Duration
}

func (c *calm) wantsSettle() bool { return c.known && !c.settled }

// asked notes that a look begins.
func (c *calm) asked(now time.Time, poll time.Duration) {
	c.credit = min(now.Sub(c.answered), 2*poll)
}

// saw takes a look. The first under a leader only names it: Settle comes next.
func (c *calm) saw(now time.Time, e Ends) {
	switch {
	case !c.known || e.LeaderEpoch != c.ends.LeaderEpoch:
		*c = calm{known: true}
	case !c.settled:
		c.stood = 0
	case c.answered.IsZero() || e.LogEnd != c.ends.LogEnd:
		c.stood = 0
	default:
		c.stood += c.credit
	}
	c.ends = e
	if c.settled {
		c.answered = now
	}
}
