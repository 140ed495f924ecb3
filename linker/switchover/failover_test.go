package switchover

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/intent"
	"klink/linker/state"
)

var deep = flag.Bool("deep", false, "three faults in every course: some minutes")

// faults is how many faults a course has at most.
func faults(usual int) int {
	if *deep {
		return usual + 1
	}
	return usual
}

// header is a batch without records, as far as its header is read.
func header(base, producer int64, e entry) []byte {
	b := make([]byte, 61)
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[8:], 49)
	b[16] = 2
	if e.marker {
		binary.BigEndian.PutUint16(b[21:], 0x30)
	}
	binary.BigEndian.PutUint64(b[43:], uint64(producer))
	binary.BigEndian.PutUint16(b[51:], uint16(e.epoch))
	return b
}

// Read implements Reader.
func (w *world) Read(_ context.Context, p feed.Partition, _ feed.TopicID, from int64, _ int32) (*feed.Chunk, error) {
	defer w.lock()()
	if w.pick("tail", 2) == 1 {
		return nil, errCut
	}
	var bs [][]byte
	pc := w.of(p.Topic)[p.Partition]
	id := appender.ProducerID("src", topicID("s"+p.Topic), p.Partition, 0)
	for at := from; at < int64(len(pc.log)); at++ {
		bs = append(bs, header(at, id, pc.log[at]))
	}
	return &feed.Chunk{Next: from, Batches: bs}, nil
}

// open returns a Switch of one process.
func (w *world) open(owner string) *Switch {
	return New(Options{Link: theLink, Store: w, Target: w, Reader: w, Settings: w, Source: w, CarriesGroups: w.groups || w.wantsGroups,
		Owner: owner, Times: Times{Session: session, Quiet: w.quiet}, Concurrency: 1})
}

// attempt runs one command as one process; died is true where it did not survive.
func (w *world) attempt(do func() (Result, error)) (r Result, err error, died bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			died = true
		}
	}()
	r, err = do()
	w.note("ended with %v, notes %q", err, r.Notes)
	return r, err, false
}

// failover runs the command again and again until it succeeds.
func (w *world) failover() Result {
	for range 12 {
		r, err, died := w.attempt(func() (Result, error) {
			return w.open("cli").Failover(context.Background(), Request{By: "op"})
		})
		switch {
		case died:
			w.pass(300 * time.Millisecond)
			continue
		case err == nil:
			w.checkFailover(r)
			return r
		}
		var failed *ItemsFailedError
		if !errors.As(err, &failed) {
			w.fatal("failover ends with %v", err)
		}
		w.pass(300 * time.Millisecond)
	}
	w.fatal("the failover never succeeds")
	return Result{}
}

// checkFailover is what holds after a failover that succeeded, and for ever.
func (w *world) checkFailover(r Result) {
	w.t.Helper()
	if r.Failed != 0 || r.Switch == nil || len(r.Topics) != len(w.names()) {
		w.fatal("result %+v", r)
	}
	before := map[*piece]int{}
	for _, p := range w.pieces {
		before[p] = len(p.log)
	}
	w.pass(20 * time.Second)
	for _, topic := range w.names() {
		i := w.wants(topic)
		if i.Want != intent.Stopped {
			w.fatal("%s is %s", topic, i.Want)
		}
		cut, ok := w.cuts[topic+"/"+i.Cause.Switch]
		if !ok || w.forced[topic] == 0 || cut.Unsettled {
			w.fatal("X9: %s: cut %v, settings set %d times, unsettled %t", topic, ok, w.forced[topic], cut.Unsettled)
		}
		for _, p := range w.of(topic) {
			if len(p.log) != before[p] {
				w.fatal("X3: %s/%d grew from %d to %d after the failover", topic, p.n, before[p], len(p.log))
			}
			c := cut.Partitions[p.n]
			end := int64(len(p.log))
			if at := p.firstFence(); at != feed.Unknown {
				end = at
			} else if !w.confirmed(topic, p.n, i.Cause.Number) {
				w.fatal("X3: %s/%d has no fence and no word that counts", topic, p.n)
			}
			if c.Unfenced || c.TargetEnd != end {
				w.fatal("X4: %s/%d is cut as %+v and ends at %d", topic, p.n, c, end)
			}
		}
	}
}

func (w *world) confirmed(topic string, n, number int32) bool {
	for _, a := range w.acks[topic] {
		for _, p := range a.Partitions {
			if a.Number == number && p.Partition == n && p.Wrote {
				return true
			}
		}
	}
	return false
}

// TestG4_FailoverWithEveryFaultAtEveryStep enumerates faults and crashes with the
// daemon alive, dead, and cut off from the record and writing on.
func TestG4_FailoverWithEveryFaultAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		parts  []string
		budget int
		change func(*world)
	}{
		{"the daemon is dead", []string{"a"}, 2, func(w *world) { w.worker.alive = false }},
		{"the daemon lives", []string{"a", "a"}, 1, func(*world) {}},
		{"a zombie writes on", []string{"a"}, 2, func(w *world) { w.worker.reads, w.pieces[0].src = false, 1<<20 }},
		{"two topics, load", []string{"a", "b"}, 1, func(w *world) { w.pieces[0].src, w.pieces[1].src = 1<<20, 1<<20 }},
		{"others are quicker", []string{"a"}, 2, func(w *world) {
			w.worker.alive = false
			w.rivals = []intent.Verb{intent.Pause, intent.Failover}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &odometer{budget: faults(c.budget)}
			n := 0
			synctest.Test(t, func(t *testing.T) {
				for more := true; more; more = o.turn() {
					w := newWorld(t, o.pick, c.parts...)
					c.change(w)
					w.failover()
					n++
				}
			})
			t.Logf("%d courses", n)
		})
	}
}

// quiet has no faults.
func quiet(string, int) int { return 0 }

// play runs one scene on a quiet world.
func play(t *testing.T, parts []string, scene func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { scene(newWorld(t, quiet, parts...)) })
}

// TestFailoverFencesOnlyWhatNobodyConfirms: a word without Wrote does not count.
func TestFailoverFencesOnlyWhatNobodyConfirms(t *testing.T) {
	play(t, []string{"a", "a"}, func(w *world) {
		begun := time.Now()
		r := w.failover()
		if took := time.Since(begun) - 20*time.Second; took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		one, two := r.Topics[0].Partitions[0], r.Topics[0].Partitions[1]
		if one.Fenced || !two.Fenced || *two.FenceOffset != 3 || *two.TargetEnd != 4 || *two.LastMirrored != 2 || *one.TargetEnd != 3 {
			t.Errorf("partitions %+v, %+v", one, two)
		}
		if *r.RecordsLost != 0 || !strings.Contains(one.Detail, "w1") {
			t.Errorf("lost %d, detail %q", *r.RecordsLost, one.Detail)
		}
	})
}

// TestFailoverAgainDoesNothing: what is done is recognised, and the numbers are
// those of the cut whatever was produced since (X7).
func TestFailoverAgainDoesNothing(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.alive = false
		first := w.failover()
		p := w.pieces[0]
		p.log = append(p.log, entry{epoch: p.epoch}, entry{epoch: p.epoch})
		w.pass(time.Second)
		r, err := w.open("again").Failover(context.Background(), Request{})
		if err != nil || len(p.log) != 6 || len(w.log) != 1 {
			t.Fatalf("%v; log %d, commands %d", err, len(p.log), len(w.log))
		}
		a, b := first.Topics[0].Partitions[0], r.Topics[0].Partitions[0]
		if *a.TargetEnd != *b.TargetEnd || *a.LastMirrored != *b.LastMirrored || *a.FenceOffset != *b.FenceOffset || *first.Switch != *r.Switch {
			t.Errorf("was %+v, is %+v", a, b)
		}
	})
}

// TestFailoverWithoutTheControlTopic: the fences go out, it says so, and running
// it again does the rest.
func TestFailoverWithoutTheControlTopic(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.reads, w.pieces[0].src = false, 1<<20
		w.deaf = time.Now().Add(5 * time.Second)
		r, err := w.open("cli").Failover(context.Background(), Request{})
		var failed *ItemsFailedError
		top := r.Topics[0]
		if !errors.As(err, &failed) || top.OK || top.Reason != string(state.ControlUnwritable) || !top.Partitions[0].Fenced || len(r.Notes) == 0 {
			t.Fatalf("%v: %+v", err, r)
		}
		fence := w.pieces[0].firstFence()
		w.pass(10 * time.Second)
		again := w.failover()
		if got := again.Topics[0].Partitions[0]; *got.FenceOffset != fence || w.pieces[0].firstFence() != fence || int64(len(w.pieces[0].log)) != fence+1 {
			t.Errorf("fence at %d, then %+v", fence, got)
		}
	})
}

// TestFailoverWithoutTheRightForMarkers waits for the lease's end and says
// UNFENCED.
func TestFailoverWithoutTheRightForMarkers(t *testing.T) {
	play(t, []string{"a", "a"}, func(w *world) {
		w.mayMark, w.worker.reads = false, false
		begun := time.Now()
		r, err := w.open("cli").Failover(context.Background(), Request{})
		top := r.Topics[0]
		if err == nil || top.OK || top.Reason != Unfenced || !strings.Contains(top.Hint, "grant") || top.State != "STOPPED" {
			t.Fatalf("%v: %+v", err, top)
		}
		if took := time.Since(begun); took < session || took > session+time.Second {
			t.Errorf("took %v", took)
		}
		cut := w.Cuts(theLink, *r.Switch)[0]
		if !cut.Partitions[0].Unfenced || cut.Partitions[0].FenceOffset != nil {
			t.Errorf("cut %+v", cut)
		}
		w.mayMark = true
		w.failover()
	})
}

// TestFailoverLeavesPromotedTopics (X6).
func TestFailoverLeavesPromotedTopics(t *testing.T) {
	play(t, []string{"a", "b"}, func(w *world) {
		if r, err := w.open("cli").Promote(context.Background(), Request{Topics: []string{"a"}}); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		w.worker.alive = false
		r, err := w.open("cli").Failover(context.Background(), Request{})
		if err != nil || w.pieces[0].firstFence() != feed.Unknown || w.pieces[1].firstFence() != 3 {
			t.Fatalf("%v: %+v", err, r)
		}
		if a := r.Topics[0]; !a.OK || a.State != "STOPPED" || *a.Partitions[0].TargetEnd != 3 {
			t.Errorf("promoted topic: %+v", a)
		}
	})
}

// TestFailoverLeavesPromotedTopicsWhateverIsOnRecord (X6).
func TestFailoverLeavesPromotedTopicsWhateverIsOnRecord(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		if _, err := w.open("cli").Promote(context.Background(), Request{}); err != nil {
			t.Fatal(err)
		}
		clear(w.cuts)
		r, err := w.open("cli").Failover(context.Background(), Request{})
		if err != nil || len(w.pieces[0].log) != 3 || *r.Topics[0].Partitions[0].TargetEnd != 3 {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

// TestAFenceThatIsNotReplicatedIsNone: another leader may not have it (X3).
func TestAFenceThatIsNotReplicatedIsNone(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.alive, w.behind = false, 1
		r, err := w.open("cli").Failover(context.Background(), Request{})
		top := r.Topics[0]
		if err == nil || top.Reason != Unfenced || !strings.Contains(top.Detail, string(state.NotEnoughReplicas)) || top.Partitions[0].Fenced {
			t.Fatalf("%v: %+v", err, top)
		}
		w.behind = 0
		w.failover()
		if len(w.pieces[0].log) != 4 {
			t.Errorf("the fence was written again: %+v", w.pieces[0].log)
		}
	})
}

// TestFailoverWhileAPromotionWaits: the failover counts and the promotion says who
// was quicker.
func TestFailoverWhileAPromotionWaits(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.stops, w.pieces[0].src = true, 9
		var err error
		done := make(chan struct{})
		go func() {
			_, err = w.open("promoter").Promote(context.Background(), Request{})
			close(done)
		}()
		time.Sleep(time.Second)
		w.failover()
		<-done
		var refused *NotAllowedError
		if !errors.As(err, &refused) || refused.Cause.Verb != intent.Failover || refused.Cause.By != "op" {
			t.Errorf("the promotion ends with %v", err)
		}
	})
}

// TestForecastWritesNothing and has the numbers of a failover.
func TestForecastWritesNothing(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.stops, w.pieces[0].src = true, 10
		w.pass(2 * time.Second)
		for _, run := range []func() (Result, error){
			func() (Result, error) { return w.open("cli").Forecast(context.Background(), Request{}) },
			func() (Result, error) {
				return w.open("cli").Failover(context.Background(), Request{DryRun: true})
			},
		} {
			r, err := run()
			if err != nil || *r.RecordsLost != 7 || *r.UnseenSeconds < 1.9 || r.Topics[0].State != "ACTIVE" || r.Switch != nil {
				t.Errorf("%v: %+v", err, r)
			}
		}
		if len(w.log)+len(w.cuts)+len(w.forced) > 0 || len(w.pieces[0].log) != 3 {
			t.Error("something was written")
		}
	})
}

// TestWhatWasKilledIsToldBeforehand (X9): with the command to give again, until it was.
func TestWhatWasKilledIsToldBeforehand(t *testing.T) {
	for verb, give := range map[string]func(*Switch, Request) (Result, error){
		"failover": func(s *Switch, r Request) (Result, error) { return s.Failover(context.Background(), r) },
		"promote":  func(s *Switch, r Request) (Result, error) { return s.Promote(context.Background(), r) },
	} {
		synctest.Test(t, func(t *testing.T) {
			killed := false
			w := newWorld(t, func(what string, _ int) int {
				if what != "settings" || killed {
					return 0
				}
				killed = true
				return 2 // before they are set
			}, "a")
			if _, _, died := w.attempt(func() (Result, error) { return give(w.open("cli"), Request{}) }); !died {
				t.Fatalf("%s was not killed", verb)
			}
			for _, want := range []string{"give klink " + verb + " again", ""} {
				forecast, err := w.open("cli").Forecast(context.Background(), Request{})
				dry, dryErr := give(w.open("cli"), Request{DryRun: true})
				if err != nil || dryErr != nil || !strings.HasSuffix(forecast.Topics[0].Detail, want) || dry.Topics[0].Detail != forecast.Topics[0].Detail ||
					want == "" && dry.Topics[0].Detail != "" {
					t.Errorf("%s: %v, %+v, and a dry run %v, %+v", verb, err, forecast.Topics, dryErr, dry.Topics)
				}
				if r, err := give(w.open("cli"), Request{}); err != nil {
					t.Fatalf("%s again: %v, %+v", verb, err, r)
				}
			}
		})
	}
}

// TestUnknownTopicsAreNamed.
func TestUnknownTopicsAreNamed(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		for _, run := range []func(context.Context, Request) (Result, error){w.open("c").Failover, w.open("c").Promote, w.open("c").Forecast} {
			if _, err := run(context.Background(), Request{Topics: []string{"nope"}}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "nope") {
				t.Errorf("got %v", err)
			}
		}
		if len(w.log) > 0 {
			t.Error("a command was given")
		}
	})
}

// TestWordsOfOtherCommandsDoNotCount.
func TestWordsOfOtherCommandsDoNotCount(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.put(intent.Command{Link: theLink, Number: 1, ID: "x", Verb: intent.Pause, Topics: []string{"a"}}, time.Now())
		w.pass(time.Second)
		if len(w.acks["a"]) != 1 {
			t.Fatalf("acks %v", w.acks)
		}
		w.worker.alive = false
		w.failover()
		if w.pieces[0].firstFence() == feed.Unknown {
			t.Error("the word about the pause counted")
		}
	})
}

// TestPartitionsAreFencedSideBySide: all are under way at once.
func TestPartitionsAreFencedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quiet, slices.Repeat([]string{"a"}, 200)...)
		w.worker.alive = false
		slow := &slowTarget{world: w}
		s := New(Options{Link: theLink, Store: w, Target: slow, Settings: w, Owner: "cli"})
		begun := time.Now()
		if _, err := s.Failover(context.Background(), Request{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// slowTarget takes a second for each marker, and any number of them at once.
type slowTarget struct{ *world }

func (s *slowTarget) WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult {
	time.Sleep(time.Second)
	return s.world.WriteMarkers(ctx, t, m)
}
