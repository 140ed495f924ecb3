package linker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/state"
)

const (
	// holdupAfter is how long the source's last stable offset may stand still
	// below the high watermark before somebody is named for it. Most transactions
	// end within a second; what a crash leaves open ends after
	// transaction.timeout.ms, a minute by default.
	holdupAfter = 10 * time.Second
	// holdupEvery is how often it is looked whether somebody is to be named.
	holdupEvery = 5 * time.Second
	// holdupAgain is how often the source is asked about the same stretch.
	holdupAgain = 30 * time.Second
	// holdupTimeout bounds a round of questions. Whom it leaves out comes first in
	// the next one.
	holdupTimeout = 20 * time.Second
	// holdupsAtOnce is how many leaders are asked side by side: one producer often
	// holds many partitions.
	holdupsAtOnce = 8
)

// Producers tells what the leader of a source partition remembers of producers.
// Every error is a *feed.Fault.
type Producers interface {
	Producers(ctx context.Context, p feed.Partition, id feed.TopicID) ([]feed.Producer, error)
}

// holdup watches the stretch of a source partition that waits for the end of a
// transaction: from the last stable offset to the high watermark. Pure values, by
// the clock of whoever tells. The zero value knows of none.
type holdup struct {
	stable, high int64
	// since is when the last stable offset was first seen where it is now; zero
	// where nothing waits.
	since time.Time
	// asked is when the source was last asked about this stretch.
	asked time.Time
	// holder is the answer; without one, why is what stood in the way of it.
	holder *feed.Producer
	why    string
}

// saw notes the source's ends as last seen; either may be Unknown.
func (h *holdup) saw(stable, high int64, at time.Time) {
	switch {
	case stable == feed.Unknown || high <= stable:
		*h = holdup{}
	case h.since.IsZero() || stable != h.stable:
		*h = holdup{stable: stable, high: high, since: at}
	default:
		h.high = high
	}
}

// long reports whether the stretch has been waiting for a while.
func (h *holdup) long(now time.Time) bool {
	return !h.since.IsZero() && now.Sub(h.since) >= holdupAfter
}

// due reports whether the source is to be asked.
func (h *holdup) due(now time.Time) bool {
	return h.long(now) && (h.asked.IsZero() || now.Sub(h.asked) >= holdupAgain)
}

// answered notes what the source said about the stretch from stable on. Where
// that has become another one meanwhile, it says nothing.
func (h *holdup) answered(stable int64, at time.Time, all []feed.Producer, err error) {
	if h.since.IsZero() || stable != h.stable {
		return
	}
	h.asked, h.holder, h.why = at, nil, ""
	if err != nil {
		h.why = whyUnnamed(err)
		return
	}
	if p, ok := holderOf(stable, all); ok {
		h.holder = &p
	}
}

// holderOf picks the producer whose open transaction begins at the last stable
// offset. The earliest one that is open can only begin above it where another
// one has ended and its end is not replicated yet.
func holderOf(stable int64, all []feed.Producer) (first feed.Producer, ok bool) {
	for _, p := range all {
		if p.TxnStart != feed.Unknown && p.TxnStart <= stable && (!ok || p.TxnStart < first.TxnStart) {
			first, ok = p, true
		}
	}
	return first, ok
}

func whyUnnamed(err error) string {
	var f *feed.Fault
	if errors.As(err, &f) && f.Err != nil {
		return f.Err.Error()
	}
	return err.Error()
}

// detail names the holder, "" where nothing has been waiting for long. It only
// changes with what it tells of, so that it can be recorded.
func (h *holdup) detail(now time.Time) string {
	if !h.long(now) {
		return ""
	}
	what := fmt.Sprintf("offsets %d to %d wait for ", h.stable, h.high-1)
	since := h.since.UTC().Format(time.RFC3339)
	switch p := h.holder; {
	case p != nil:
		what += fmt.Sprintf("the transaction of producer %d (epoch %d), open at offset %d since %s or longer", p.ID, p.Epoch, p.TxnStart, since)
		if !p.LastWrite.IsZero() {
			what += ", last written to at " + p.LastWrite.UTC().Format(time.RFC3339)
		}
		return what
	case h.why != "":
		return what + fmt.Sprintf("the end of a transaction since %s or longer; the source does not tell whose: %s", since, h.why)
	case h.asked.IsZero():
		return what + fmt.Sprintf("the end of a transaction since %s or longer", since)
	default:
		return what + fmt.Sprintf("the source's replicas since %s: no transaction is open there", since)
	}
}

// holds returns the last stable offset of a partition that mirrors, if the source
// is to be asked who holds it.
func (s *shown) holds(now time.Time) (stable int64, asked time.Time, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mirrors := s.pos.State == state.Active || s.pos.State == state.CatchingUp
	return s.hold.stable, s.hold.asked, mirrors && s.sees(now) && s.hold.due(now)
}

// named notes who holds a partition's last stable offset.
func (s *shown) named(stable int64, all []feed.Producer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold.answered(stable, time.Now(), all, err)
}

// held is a partition whose last stable offset somebody holds back.
type held struct {
	src    feed.Partition
	id     feed.TopicID
	shown  *shown
	stable int64
	asked  time.Time
}

// name keeps naming who holds last stable offsets back, until ctx ends.
func (l *Link) name(ctx context.Context) {
	for sleep(ctx, holdupEvery) {
		l.turn("open transaction")
		var due []held
		now := time.Now()
		for _, p := range l.partitions() {
			if stable, asked, ok := p.shown.holds(now); ok {
				due = append(due, held{p.src, p.srcID, p.shown, stable, asked})
			}
		}
		nameAll(ctx, l.o.Producers, due)
	}
}

// nameAll asks about each, those that were asked about the longest ago first.
func nameAll(ctx context.Context, source Producers, due []held) {
	slices.SortStableFunc(due, func(a, b held) int { return a.asked.Compare(b.asked) })
	ctx, cancel := context.WithTimeout(ctx, holdupTimeout)
	defer cancel()
	g := new(errgroup.Group)
	g.SetLimit(holdupsAtOnce)
	for _, h := range due {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			all, err := source.Producers(ctx, h.src, h.id)
			h.shown.named(h.stable, all, err)
			return nil
		})
	}
	_ = g.Wait() // what fails is shown
}
