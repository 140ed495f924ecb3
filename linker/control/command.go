package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"klink/linker/intent"
)

// LostError says that another command carries the number that a command was to
// carry, and came first: what it was decided on is no longer so, and has to be
// looked at again. It is not ErrLost.
type LostError struct {
	// Winner is the command that counts.
	Winner intent.Command
}

// Error says which command was first.
func (e *LostError) Error() string {
	return fmt.Sprintf("another command came first: %s by %s as number %d of link %q",
		e.Winner.Verb, e.Winner.By, e.Winner.Number, e.Winner.Link)
}

type commandValue struct {
	Version    int       `json:"version"`
	Verb       string    `json:"verb"`
	Topics     []string  `json:"topics,omitempty"`
	Fence      int16     `json:"fence,omitempty"`
	Switch     string    `json:"switch,omitempty"`
	Next       string    `json:"next,omitempty"`
	Group      string    `json:"group,omitempty"`
	Partitions []int32   `json:"partitions,omitempty"`
	WaitMillis int64     `json:"wait_ms,omitempty"`
	At         time.Time `json:"at"`
	By         string    `json:"by,omitempty"`
}

// encodeCommand gives the record of a command that was written try times before.
func encodeCommand(c intent.Command, try int) (Key, any) {
	return Key{Kind: KindCommand, Link: c.Link, Number: c.Number, ID: c.ID, Part: try},
		commandValue{Version: versions[KindCommand], Verb: string(c.Verb), Topics: c.Topics, Fence: c.Fence, Switch: c.Switch,
			Next: c.Next, Group: c.Group, Partitions: c.Partitions, WaitMillis: c.Wait.Milliseconds(), At: c.At.UTC(), By: c.By}
}

func (v commandValue) command(k Key) (intent.Command, error) {
	c := intent.Command{Link: k.Link, Number: k.Number, ID: k.ID, Verb: intent.Verb(v.Verb), Topics: v.Topics, Fence: v.Fence,
		Switch: v.Switch, Next: v.Next, Group: v.Group, Partitions: v.Partitions,
		Wait: time.Duration(v.WaitMillis) * time.Millisecond, At: v.At, By: v.By}
	return c, c.Check()
}

// orders are the commands of one link that are on record.
type orders struct {
	byNumber map[int32]map[tryKey]order
	// folded is what byNumber says, nil until somebody asks.
	folded *folded
}

// tryKey is one writing of one command.
type tryKey struct {
	id  string
	try int
}

// order is a command and where in the log it stands.
type order struct {
	intent.Command
	offset int64
}

type folded struct {
	winners []intent.Command
	intents intent.Intents
}

// give folds one writing of a command in. Of one that was written twice under
// one key the first counts (C7).
func (o *orders) give(c order, try int) {
	if o.byNumber[c.Number] == nil {
		o.byNumber[c.Number] = make(map[tryKey]order)
	}
	k := tryKey{c.ID, try}
	if old, ok := o.byNumber[c.Number][k]; ok {
		c.offset = min(c.offset, old.offset)
	}
	o.byNumber[c.Number][k] = c
	o.folded = nil
}

func (o *orders) take(k Key) {
	m := o.byNumber[k.Number]
	delete(m, tryKey{k.ID, k.Part})
	if len(m) == 0 {
		delete(o.byNumber, k.Number)
	}
	o.folded = nil
}

// winner returns the command that counts of those with a number: the first in
// the log.
func (o *orders) winner(number int32) (intent.Command, bool) {
	var first order
	found := false
	for _, c := range o.byNumber[number] {
		if !found || c.offset < first.offset {
			first, found = c, true
		}
	}
	return first.Command, found
}

func (o *orders) fold() *folded {
	if o.folded == nil {
		o.folded = new(folded)
		for _, n := range slices.Sorted(maps.Keys(o.byNumber)) {
			if c, ok := o.winner(n); ok {
				o.folded.winners = append(o.folded.winners, c)
			}
		}
		o.folded.intents = intent.Fold(o.folded.winners)
	}
	return o.folded
}

// ordersOf returns a link's commands, to be added to.
func (v *View) ordersOf(link string) *orders {
	if v.orders[link] == nil {
		v.orders[link] = &orders{byNumber: make(map[int32]map[tryKey]order)}
	}
	return v.orders[link]
}

// Commands returns the commands of a link that count, by number (C7): one of
// each number, and also those that changed nothing. Their slices are not to be
// changed.
func (v *View) Commands(link string) []intent.Command {
	if o, ok := v.orders[link]; ok {
		return slices.Clone(o.fold().winners)
	}
	return nil
}

// Intents returns what the commands of a link want, taken together.
func (v *View) Intents(link string) intent.Intents {
	if o, ok := v.orders[link]; ok {
		return o.fold().intents
	}
	return intent.Intents{}
}

// Commands returns the commands of a link that count; see View.Commands.
func (s *Store) Commands(link string) []intent.Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Commands(link)
}

// Intents returns what the commands of a link want; see View.Intents. It is
// quick where no command came since the last call.
func (s *Store) Intents(link string) intent.Intents {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Intents(link)
}

// PutCommand gives a command. It returns nil once the command is the one of its
// number that counts, for good; *LostError where another one is;
// *intent.RefusedError, with nothing written, where it would change nothing; and
// ErrTooLarge where it names too many topics. After any other error it may or
// may not be on record, now or later: giving the same command again, ID and
// all, is right and finds out. It needs Run to be running.
func (s *Store) PutCommand(ctx context.Context, c intent.Command) error {
	if err := c.Check(); err != nil {
		return err
	}
	// An earlier call may have put it on record without learning of it.
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	if decided, err := s.decided(c); decided {
		return err
	}
	if err := s.admits(c); err != nil {
		return err
	}
	k, v := encodeCommand(c, s.nextTry(c))
	if _, err := s.putThrough(ctx, k, v); err != nil {
		return s.inDoubt(ctx, c, err)
	}
	decided, err := s.decided(c)
	if !decided {
		return fmt.Errorf("control record %s was taken off the record again", k)
	}
	if err != nil {
		// It never counts, and must not come to count should the winner's producer
		// have written twice and the cleaner left the second writing only (C7).
		_ = s.put(ctx, k, nil)
	}
	return err
}

// inDoubt gives the outcome of a command whose writing failed, as far as the log
// tells it now.
func (s *Store) inDoubt(ctx context.Context, c intent.Command, failed error) error {
	if errors.Is(failed, ErrTooLarge) {
		return fmt.Errorf("%d topics are too many for one command: %w", len(c.Topics), failed)
	}
	if ctx.Err() != nil || s.CatchUp(ctx) != nil {
		return failed
	}
	if decided, err := s.decided(c); decided {
		return err
	}
	return failed
}

// decided reports whether any command has the number of c, and if so whether it
// is c. What has been read may be old, but no later record can change it.
func (s *Store) decided(c intent.Command) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.view.ordersOf(c.Link).winner(c.Number)
	switch {
	case !ok:
		return false, nil
	case w.ID != c.ID:
		return true, &LostError{Winner: w}
	default:
		return true, nil
	}
}

// admits reports why c would not count even as the first of its number.
func (s *Store) admits(c intent.Command) error {
	now := s.Intents(c.Link)
	if next := now.Next(); c.Number != next {
		return fmt.Errorf("command %d of link %q: the next number is %d", c.Number, c.Link, next)
	}
	return now.Admits(c)
}

// nextTry counts the writings of one command: each goes under a key of its own.
// The first may have reached the log after all, and a second one under the same
// key would make the cleaner take the first away, which may be what won (C7).
func (s *Store) nextTry(c intent.Command) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := Key{Kind: KindCommand, Link: c.Link, Number: c.Number, ID: c.ID}
	try := s.tries[k]
	s.tries[k]++
	return try
}
