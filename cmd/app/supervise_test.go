package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/linker/state"
)

// stubborn drains for a time of its own.
type stubborn struct{ drain time.Duration }

func (d stubborn) Run(ctx context.Context) error {
	<-ctx.Done()
	time.Sleep(d.drain)
	return nil
}

func (stubborn) Report() state.Report { return state.Report{} }

// Draining may take its time and is bounded: klink ends within 10 s.
func TestDrainIsBounded(t *testing.T) {
	for _, c := range []struct {
		drain time.Duration
		want  string
	}{{8 * time.Second, ""}, {time.Hour, "did not drain within 9s"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- supervise(ctx, slog.New(slog.DiscardHandler), stubborn{c.drain}, nil) }()
			synctest.Wait()
			began := time.Now()
			stop()
			err := <-ended
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("drain %s: %v", c.drain, err)
			}
			time.Sleep(c.drain) // lets the stubborn one end
		})
	}
}

// A failure that is joined with the end of the context is reported all the same.
func TestFailureWhileDraining(t *testing.T) {
	broken := errors.New("base offset 7 where 5 was proven")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, false},
		{fmt.Errorf("link east: %w", errors.Join(context.Canceled, context.Canceled)), false},
		{errors.Join(context.Canceled, broken), true},
		{fmt.Errorf("link east: %w", errors.Join(context.Canceled, broken)), true},
		{broken, true},
	} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		task := start(ctx, func(context.Context) error { return c.err })
		<-task.done
		if (task.err != nil) != c.want {
			t.Errorf("%v became %v", c.err, task.err)
		}
	}
}
