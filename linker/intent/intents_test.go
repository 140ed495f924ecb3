package intent

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var topics = []string{"a", "b", "c"}

// drawn is a command of the next number, mostly one that makes sense.
func drawn(t *rapid.T, now Intents) Command {
	c := Command{Link: "l", Number: now.Next(), ID: "x", Verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
	for _, topic := range topics {
		if rapid.Bool().Draw(t, topic) {
			c.Topics = append(c.Topics, topic)
		}
	}
	c.Switch = rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "switch")
	c.Fence = int16(rapid.IntRange(1, 9).Draw(t, "fence"))
	if c.Verb == Reverse {
		c.Next = "home"
	}
	if c.Verb == Accept && rapid.Bool().Draw(t, "for a group") {
		c.Group = "g"
	}
	return c
}

// model is what a person would say of one topic, written down without a table.
type model struct {
	want     Want
	sw       string
	reversed bool
}

func (m model) takes(c Command, linkPaused bool) bool {
	paused := m.want == Paused || m.want == Mirror && linkPaused
	switch c.Verb {
	case Pause:
		return m.want == Mirror || m.want == Paused
	case Resume:
		return m.want == PendingStop || m.want == Paused || m.want == Mirror && !linkPaused
	case Pend:
		return m.want == Mirror && !paused
	case Promote:
		return m.want == PendingStop && m.sw == c.Switch
	case Failover:
		return m.want == Mirror || m.want == Paused || m.want == PendingStop
	case Reverse:
		return m.want == Stopped
	case Retry, Accept:
		return m.want == Mirror || m.want == Paused
	case Recreate, Remove:
		return m.want != PendingStop
	case Adopt:
		return m.want == Mirror || m.want == Paused || m.want == Removed || m.reversed
	}
	return false
}

func (m model) after(c Command) model {
	switch c.Verb {
	case Pause:
		return model{want: Paused}
	case Resume:
		return model{want: Mirror}
	case Pend:
		return model{want: PendingStop, sw: c.Switch}
	case Promote, Failover:
		return model{want: Stopped}
	case Reverse:
		return model{want: Stopped, reversed: true}
	case Remove:
		return model{want: Removed}
	case Recreate, Adopt:
		if m.want != Paused {
			return model{want: Mirror}
		}
	}
	return m
}

// TestFoldIsWhatAPersonWouldSay compares with the model, and holds N2 to N5 after
// every command.
func TestFoldIsWhatAPersonWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := map[string]model{"a": {want: Mirror}, "b": {want: Mirror}, "c": {want: Mirror}}
		linkPaused := false
		var cmds []Command
		before := Fold(nil)
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			c := drawn(t, before)
			cmds = append(cmds, c)
			after := Fold(cmds)
			counts := len(c.Topics) > 0 || c.Verb == Pause || c.Verb == Resume || c.Group != ""
			for _, topic := range c.Topics {
				counts = counts && (models[topic].takes(c, linkPaused) || c.Group != "")
			}
			if err := before.Admits(c); (err == nil) != counts {
				t.Fatalf("%+v: %v, the model says %v", c, err, counts)
			}
			switch {
			case !counts || c.Group != "":
				sameBut(t, before, after)
			case len(c.Topics) == 0:
				linkPaused = c.Verb == Pause
			default:
				for _, topic := range c.Topics {
					models[topic] = models[topic].after(c)
				}
			}
			for _, topic := range topics {
				held(t, c, topic, before, after)
				want := models[topic].want
				if want == Mirror && linkPaused {
					want = Paused
				}
				if got := after.Of(topic); got.Want != want || got.Reversed() != models[topic].reversed {
					t.Fatalf("%s is %+v, the model says %+v", topic, got, models[topic])
				}
			}
			before = after
		}
	})
}

// sameBut requires that nothing but the number changed (N1).
func sameBut(t *rapid.T, before, after Intents) {
	before.last = after.last
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("%+v became %+v", before, after)
	}
}

// held checks one topic over one command.
func held(t *rapid.T, c Command, topic string, before, after Intents) {
	b, a := before.Of(topic), after.Of(topic)
	named := slices.Contains(c.Topics, topic)
	if b.Want == Stopped && (a.Want != Stopped || a.Cause.Number != b.Cause.Number) {
		ok := c.Verb == Reverse || c.Verb == Recreate || c.Verb == Remove || c.Verb == Adopt && b.Reversed()
		if !ok || !named {
			t.Fatalf("%s left STOPPED by %+v", topic, c)
		}
	}
	if a.Fence < b.Fence {
		t.Fatalf("the fence of %s fell from %d to %d", topic, b.Fence, a.Fence)
	}
	if !named && !reflect.DeepEqual(before.own(topic), after.own(topic)) {
		t.Fatalf("%s was not named by %+v and became %+v", topic, c, after.own(topic))
	}
	if after.Next() != before.Next()+1 {
		t.Fatalf("number %d follows %d", after.Next(), before.Next())
	}
}

// N4.
func TestLinkPauseAndResumeBringBackWhatWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cmds []Command
		for range rapid.IntRange(0, 15).Draw(t, "commands") {
			c := drawn(t, Fold(cmds))
			if len(c.Topics) > 0 {
				cmds = append(cmds, c)
			}
		}
		was := Fold(cmds)
		n := was.Next()
		paused := Fold(append(slices.Clone(cmds), Command{Number: n, Verb: Pause}))
		resumed := Fold(append(slices.Clone(cmds), Command{Number: n, Verb: Pause}, Command{Number: n + 1, Verb: Resume}))
		for _, topic := range topics {
			w, p, r := was.Of(topic), paused.Of(topic), resumed.Of(topic)
			if !reflect.DeepEqual(w, r) {
				t.Fatalf("%s was %+v and is %+v", topic, w, r)
			}
			if held := p.Want == Paused && p.Cause.Number == n; held != (w.Want == Mirror) || !held && !reflect.DeepEqual(p, w) {
				t.Fatalf("%s was %+v and is %+v while the link is paused", topic, w, p)
			}
		}
	})
}

// N1: the order in which the commands are handed over says nothing.
func TestFoldKnowsNumbersAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cmds []Command
		for range rapid.IntRange(0, 15).Draw(t, "commands") {
			cmds = append(cmds, drawn(t, Fold(cmds)))
		}
		want := Fold(cmds)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(cmds), func(i, j int) { cmds[i], cmds[j] = cmds[j], cmds[i] })
		if got := Fold(cmds); !reflect.DeepEqual(want, got) {
			t.Fatalf("%+v and %+v", want, got)
		}
	})
}

func TestObeyedCommands(t *testing.T) {
	at := func(n int32, v Verb, topics ...string) Command {
		return Command{Number: n, Verb: v, Topics: topics, Switch: "s", Fence: 1}
	}
	for name, c := range map[string]struct {
		cmds []Command
		want []int32
	}{
		"none":          {nil, []int32{}},
		"one of two":    {[]Command{at(1, Pause, "a"), at(2, Resume, "a")}, []int32{2}},
		"two and link":  {[]Command{at(1, Pend, "a"), at(2, Pend, "b", "c"), at(3, Pause)}, []int32{1, 2, 3}},
		"not the retry": {[]Command{at(1, Pause, "a"), at(2, Retry, "a", "b")}, []int32{1}},
	} {
		if got := Fold(c.cmds).Obeyed(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// FuzzFold: whatever commands say, no panic, and N2 and N5 hold.
func FuzzFold(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 1, 1, 3, 1, 1})
	f.Add([]byte{4, 7, 9, 5, 7, 0, 10, 1, 0, 8, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var cmds []Command
		before := Fold(nil)
		for ; len(b) >= 3; b = b[3:] {
			c := Command{Number: before.Next(), Verb: "?", Switch: fmt.Sprint(b[2] % 3), Fence: int16(b[2])}
			if int(b[0]) < len(verbs) {
				c.Verb = verbs[b[0]]
			}
			for i, topic := range topics {
				if b[1]&(1<<i) != 0 {
					c.Topics = append(c.Topics, topic)
				}
			}
			cmds = append(cmds, c)
			after := Fold(cmds)
			for _, topic := range topics {
				x, y := before.Of(topic), after.Of(topic)
				if x.Want == Stopped && y.Want != Stopped && !slices.Contains([]Verb{Recreate, Remove, Adopt}, c.Verb) || y.Fence < x.Fence {
					t.Fatalf("%+v made %+v of %+v", c, y, x)
				}
			}
			before = after
		}
	})
}
