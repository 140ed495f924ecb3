package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"klink/cmd/config"
	"klink/linker/state"
)

// Mirror is klink's daemon.
type Mirror interface {
	// Run mirrors until ctx ends and it has drained.
	Run(ctx context.Context) error
	// Report tells the states of all links, from memory.
	Report() state.Report
}

// The bounds of Options.
const (
	MinLive, MaxLive, DefaultLive = time.Second, 40 * time.Second, 20 * time.Second
	MinRate, MaxRate, DefaultRate = 100, 20_000, 5_000
)

// Options of a Run.
type Options struct {
	// Wire builds the daemon, for a configuration with one link.
	Wire func(ctx context.Context, cfg *config.Config, log *slog.Logger) (Mirror, error)
	// Live is how long the source lives; the whole takes some 5 s more.
	Live time.Duration
	// Rate is in records per second, over all topics.
	Rate int
	// Keep reopens the source in the end, and leaves all running until ctx ends.
	Keep bool
	// Screen is where the story is told.
	Screen Screen
	// Closing is given the result as soon as it stands.
	Closing func(Result) error
}

// ErrDiffers says that something in the result is not as it should be.
var ErrDiffers = errors.New("not everything is equal")

// ErrStopped says that ctx ended before the story did.
var ErrStopped = errors.New("stopped before the end")

// Run tells the story. It returns nil if everything was equal, ErrDiffers if
// not, and another error where it did not come to a result. With Keep, the end
// of ctx is the regular end.
func Run(ctx context.Context, o Options) error {
	if o.Live < MinLive || o.Live > MaxLive || o.Rate < MinRate || o.Rate > MaxRate {
		return fmt.Errorf("live %s (allowed: %s to %s), rate %d (allowed: %d to %d)", o.Live, MinLive, MaxLive, o.Rate, MinRate, MaxRate)
	}
	view := newView(o.Screen)
	st, err := raise(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	s := &story{o: o, stage: st, view: view}
	err = s.tell(ctx)
	return errors.Join(interrupted(ctx, err), s.end())
}

// interrupted replaces what an error says by ErrStopped where ctx has ended,
// since then it is only about that.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrDiffers) {
		return ErrStopped
	}
	return err
}
