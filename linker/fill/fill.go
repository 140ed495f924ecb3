package fill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/linker/state"
)

// Filler fills gaps of one partition.
type Filler struct {
	Ports    Ports
	Settings Settings
	// Observe is told, by the goroutine of Fill, when a fill begins to wait, when
	// what it waits for changes, and with the zero value when it waits no more.
	// nil is allowed.
	Observe func(Waiting)
}

// Fill occupies the offsets of a gap. It returns when all are occupied, at a
// Fault, or when ctx ends; what is in flight then, and the look at the log end
// after it, is waited for as long as hard lives. Doubts are no faults: it waits
// until they are settled. The result is right in any case: see Result.InDoubt.
func (f *Filler) Fill(ctx, hard context.Context, g Gap, c Counters) Result {
	m := newMachine(f.Settings, g, c)
	told := Waiting{}
	for {
		if f.Observe != nil && told != m.waiting {
			told = m.waiting
			f.Observe(told)
		}
		a := m.next(time.Now())
		if a.kind == doEnd {
			break
		}
		use := ctx
		if ctx.Err() != nil {
			if !m.owesLook(a) || hard.Err() != nil {
				m.stopped(context.Cause(ctx))
				break
			}
			use = hard
		}
		f.act(use, hard, m, a)
	}
	if f.Observe != nil && told != (Waiting{}) {
		f.Observe(Waiting{})
	}
	return f.vet(m.result())
}

// vet takes back an OVERSHOT of a process that was frozen: without the lease the
// surplus may be the work of the partition's next owner.
func (f *Filler) vet(r Result) Result {
	if r.Reason != state.Overshot {
		return r
	}
	if _, err := f.allowed(); err != nil {
		r.Reason, r.Err = "", &Fault{Op: "fill a gap", Expected: -1, LogEnd: -1, Err: err}
	}
	return r
}

// act does one thing and gives the machine its answer.
func (f *Filler) act(ctx, hard context.Context, m *machine, a action) {
	switch a.kind {
	case doPause:
		t := time.NewTimer(a.pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	case doRead:
		e, err := f.Ports.Ends(ctx)
		if ctx.Err() == nil || err == nil {
			m.read(time.Now(), e, err)
		}
	case doSettle:
		err := f.Ports.Settle(ctx)
		if ctx.Err() == nil || err == nil {
			m.settled(time.Now(), err)
		}
	case doReserve:
		first, err := f.Ports.Reserve(ctx, a.count)
		if ctx.Err() == nil || err == nil {
			m.reserved(first, err)
		}
	case doWrite:
		f.write(hard, m, a)
	}
}

// write asks for the lease and sends (M4).
func (f *Filler) write(hard context.Context, m *machine, a action) {
	until, err := f.allowed()
	if err != nil {
		m.fail("write markers", "", err)
		return
	}
	ctx, cancel := context.WithDeadline(hard, until)
	defer cancel()
	m.wrote(time.Now(), f.Ports.Write(ctx, a.leaderEpoch, a.epochs))
}

func (f *Filler) allowed() (until time.Time, err error) {
	until, err = f.Ports.Allowed()
	if now := time.Now(); err == nil && !now.Before(until) {
		err = fmt.Errorf("the lease ended %s ago", now.Sub(until))
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return until, err
}

// owesLook tells that a request was answered, so that one more look ends the
// fill without loose ends.
func (m *machine) owesLook(a action) bool {
	return a.kind == doRead && m.phase == looking && !m.open && m.res.Requests > 0 && m.pause == 0
}

// stopped ends the fill for its caller.
func (m *machine) stopped(err error) {
	m.phase = over
	m.res.Err = err
}

func reserveReason(err error) state.Reason {
	if errors.Is(err, ErrSpent) {
		return state.Unfillable
	}
	return state.ControlUnwritable
}

// errNoWord stands for the error of a port that gave none.
var errNoWord = errors.New("no reason was given")

func orNoWord(err error) error {
	if err == nil {
		return errNoWord
	}
	return err
}
