package fetcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
)

func TestReadsEverythingInOrder(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 6}, partBytes: 4 << 10}, func(w *world) {
		const batches = 40
		var end int64
		for i := range batches {
			for p := range int32(6) {
				w.produce("orders", p, testBatch(1+i%5, 50+i*20))
			}
			end += int64(1 + i%5)
		}
		var streams []feed.Stream
		for p := range int32(6) {
			streams = append(streams, w.f.Open(w.start("orders", p)))
		}
		for _, st := range streams {
			w.readTo(st, 0, end)
		}
		w.produce("orders", 3, testBatch(7, 10)) // and what comes later
		w.readTo(streams[3], end, end+7)
	})
}

func TestBeginsInsideABatch(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		w.produce("orders", 0, testBatch(10, 10))
		start := w.start("orders", 0)
		start.Next = 4
		w.readTo(w.f.Open(start), 4, 20)
	})
}

func TestAnOversizedFirstBatchComesWhole(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 3}, partBytes: 1 << 10}, func(w *world) {
		for range 5 {
			for p := range int32(3) {
				w.produce("orders", p, testBatch(1, 100<<10))
				w.produce("orders", p, testBatch(1, 100))
			}
		}
		var wg sync.WaitGroup
		for p := range int32(3) {
			st := w.f.Open(w.start("orders", p))
			wg.Go(func() { w.readTo(st, 0, 10) })
		}
		wg.Wait()
	})
}

// The batches of one partition fill every answer; the others must get their
// turn all the same (rotation).
func TestNoPartitionStarves(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 8}, budget: 1 << 20}, func(w *world) {
		var wg sync.WaitGroup
		for range 10 {
			for p := range int32(8) {
				w.produce("orders", p, testBatch(1, 200<<10))
			}
		}
		for p := range int32(8) {
			st := w.f.Open(w.start("orders", p))
			wg.Go(func() { w.readTo(st, 0, 10) })
		}
		wg.Wait()
		if u := w.budget.Usage(); u.Peak > u.Limit {
			t.Errorf("%d bytes at once with a budget of %d", u.Peak, u.Limit)
		}
	})
}

func TestLeavesUncommittedDataOut(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		isolated := make(chan int8, 1)
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			isolated <- r.(*kmsg.FetchRequest).IsolationLevel
			return nil, nil, false
		})
		w.produce("orders", 0, testBatch(3, 10))
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 3)
		if got := <-isolated; got != 1 {
			t.Errorf("isolation level %d", got)
		}
	})
}

// C062: the answer to a request from before a seek.
func TestAnAnswerForAClosedStreamIsDropped(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		for range 50 {
			w.produce("orders", 0, testBatch(10, 10))
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			start := w.start("orders", 0)
			start.Next = rnd.Int64N(500)
			st := w.f.Open(start)
			if rnd.IntN(3) > 0 {
				time.Sleep(time.Duration(rnd.Int64N(int64(4 * time.Millisecond)))) // virtual: closes at any step
			} else {
				w.readTo(st, start.Next, 500)
			}
			if rnd.IntN(2) > 0 { // else the next Open takes over
				st.Close()
			}
		}
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 500)
	})
}

func TestCloseEndsAStreamAtOnce(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 2}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		for p := range int32(2) {
			st := w.f.Open(w.start("orders", p))
			synctest.Wait()
			st.Close()
			st.Close()
			for range st.Events {
				// an event that was on its way may still come
			}
		}
		synctest.Wait()
		if u := w.budget.Usage(); u.Held != 0 {
			t.Errorf("%d bytes held after all was closed", u.Held)
		}
		open := w.f.Open(w.start("orders", 0))
		w.stop()
		for range open.Events {
		}
		if _, ok := <-w.f.Open(w.start("orders", 0)).Events; ok {
			t.Error("an event after the end")
		}
	})
}

func TestOpenBeforeRunAndReleaseAfterIt(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		o := w.f.opt
		early := New(o)
		st, unused := early.Open(w.start("orders", 0)), early.Open(feed.Start{Partition: feed.Partition{Topic: "x"}})
		unused.Close()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- early.Run(ctx) }()
		e, _ := w.event(st)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if e.Chunk == nil || e.Chunk.Bytes == 0 || w.budget.Usage().Held == 0 {
			t.Fatalf("got %+v", e)
		}
		e.Chunk.Release()
		e.Chunk.Release()
		if u := w.budget.Usage(); u.Held != 0 {
			t.Errorf("%d bytes held", u.Held)
		}
	})
}

// A poll that waits for idle partitions must not delay one that becomes
// readable meanwhile.
func TestNothingWaitsForALongPoll(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"idle": 50, "busy": 1, "late": 1}}, func(w *world) {
		for p := range int32(50) {
			w.f.Open(w.start("idle", p))
		}
		w.produce("late", 0, testBatch(1, 10))
		time.Sleep(1700 * time.Millisecond) // in the middle of a long poll
		began := time.Now()
		w.readTo(w.f.Open(w.start("late", 0)), 0, 1)
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("a new stream waited %v", d)
		}
		busy := w.f.Open(w.start("busy", 0))
		w.event(busy) // news: it is being read
		for i := range int64(200) {
			began = time.Now()
			w.produce("busy", 0, testBatch(1, 10))
			e, _ := w.event(busy)
			for e.Chunk.Bytes == 0 {
				e, _ = w.event(busy)
			}
			if d := time.Since(began); d > longest+2*time.Millisecond {
				t.Errorf("record %d took %v", i, d)
			}
			time.Sleep(time.Duration(i%7) * time.Millisecond) // appending
			e.Chunk.Release()
		}
	})
}

// A partition whose window is full is left out; the others go on without it.
func TestAStuckReceiverDelaysNobody(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 4}}, func(w *world) {
		stuck := w.f.Open(w.start("orders", 0))
		var held []*feed.Chunk
		for i := range 30 {
			for p := range int32(4) {
				w.produce("orders", p, testBatch(1, 1000))
			}
			if i < window {
				e, _ := w.event(stuck)
				held = append(held, e.Chunk)
			}
		}
		for p := int32(1); p < 4; p++ {
			w.readTo(w.f.Open(w.start("orders", p)), 0, 30)
		}
		began := time.Now()
		w.produce("orders", 1, testBatch(1, 10))
		st := w.f.Open(feed.Start{Partition: feed.Partition{Topic: "orders", Partition: 1}, ID: w.start("orders", 1).ID, Next: 30})
		w.readTo(st, 30, 31)
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("took %v beside a stuck receiver", d)
		}
		select {
		case e := <-stuck.Events:
			t.Fatalf("a third chunk: %+v", e)
		case <-time.After(time.Second):
		}
		r := follower{t: t}
		for _, c := range held {
			r.take(c)
		}
		for _, c := range held {
			c.Release()
		}
		w.readTo(stuck, r.next, 30)
	})
}

// With thousands of partitions the polls go by session: what is sent and
// answered is what changed.
func TestManyPartitionsUseSessions(t *testing.T) {
	const n = 1000
	inWorld(t, setup{topics: map[string]int32{"orders": n}}, func(w *world) {
		for p := range int32(n) {
			if p%10 == 0 {
				w.produce("orders", p, testBatch(2, 10))
			}
		}
		streams := make([]feed.Stream, n)
		for p := range int32(n) {
			streams[p] = w.f.Open(w.start("orders", p))
		}
		for p := 0; p < n; p += 10 {
			w.readTo(streams[p], 0, 2)
		}
		time.Sleep(3 * time.Second)
		var mu sync.Mutex // guards the counts
		var named, forgotten, full int
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.c.KeepControl()
			req := r.(*kmsg.FetchRequest)
			mu.Lock()
			defer mu.Unlock()
			if req.SessionID == 0 {
				full++
			}
			for _, t := range req.Topics {
				named += len(t.Partitions)
			}
			for _, t := range req.ForgottenTopics {
				forgotten += len(t.Partitions)
			}
			return nil, nil, false
		})
		for i := range int64(20) {
			w.produce("orders", 500, testBatch(1, 10))
			w.readTo(streams[500], 2+i, 3+i)
		}
		streams[7].Close()
		for range streams[7].Events {
		}
		time.Sleep(2 * time.Second)
		mu.Lock()
		bad := full > 0 || named > 200 || forgotten == 0
		counts := fmt.Sprintf("%d full requests, %d partitions named, %d forgotten", full, named, forgotten)
		mu.Unlock()
		if bad {
			t.Error(counts)
		}
		w.produce("orders", 7, testBatch(1, 10)) // nobody wants it
		reopened := w.f.Open(w.start("orders", 7))
		w.readTo(reopened, 0, 1)
	})
}

func TestALostSessionIsMadeAnew(t *testing.T) {
	const n = 400
	inWorld(t, setup{topics: map[string]int32{"orders": n}, opts: []kfake.Opt{
		kfake.BrokerConfigs(map[string]string{"max.incremental.fetch.session.cache.slots": "1"})}}, func(w *world) {
		streams := make([]feed.Stream, n)
		for p := range int32(n) {
			streams[p] = w.f.Open(w.start("orders", p))
		}
		time.Sleep(time.Second)
		for round := range int64(10) {
			req := kmsg.NewPtrFetchRequest() // somebody else takes the only slot
			req.SessionEpoch, req.MaxWaitMillis = 0, 1
			if _, err := req.RequestWith(context.Background(), w.cl.Broker(0)); err != nil {
				t.Fatal(err)
			}
			p := int32(round) * 31
			w.produce("orders", p, testBatch(1, 10))
			w.readTo(streams[p], 0, 1)
		}
	})
}

func TestWatermarksAreTold(t *testing.T) { // C142
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		start := w.start("orders", 0)
		start.Next = 10
		st := w.f.Open(start)
		e, _ := w.event(st)
		if c := e.Chunk; c == nil || c.Bytes != 0 || c.Next != 10 || c.LastStable != 10 || c.HighWatermark != 10 || c.LogStart != 0 {
			t.Fatalf("got %+v", e)
		}
		if err := w.c.DeleteRecords("orders", 0, 6); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		e, _ = w.event(st)
		if c := e.Chunk; c.LogStart != 6 || time.Since(began) > time.Second {
			t.Fatalf("got %+v after %v", c, time.Since(began))
		}
		began = time.Now()
		e, _ = w.event(st)
		if d := time.Since(began); d > newsAtLeast+2*time.Second || time.Since(e.Chunk.SeenAt) > time.Second {
			t.Fatalf("silent for %v", d)
		}
	})
}

func TestReadsOfAllPartitionsOfABrokerShareRequests(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"a": 10, "b": 10}}, func(w *world) {
		for _, topic := range []string{"a", "b"} {
			for p := range int32(10) {
				w.f.Open(w.start(topic, p))
			}
		}
		time.Sleep(2 * time.Second)
		h := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
		time.Sleep(10 * time.Second)
		if n, most := h.Hits(), 2*(10*int(time.Second/DefaultMaxWait))+4; n > most {
			t.Errorf("%d requests in 10 idle seconds, want at most %d", n, most)
		}
	})
}

func TestTheRateIsKept(t *testing.T) { // C143
	inWorld(t, setup{topics: map[string]int32{"orders": 2}, change: func(o *Options) { o.Limit = testLimit(100 << 10) }}, func(w *world) {
		for range 20 {
			w.produce("orders", 0, testBatch(1, 50<<10))
		}
		began := time.Now()
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 20)
		if d := time.Since(began); d < 8*time.Second || d > 14*time.Second {
			t.Errorf("1000 KiB at 100 KiB/s took %v", d)
		}
	})
}

func TestMembershipSurvivesRandomUse(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 12}, budget: 256 << 10, partBytes: 8 << 10}, func(w *world) {
				churn(w, rand.New(rand.NewPCG(seed, 1)))
			})
		})
	}
}

// churn has twelve receivers that are slow at random, while records are
// written, leaders move, connections fail and streams are reopened.
func churn(w *world, rnd *rand.Rand) {
	const perPartition = 60
	var wg sync.WaitGroup
	for p := range int32(12) {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		wg.Go(func() { churnOne(w, p, perPartition, own) })
	}
	for range perPartition {
		for p := range int32(12) {
			w.produce("orders", p, testBatch(1, 100+rnd.IntN(3000)))
		}
		switch rnd.IntN(6) {
		case 0:
			p := rnd.Int32N(12)
			if err := w.c.MoveTopicPartition("orders", p, rnd.Int32N(3)); err != nil {
				w.t.Error(err)
			}
		case 1:
			node := rnd.Int32N(3)
			w.kill(node)
			w.revive(node)
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(50 * time.Millisecond))))
	}
	wg.Wait()
}

func churnOne(w *world, p int32, end int64, rnd *rand.Rand) {
	r := follower{t: w.t}
	start := w.start("orders", p)
	st := w.f.Open(start)
	for r.next < end {
		e, ok := w.event(st)
		if !ok || e.Fault != nil && !e.Fault.Kind.Temporary() {
			w.t.Errorf("partition %d ended at %d: %v", p, r.next, e.Fault)
			return
		}
		if e.Chunk == nil {
			continue
		}
		if e.Chunk.Bytes > 0 && rnd.IntN(8) == 0 { // dropped unread: read it again
			e.Chunk.Release()
			st.Close()
			start.Next = r.next
			st = w.f.Open(start)
			continue
		}
		r.take(e.Chunk)
		if rnd.IntN(4) == 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(500 * time.Millisecond))))
		}
		e.Chunk.Release()
	}
	st.Close()
}
