package commits

import (
	"errors"
	"log/slog"
	"time"

	"klink/linker/remote"
	"klink/linker/state"
)

const (
	// firstRetry leaves an election the time it takes; lastRetry is how late the
	// end of a long one is noticed, and costs one small request.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
	// quietTries in a row are no trouble worth showing: each election and each
	// restart of a broker makes some.
	quietTries = 3
)

// trouble is why something is not read, and when it is looked up again.
type trouble struct {
	err   error
	tries int // that failed in a row
	// lookAt is when the next look is due; zero: none is needed.
	lookAt time.Time
}

func (t *trouble) failed(err error, now time.Time) {
	t.err = err
	t.lookAt = now.Add(min(lastRetry, firstRetry<<min(t.tries, 10)))
	t.tries++
}

func (t *trouble) ended() { *t = trouble{} }

// shown is the error once it has lasted.
func (t *trouble) shown() error {
	if t.tries < quietTries {
		return nil
	}
	return t.err
}

func (t *trouble) until(now time.Time, never time.Duration) time.Duration {
	if t.lookAt.IsZero() {
		return never
	}
	return max(0, t.lookAt.Sub(now))
}

// show brings Status up to date and logs a change of state.
func (f *Follower) show() {
	s := Status{Partitions: len(f.parts), Unknown: f.unknown}
	err, starting := f.trouble.shown(), len(f.parts) == 0
	for _, p := range f.parts {
		own := p.trouble.shown()
		if err == nil {
			err = own
		}
		if p.log == nil {
			starting = true
			continue
		}
		s.Behind += p.behind
		s.Open += len(p.log.tracker.open)
		if own == nil {
			s.Following++
		}
	}
	switch {
	case err != nil:
		s.State, s.Reason, s.Detail = Unavailable, reasonOf(err), err.Error()
	case starting:
		s.State = Starting
	default:
		s.State = Following
	}
	f.publish(s)
}

func reasonOf(err error) state.Reason {
	var f *remote.Fault
	if errors.As(err, &f) {
		return f.Reason
	}
	return remote.ReasonOf(err)
}

func (f *Follower) publish(s Status) {
	f.mu.Lock()
	old := f.status
	s.Since = old.Since
	changed := s.State != old.State || s.Reason != old.Reason
	if changed {
		s.Since = time.Now()
	}
	f.status = s
	f.mu.Unlock()
	switch {
	case !changed:
	case s.State == Unavailable:
		f.o.Logger.Warn("commits of the source cannot be followed, in whole or in part, and are polled for",
			keyReason, string(s.Reason), keyErr, s.Detail)
	case s.State == Following:
		f.o.Logger.Info("commits of the source are followed", slog.Int(keyPartitions, s.Partitions))
	}
}
