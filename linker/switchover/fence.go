package switchover

import (
	"errors"
	"fmt"
	"math"
	"time"

	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/state"
)

const (
	// fenceBlock is how many counters are reserved for the fences of one
	// partition: some tries.
	fenceBlock = 16
	// counterJump leads above the blocks of workers that the record, which cannot
	// be written, may not show: they take 2^16 at a time.
	counterJump = 1 << 17
	// fenceWaitMin and fenceWaitMax bound the pauses between tries.
	fenceWaitMin = 50 * time.Millisecond
	fenceWaitMax = time.Second
)

// fenceAct is what a fencer wants done.
type fenceAct int8

const (
	fenceAsk fenceAct = iota
	fenceReserve
	fenceWrite
	fencePause
	fenceEnd
)

// fenceStep is one thing to do. Its answer goes to asked, reserved or wrote.
type fenceStep struct {
	act fenceAct
	// above and count are for fenceReserve.
	above, count int32
	// epoch and counter are for fenceWrite.
	epoch   int16
	counter int32
	pause   time.Duration
}

// fencer decides how one partition is fenced. It does nothing by itself and knows
// no clock.
type fencer struct {
	epoch int16
	// least is the lowest epoch that a fence of this switch can have.
	least int16
	// recorded: the command with this epoch is on record, so an epoch that is not
	// below it is that of a fence.
	recorded bool
	until    time.Time // no try begins after it
	ask      bool      // what the leader remembers comes first
	// fresh: the leader knows the producer, and of no fence.
	fresh bool

	next, end int32 // counters that are free
	floor     int32 // end of those on record
	above     int32 // highest one that the target showed

	wait time.Duration
	rest time.Time
	over bool
	out  fenced
}

// fenced is what became of a fence.
type fenced struct {
	// ok: a marker with the fence's epoch, or a higher one, is in the log.
	ok bool
	// single: it is the only one that can be there.
	single bool
	// found: it was there before. blind: whether one was there before could not be
	// asked.
	found  bool
	blind  bool
	doubts int
	// reason and detail say why there is none.
	reason state.Reason
	detail string
}

// fenceOrder is what a fencer begins with.
type fenceOrder struct {
	epoch    int16
	recorded bool
	until    time.Time
	floor    int32
}

func newFencer(o fenceOrder) *fencer {
	return &fencer{epoch: o.epoch, least: o.epoch, recorded: o.recorded, until: o.until, floor: o.floor, ask: true, above: -1}
}

// late reports whether it is too late for a try.
func (f *fencer) late(now time.Time) bool { return !now.Before(f.until) }

// ready reports whether the next step needs nothing but the write, or is the end.
func (f *fencer) ready() bool { return f.over || !f.ask && f.next < f.end }

// step says what comes next.
func (f *fencer) step(now time.Time) fenceStep {
	switch {
	case f.over:
		return fenceStep{act: fenceEnd}
	case now.Before(f.rest):
		return fenceStep{act: fencePause, pause: f.rest.Sub(now)}
	case f.late(now):
		if f.over = true; f.out.detail == "" {
			f.note(state.Unreachable, errors.New("no try in time, behind those of other partitions at its leader"))
		}
		return fenceStep{act: fenceEnd}
	case f.ask:
		return fenceStep{act: fenceAsk}
	case f.next >= f.end:
		return fenceStep{act: fenceReserve, above: f.above, count: fenceBlock}
	}
	c := f.next
	f.next++
	return fenceStep{act: fenceWrite, epoch: f.epoch, counter: c}
}

// asked takes what the leader remembers of the producer.
func (f *fencer) asked(s appender.ProducerState, err error) {
	f.ask = false
	if err != nil {
		f.out.blind = true
		f.note("", err) // the epoch on record is right without it
		return
	}
	if !s.Known {
		return // never there, or forgotten, and with it a fence perhaps
	}
	if s.CoordinatorEpoch >= 0 {
		counter, _ := ledger.SplitEpoch(s.CoordinatorEpoch)
		f.above = max(f.above, counter)
	}
	if f.next <= f.above {
		f.next, f.end = 0, 0
	}
	switch {
	case s.Epoch < f.epoch:
		f.fresh = f.out.doubts == 0
	case f.recorded:
		f.over, f.out.ok, f.out.found = true, true, true
	case s.Epoch == math.MaxInt16:
		f.fail(state.Fenced, errors.New("the producer's epoch cannot be raised any more"))
	default:
		f.epoch = s.Epoch + 1
	}
}

// reserved takes the answer of a reservation. One that failed is done without: a
// fence must go out when the control topic is not there for it.
func (f *fencer) reserved(first int32, err error) {
	if errors.Is(err, control.ErrCountersSpent) {
		f.fail(state.Unfillable, err)
		return
	}
	if err != nil {
		from := int64(max(f.floor, f.above+1, f.end)) + counterJump
		if from+fenceBlock > ledger.CounterLimit {
			f.fail(state.Unfillable, fmt.Errorf("%w: %w", control.ErrCountersSpent, err))
			return
		}
		first = int32(from)
	}
	f.next, f.end = first, first+fenceBlock
}

// wrote takes what became of a try.
func (f *fencer) wrote(now time.Time, r appender.MarkerResult) {
	switch r.Outcome {
	case appender.MarkersDone:
		f.over, f.out.ok, f.out.single = true, true, f.out.doubts == 0 && f.fresh
	case appender.MarkersProducerFenced:
		// A higher epoch stands there. On record ours is the highest, or its giver
		// has read it: all older writes are refused.
		if f.recorded {
			f.over, f.out.ok, f.out.found = true, true, true
			return
		}
		f.ask = true
		f.again(now, r)
	case appender.MarkersCoordinatorFenced:
		f.ask, f.floor = true, max(f.floor, f.end)
		f.next = f.end
		f.again(now, r)
	case appender.MarkersUnknown:
		f.out.doubts++
		f.again(now, r)
	default:
		if hopeless(r.Reason) {
			f.fail(r.Reason, r.Err)
			return
		}
		f.again(now, r)
	}
}

// hopeless tells reasons that do not end within a failover.
func hopeless(r state.Reason) bool {
	switch r {
	case state.NoPermission, state.Unfillable, state.TopicRefused, state.TargetRecreated:
		return true
	default:
		return false
	}
}

func (f *fencer) again(now time.Time, r appender.MarkerResult) {
	f.note(r.Reason, r.Err)
	f.wait = min(max(2*f.wait, fenceWaitMin), fenceWaitMax)
	f.rest = now.Add(f.wait)
}

func (f *fencer) note(r state.Reason, err error) {
	f.out.reason = r
	if err != nil {
		f.out.detail = err.Error()
	}
}

func (f *fencer) fail(r state.Reason, err error) {
	f.over = true
	f.note(r, err)
}
