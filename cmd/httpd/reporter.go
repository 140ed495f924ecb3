package httpd

import (
	"context"
	"errors"
	"sync"
	"time"

	"klink/linker/state"
)

// ErrStuck: the report did not come in time.
var ErrStuck = errors.New("the daemon does not answer for its state: a loop is stuck")

// reporter asks for reports, one at a time (W3).
type reporter struct {
	report func() state.Report

	mu     sync.Mutex // guards flight; never held over a report
	flight *flight
}

// flight is one asking for a report, shared by all that wait for it.
type flight struct {
	done   chan struct{}
	report state.Report // valid once done is closed
}

func (r *reporter) get(ctx context.Context) (state.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	f := r.join()
	select {
	case <-f.done:
		return f.report, nil
	case <-ctx.Done():
		return state.Report{}, ErrStuck
	}
}

// join returns the flight under way, or starts one. Its goroutine ends with the
// report; a report that never comes leaves one goroutine behind, in a process
// that /healthz tells to restart.
func (r *reporter) join() *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flight != nil {
		return r.flight
	}
	f := &flight{done: make(chan struct{})}
	r.flight = f
	go func() {
		f.report = r.report()
		if f.report.AsOf.IsZero() {
			f.report.AsOf = time.Now().UTC()
		}
		r.mu.Lock()
		r.flight = nil
		r.mu.Unlock()
		close(f.done)
	}()
	return f
}
