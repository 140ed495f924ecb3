package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"klink/linker/intent"
	"klink/linker/ownlog"
)

func command(number int32, id string, v intent.Verb, topics ...string) intent.Command {
	return intent.Command{Link: "l", Number: number, ID: id, Verb: v, Topics: topics, Switch: "s", Fence: 1, Wait: time.Second, At: wantAt, By: "ann@host"}
}

// commander is a process that gives commands step by step.
type commander struct {
	id    string
	view  *View
	next  int
	own   *intent.Command // written, and not yet decided upon
	at    int             // where its last writing stands, -1 before it landed
	tries int
}

func (c *commander) read(t *rapid.T, l *paperLog, to int) {
	for ; c.next < to; c.next++ {
		e := l.entries[c.next]
		if e.cleaned {
			continue
		}
		var value []byte
		if e.value != "" {
			value = []byte(e.value)
		}
		if err := c.view.apply(int64(c.next), time.Time{}, []byte(e.key), value); err != nil {
			t.Fatal(err)
		}
	}
}

// decide does what PutCommand does once it read past its own record, or once it
// looked after a writing of unknown outcome. It reports whether that decided it.
func (c *commander) decide(t *rapid.T, l *paperLog, told map[int32]string) bool {
	w, ok := c.view.ordersOf("l").winner(c.own.Number)
	if !ok {
		return false
	}
	if w.ID == c.id {
		if id, again := told[w.Number]; again && id != w.ID {
			t.Fatalf("number %d was given to %s and to %s", w.Number, id, w.ID)
		}
		told[w.Number] = w.ID
	} else if k, _ := encodeCommand(*c.own, c.tries-1); rapid.Bool().Draw(t, "tidy") {
		l.append(k, nil)
	}
	c.own = nil
	return true
}

// C7, step by step: writers that know nothing of each other's last moves, records
// that land late or never, commands that are written again for that, processes
// that end, losers that leave their records or take them off, and a cleaner that
// takes away all it may. Whoever was told that its command counts is in every
// later view.
func TestOneCommandOfANumberCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, told := &paperLog{}, make(map[int32]string)
		var late batch
		starts := 0
		start := func() *commander {
			starts++
			c := &commander{id: fmt.Sprintf("w%d", starts), view: newView()}
			c.read(t, l, len(l.entries))
			return c
		}
		write := func(c *commander) {
			k, v := encodeCommand(*c.own, c.tries)
			if c.tries++; rapid.Bool().Draw(t, "late") {
				late.add(k, v)
				c.at = -1
				return
			}
			c.at = int(l.append(k, v))
		}
		all := []*commander{start(), start(), start()}
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "who")
			c := all[i]
			switch rapid.SampledFrom([]string{"write", "write", "read", "read", "decide", "decide", "look", "land", "restart", "clean"}).Draw(t, "step") {
			case "write":
				if c.own == nil {
					cmd := command(c.view.Intents("l").Next(), c.id, intent.Pause, "t")
					c.own, c.tries = &cmd, 0
					write(c)
				}
			case "read":
				c.read(t, l, rapid.IntRange(c.next, len(l.entries)).Draw(t, "to"))
			case "decide":
				if c.own != nil && c.at >= 0 && c.next > c.at && !c.decide(t, l, told) {
					t.Fatalf("%s wrote number %d and none is on record", c.id, c.own.Number)
				}
			case "look": // no answer came; whether it is on record comes first
				c.read(t, l, len(l.entries))
				if c.own != nil && !c.decide(t, l, told) {
					write(c)
				}
			case "land":
				if n := len(late); n > 0 {
					k := rapid.IntRange(0, n-1).Draw(t, "which")
					l.append(late[k].key, late[k].value)
					late = slices.Delete(late, k, k+1)
				}
			case "restart":
				all[i] = start()
			case "clean":
				l.clean(rapid.IntRange(0, len(l.entries)).Draw(t, "upto"))
			}
			fresh := start()
			for n, id := range told {
				if w, ok := fresh.view.ordersOf("l").winner(n); !ok || w.ID != id {
					t.Fatalf("number %d was %s's and is %s's", n, id, w.ID)
				}
			}
		}
	})
}

// Whatever losers and repeats the log holds, what is wanted is a function of the
// winners.
func TestIntentsAreAFunctionOfTheWinners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &paperLog{}
		var winners []intent.Command
		for n := range int32(rapid.IntRange(1, 12).Draw(t, "numbers")) {
			for i := range rapid.IntRange(1, 3).Draw(t, "writers") {
				c := command(n+1, fmt.Sprint(i), rapid.SampledFrom([]intent.Verb{intent.Pause, intent.Resume, intent.Pend, intent.Promote, intent.Failover, intent.Remove, intent.Adopt}).Draw(t, "verb"),
					rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"))
				if i == 0 {
					winners = append(winners, c)
				}
				for try := range rapid.IntRange(1, 2).Draw(t, "tries") {
					l.append(encodeCommand(c, try))
				}
			}
		}
		if rapid.Bool().Draw(t, "clean") {
			l.clean(len(l.entries))
		}
		c := &commander{view: newView()}
		c.read(t, l, len(l.entries))
		if d := cmp.Diff(winners, c.view.Commands("l")); d != "" {
			t.Fatal(d)
		}
		want, got := intent.Fold(winners), c.view.Intents("l")
		for _, topic := range []string{"a", "b", "c"} {
			if d := cmp.Diff(want.Of(topic), got.Of(topic)); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// A producer that writes the same record twice, as one that lost its state may:
// the first writing counts as long as it was seen.
func TestCommandWrittenTwiceUnderOneKey(t *testing.T) {
	var b batch
	b.add(encodeCommand(command(1, "a", intent.Pause, "t"), 0))
	b.add(encodeCommand(command(1, "b", intent.Failover, "t"), 0))
	b.add(encodeCommand(command(1, "a", intent.Pause, "t"), 0))
	v := viewOf(t, storedOf(t, b)...)
	if got := v.Commands("l"); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("%+v", got)
	}
	k, _ := encodeCommand(command(1, "a", intent.Pause, "t"), 0)
	kb, err := k.encode()
	must(t, err)
	must(t, v.apply(3, wantAt, kb, nil))
	if got := v.Commands("l"); len(got) != 1 || got[0].ID != "b" {
		t.Errorf("after it was taken off: %+v", got)
	}
}

// Operators at several stores that all want another thing: each number goes to
// one of them, and all stores say the same.
func TestManyGiveCommandsAtOnce(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	const each = 5
	var stores []opened
	for range 3 {
		stores = append(stores, open(t, newClient(t, c)))
	}
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for n := range each {
				for {
					cmd := command(s.Intents("l").Next(), fmt.Sprintf("%d-%d", i, n), intent.Pause, fmt.Sprintf("t%d", i))
					err := s.PutCommand(ctx, cmd)
					var l *LostError
					if err == nil {
						break
					}
					if !errors.As(err, &l) || l.Winner.Number != cmd.Number || l.Winner.ID == cmd.ID || errors.Is(err, ErrLost) {
						t.Error(err)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	cmds := v.Commands("l")
	ids := make(map[string]bool)
	for i, c := range cmds {
		if ids[c.ID] = true; c.Number != int32(i+1) {
			t.Errorf("number %d follows %d others", c.Number, i)
		}
	}
	if len(cmds) != each*len(stores) || len(ids) != len(cmds) {
		t.Errorf("%d commands with %d ids", len(cmds), len(ids))
	}
	for _, s := range stores {
		must(t, s.CatchUp(ctx))
		if d := cmp.Diff(cmds, s.Commands("l")); d != "" {
			t.Error(d)
		}
	}
	// Losers leave nothing.
	for n, m := range v.ordersOf("l").byNumber {
		if len(m) != 1 {
			t.Errorf("%d commands of number %d are left", len(m), n)
		}
	}
}

func TestCommandThatIsOnRecordAlready(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	won := command(1, "a", intent.Pause, "t")
	must(t, s.PutCommand(ctx, won))
	writes := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	other := open(t, newClient(t, c))
	must(t, other.PutCommand(ctx, won)) // an answer that was lost
	var lost *LostError
	err := other.PutCommand(ctx, command(1, "b", intent.Failover, "t"))
	if !errors.As(err, &lost) || lost.Winner.ID != "a" || !strings.Contains(err.Error(), "pause by ann@host as number 1") {
		t.Errorf("got %v", err)
	}
	var refused *intent.RefusedError
	if err := other.PutCommand(ctx, command(2, "c", intent.Promote, "t")); !errors.As(err, &refused) || refused.Topic != "t" {
		t.Errorf("got %v", err)
	}
	for name, wrong := range map[string]intent.Command{
		"a number too high": command(3, "d", intent.Resume, "t"), "no id": command(2, "", intent.Resume, "t"), "no topics": command(2, "d", intent.Remove),
	} {
		if err := other.PutCommand(ctx, wrong); err == nil || errors.As(err, &lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := writes.Hits(); n != 0 {
		t.Errorf("%d writes for nothing", n)
	}
	must(t, other.PutCommand(ctx, command(2, "d", intent.Resume, "t")))
}

// The answer is lost, the record is not: giving the command again finds it.
func TestCommandWhoseAnswerIsLost(t *testing.T) {
	c := newCluster(t)
	s := open(t, newClient(t, c))
	must(t, s.PutLink(testContext(t), wantLink))
	cmd := command(1, "a", intent.Pause, "t")
	held := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := s.PutCommand(short, cmd); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	// It reached the log after all, and so did a rival's, behind it.
	k, v := encodeCommand(cmd, 0)
	rk, rv := encodeCommand(command(1, "b", intent.Resume, "t"), 0)
	held.Remove()
	raw := newClient(t, c)
	for _, r := range storedOf(t, batch{{k, v}, {rk, rv}}) {
		must(t, raw.ProduceSync(testContext(t), &kgo.Record{Topic: TopicName, Key: []byte(r.key), Value: []byte(r.value)}).FirstErr())
	}
	must(t, s.PutCommand(testContext(t), cmd))
	if got := s.Commands("l"); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("%+v", got)
	}
}

// A second writing goes under another key: the first one may come late, and what
// the cleaner leaves must not depend on that (C7).
func TestCommandIsNeverWrittenTwiceUnderOneKey(t *testing.T) {
	c := newCluster(t)
	s := open(t, newClient(t, c))
	must(t, s.PutLink(testContext(t), wantLink))
	cmd := command(1, "a", intent.Pause, "t")
	held := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := s.PutCommand(short, cmd); err == nil {
		t.Fatal("it was written")
	}
	held.Remove()
	// The client fails what is queued behind a record that it gave up.
	eventually(t, "the command", func() bool { return s.PutCommand(testContext(t), cmd) == nil })
	for key, n := range writings(t, newClient(t, c)) {
		if n > 1 && strings.Contains(key, string(KindCommand)) {
			t.Errorf("%s was written %d times", key, n)
		}
	}
	if first, second := s.nextTry(cmd), s.nextTry(cmd); first == 0 || second == first {
		t.Errorf("writings %d and %d follow", first, second)
	}
}

// writings counts the records of each key in the log.
func writings(t testing.TB, cl *kgo.Client) map[string]int {
	t.Helper()
	log := ownlog.New(cl, TopicName)
	defer log.Close()
	must(t, log.Locate(testContext(t)))
	out := make(map[string]int)
	must(t, log.ReadToEnd(testContext(t), func(rs []*kgo.Record) error {
		for _, r := range rs {
			out[string(r.Key)]++
		}
		return nil
	}))
	return out
}

func TestCommandOfManyTopics(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	var names []string
	for n := range 10_000 {
		names = append(names, fmt.Sprintf("%060d", n))
	}
	cmd := command(1, "a", intent.Failover, names...)
	must(t, s.PutCommand(ctx, cmd))
	must(t, s.PutCommand(ctx, cmd))
	if got := s.Intents("l"); got.Of(names[9_999]).Want != intent.Stopped || got.Of("other").Want != intent.Mirror {
		t.Error("it does not count")
	}
	for n := range names {
		names[n] += strings.Repeat("x", 30)
	}
	err := s.PutCommand(ctx, command(2, "b", intent.Remove, slices.Clone(names)...))
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "10000 topics are too many for one command") {
		t.Errorf("got %v", err)
	}
}
