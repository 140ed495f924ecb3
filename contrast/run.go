package contrast

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// ErrBroken says that a mode did not keep what it promises.
var ErrBroken = errors.New("not every promise was kept")

// StoppedError says that ctx ended before all modes were finished. The result has
// those that were.
type StoppedError struct {
	Finished, Unfinished []string
	// Left is what could not be ended or taken away; nil for nothing.
	Left error
}

// Error names the modes.
func (e *StoppedError) Error() string {
	what := "stopped; no mode was finished"
	if len(e.Finished) > 0 {
		what = "stopped; finished: " + strings.Join(e.Finished, ", ") + "; not finished: " + strings.Join(e.Unfinished, ", ")
	}
	if e.Left != nil {
		what += fmt.Sprintf("; and not all that was started could be ended: %v", e.Left)
	}
	return what
}

// Unwrap gives what is left, and that a context ended.
func (e *StoppedError) Unwrap() []error { return []error{context.Canceled, e.Left} }

// stopped is the end of a run before its last mode, for a reason that is not its own.
func stopped(r *Result, rest []Mode, left error) error {
	e := &StoppedError{Left: left}
	for _, m := range r.Modes {
		e.Finished = append(e.Finished, m.Mode)
	}
	for _, m := range rest {
		e.Unfinished = append(e.Unfinished, m.Name())
	}
	r.Kept, r.Unfinished = false, e.Unfinished
	return e
}

// Run runs the load through all modes and measures. It returns an error only where
// ctx ended, a *StoppedError; a mode that failed says so in the result.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Load < MinLoad || o.Load > MaxLoad || o.Rate < MinRate || o.Rate > MaxRate {
		return Result{}, fmt.Errorf("load %s (allowed: %s to %s), rate %d (allowed: %d to %d)", o.Load, MinLoad, MaxLoad, o.Rate, MinRate, MaxRate)
	}
	r := Result{AsOf: time.Now().UTC(), Seed: o.Seed, LoadSeconds: o.Load.Seconds(), RecordsPerSecond: o.Rate, Kept: true, Modes: []ModeResult{}, Unfinished: []string{}}
	for i, m := range o.Modes {
		if ctx.Err() != nil {
			return r, stopped(&r, o.Modes[i:], nil)
		}
		one, left := perform(ctx, o, m)
		if ctx.Err() != nil && one.Error != "" {
			return r, stopped(&r, o.Modes[i:], left)
		}
		r.Kept = r.Kept && one.Error == "" && len(one.Findings) == 0
		r.Modes = append(r.Modes, one)
	}
	return r, nil
}

// perform runs one mode. left is what could not be ended; the result has it as well.
func perform(ctx context.Context, o Options, m Mode) (r ModeResult, left error) {
	a := &act{o: o, mode: m, ended: make(chan struct{})}
	err := a.run(ctx)
	if err != nil && ctx.Err() != nil {
		o.Say(m.Name() + ": stopped; what was started is ended and taken away")
	}
	left = a.end()
	err = errors.Join(err, left)
	r = ModeResult{Findings: []string{}, Topics: []TopicResult{}, Groups: []GroupResult{}, Course: []Point{}}
	if err == nil {
		r = a.evidence.result()
	} else {
		r.Error = err.Error()
	}
	r.Mode, r.Promise, r.PatienceSeconds = m.Name(), m.Promise(), m.Patience().Seconds()
	if err == nil {
		r.Findings = judge(r)
	}
	return r, left
}
