package intent

import (
	"cmp"
	"errors"
	"maps"
	"slices"
)

// Intents is what is wanted of a link and all its topics. The zero value wants
// everything mirrored. It does not change once Fold made it.
type Intents struct {
	// topics holds what is wanted of a topic by itself, whatever its link does.
	topics map[string]Intent
	link   Intent
	// last is the highest number among the commands.
	last int32
}

// Fold takes together what the commands of one link say that count, in the order
// of their numbers. A number may be missing; of one number there is one.
func Fold(winners []Command) Intents {
	byNumber := func(a, b Command) int { return cmp.Compare(a.Number, b.Number) }
	if !slices.IsSortedFunc(winners, byNumber) {
		winners = slices.SortedStableFunc(slices.Values(winners), byNumber)
	}
	out := Intents{topics: make(map[string]Intent)}
	for _, c := range winners {
		out.add(c)
	}
	return out
}

// add folds one command in; one that is not admitted only takes its number (N1).
func (s *Intents) add(c Command) {
	if c.Number <= s.last {
		return
	}
	admitted := s.Admits(c) == nil
	s.last = c.Number
	switch {
	case !admitted:
	case c.forLink():
		s.link = s.Link().after(c)
	case c.Group != "":
		// It is about a group's offsets; the topics go on as they do.
	default:
		for _, t := range c.Topics {
			s.topics[t] = s.own(t).after(c)
		}
	}
}

// after is what a command that is allowed makes of an intent. It is asked of a
// topic's own intent, or of the link's.
func (i Intent) after(c Command) Intent {
	want := moves[i.row()][c.Verb]
	if want != i.Want || !c.Verb.again() {
		i.Want, i.Cause = want, c
	}
	if c.Verb.again() {
		i.Again = c.Number
	}
	if c.Verb.stops() {
		i.Fence = max(i.Fence, c.Fence)
	}
	return i
}

// own is what is wanted of a topic by itself.
func (s Intents) own(topic string) Intent {
	if i, ok := s.topics[topic]; ok {
		return i
	}
	return Intent{Want: Mirror}
}

// Of returns what is wanted of a topic, also of one that no command names. A link
// that is paused pauses a topic that is to be mirrored: then Cause is the link's.
func (s Intents) Of(topic string) Intent {
	i := s.own(topic)
	if i.Want == Mirror && s.link.Want == Paused {
		i.Want, i.Cause = Paused, s.link.Cause
	}
	return i
}

// Link returns what is wanted of the link itself: Mirror or Paused.
func (s Intents) Link() Intent {
	if s.link.Want == "" {
		return Intent{Want: Mirror}
	}
	return s.link
}

// Next is the number that the next command of the link has to carry.
func (s Intents) Next() int32 { return s.last + 1 }

// Named lists the topics that any command was about, sorted.
func (s Intents) Named() []string { return slices.Sorted(maps.Keys(s.topics)) }

// Obeyed lists the numbers of the commands that made any topic, or the link, what
// it is to be now, sorted.
func (s Intents) Obeyed() []int32 {
	out := []int32{s.link.Cause.Number}
	for _, i := range s.topics {
		out = append(out, i.Cause.Number)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(n int32) bool { return n == 0 })
}

// errForLink is for a command about no topics that needs some.
var errForLink = errors.New("only pause and resume are about a link as a whole")

// Admits tells whether a command would count now: nil, or the *RefusedError of
// the first topic that does not allow it (N3). The number is not looked at.
func (s Intents) Admits(c Command) error {
	if len(c.Topics) == 0 && !c.forLink() && (c.Verb != Accept || c.Group == "") {
		return errForLink
	}
	if c.Group != "" {
		return nil
	}
	for _, t := range c.Topics {
		if err := s.admits(t, c); err != nil {
			err.Topic = t
			return err
		}
	}
	return nil
}

func (s Intents) admits(topic string, c Command) *RefusedError {
	i := s.Of(topic)
	refused := &RefusedError{Verb: c.Verb, Want: i.Want}
	switch {
	case errors.As(i.Allows(c.Verb), &refused):
	case c.Verb == Promote && i.Cause.Switch != c.Switch:
		refused.Why = "it was stopped for another promotion"
	case c.Verb == Resume && i.PausedByLink():
		refused.Why = "the link is paused as a whole; resume the link"
	default:
		return nil
	}
	return refused
}
