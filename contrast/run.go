package contrast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The bounds of Options.
const (
	MinLoad, MaxLoad, DefaultLoad = 2 * time.Second, 10 * time.Minute, 10 * time.Second
	MinRate, MaxRate, DefaultRate = 100, 20_000, 2_000
)

// Options of a Run.
type Options struct {
	// Seed is what the load follows from.
	Seed uint64
	// Load is how long it lasts beside each mirror, Rate in records per second.
	Load time.Duration
	Rate int
	// BulkBytes of values wait at the source for each mirror's start.
	BulkBytes int64
	// Modes are run one after the other.
	Modes []Mode
	// Raise makes the clusters for a mode's run.
	Raise func(ctx context.Context) (*Stage, error)
	// Say is told how it goes.
	Say func(string)
}

// ErrBroken says that a mode did not keep what it promises, or failed.
var ErrBroken = errors.New("not every promise was kept")

// Run runs the load through all modes and measures. It returns an error only where
// ctx ended; a mode that failed says so in the result.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Load < MinLoad || o.Load > MaxLoad || o.Rate < MinRate || o.Rate > MaxRate {
		return Result{}, fmt.Errorf("load %s (allowed: %s to %s), rate %d (allowed: %d to %d)", o.Load, MinLoad, MaxLoad, o.Rate, MinRate, MaxRate)
	}
	r := Result{AsOf: time.Now().UTC(), Seed: o.Seed, LoadSeconds: o.Load.Seconds(), RecordsPerSecond: o.Rate, Kept: true, Modes: []ModeResult{}}
	for _, m := range o.Modes {
		one := perform(ctx, o, m)
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		r.Kept = r.Kept && one.Error == "" && len(one.Findings) == 0
		r.Modes = append(r.Modes, one)
	}
	return r, nil
}

// perform runs one mode.
func perform(ctx context.Context, o Options, m Mode) ModeResult {
	a := &act{o: o, mode: m, ended: make(chan struct{})}
	err := a.run(ctx)
	err = errors.Join(err, a.end())
	r := ModeResult{Findings: []string{}, Topics: []TopicResult{}, Groups: []GroupResult{}, Course: []Point{}}
	if err == nil {
		r = a.evidence.result()
	} else {
		r.Error = err.Error()
	}
	r.Mode, r.Promise, r.PatienceSeconds = m.Name(), m.Promise(), m.Patience().Seconds()
	if err == nil {
		r.Findings = judge(r)
	}
	return r
}
