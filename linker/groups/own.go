package groups

import (
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
)

// lateFor is how long a commit without an answer may yet be carried out: brokers
// give up a request that waits for replicas after offsets.commit.timeout.ms (5 s),
// and one that waits in the queue of a broker that is stuck within its
// connection's life.
const lateFor = time.Minute

// own is which offset of a partition on the target this process knows to be
// klink's.
type own struct {
	// known: the last commit had an answer; offset is what stands since, or
	// feed.Unknown where nothing of klink's does.
	known  bool
	offset int64
	late   []attempt
}

// attempt is a commit without an answer (U4).
type attempt struct {
	offset int64
	until  time.Time
}

// answered notes what stands for sure.
func (o *own) answered(offset int64) { o.known, o.offset = true, offset }

// unanswered notes what may stand now or some time later.
func (o *own) unanswered(offset int64, now time.Time) {
	o.known = false
	o.late = append(o.late, attempt{offset, now.Add(lateFor)})
}

// pending tells whether some commit may yet be carried out.
func (o *own) pending() bool { return len(o.late) > 0 }

// settle drops what cannot be carried out any more.
func (o *own) settle(now time.Time) {
	o.late = slices.DeleteFunc(o.late, func(a attempt) bool { return a.until.Before(now) })
}

// may lists the offsets that can be klink's last write. trusted says that nobody
// else wrote the record since this process did.
func (o *own) may(r control.GroupOffset, trusted bool) []int64 {
	var out []int64
	if o.known && trusted {
		out = append(out, o.offset)
	} else {
		out = append(out, r.Previous, r.Written)
	}
	for _, a := range o.late {
		out = append(out, a.offset)
	}
	return slices.DeleteFunc(out, func(at int64) bool { return at == feed.Unknown })
}

// recorded gives a record's entry for a partition that is not written now: what
// stands there, unless it says what was refused.
func (o *own) recorded(r control.GroupOffset, trusted bool) (previous, written int64) {
	if o.known && trusted && o.offset != r.Written {
		return o.offset, o.offset
	}
	return r.Previous, r.Written
}
