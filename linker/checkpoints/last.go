package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"klink/linker/remote"
	"klink/linker/state"
)

var (
	errNotHere = errors.New("another process writes the checkpoints now")
	errCommits = errors.New("what groups have committed is not known yet")
)

// ask is for a round that begins now, and done, of size 1, for what came of it.
type ask struct {
	topics []string
	done   chan error
}

// Last returns once all that groups have committed on source topics, when it was
// called, is in checkpoints, and what was copied last in offset syncs: before the
// topics are stopped (P7). It returns at once where none of them is in checkpoint
// mode. After an error trying again is right. What only an operator can mend, a right
// that is missing or a topic that is made wrongly, is shown and is no error: nothing
// could be promoted for as long. Run must be running.
func (t *Task) Last(ctx context.Context, topics []string) error {
	inMode := t.topics()
	if !slices.ContainsFunc(topics, func(topic string) bool { _, ok := inMode[topic]; return ok }) {
		return nil
	}
	a := ask{topics, make(chan error, 1)}
	select {
	case t.asks <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rounds has all groups looked at once per interval while this process may write, and
// whenever somebody asks.
func (t *Task) rounds(ctx context.Context) {
	look := min(t.o.Interval, lookEvery)
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last time.Time
	for ctx.Err() == nil {
		var asked *ask
		select {
		case <-tick.C:
		case a := <-t.asks:
			asked = &a
		case <-ctx.Done():
			return
		}
		until, held := t.lease()
		switch {
		case !held:
			t.lapsed()
			asked.answer(errNotHere)
		case asked != nil || t.wanted.Load() && time.Since(last) >= t.o.Interval:
			last = time.Now()
			r := t.round(ctx, until)
			asked.answer(r.rest(asked))
		}
	}
}

func (a *ask) answer(err error) {
	if a != nil {
		a.done <- err
	}
}

// result is what came of a round.
type result struct {
	// known: what groups have committed was known.
	known bool
	// unbounded are source topics of which commits could not be checked, as the target
	// did not tell where their copies end.
	unbounded map[string]bool
	// errs are of checkpoints and of offset syncs.
	errs []error
}

// rest is what is left to be done and may be soon, for who asked; nil is nothing.
func (r result) rest(a *ask) error {
	if a == nil {
		return nil
	}
	if !r.known {
		return errCommits
	}
	for _, topic := range a.topics {
		if r.unbounded[topic] {
			return fmt.Errorf("topic %s: the target does not tell where its copies end", topic)
		}
	}
	var passing []error
	for _, err := range r.errs {
		if err != nil && !lasting(err) {
			passing = append(passing, err)
		}
	}
	return errors.Join(passing...)
}

// lasting tells of an error that goes on until somebody does something about it.
func lasting(err error) bool {
	return errors.Is(err, ErrSettings) || remote.ReasonOf(err) == state.NoPermission
}
