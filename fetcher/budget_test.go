package fetcher

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/feed"
)

func TestBudgetFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		first, err := b.reserve(context.Background(), 500, 10)
		if err != nil || first != 100 {
			t.Fatalf("got %d, %v", first, err)
		}
		var mu sync.Mutex
		var order []int64
		var wg sync.WaitGroup
		for i, want := range []int64{90, 5, 80} {
			wg.Go(func() {
				n, err := b.reserve(context.Background(), want, want)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				b.settle(n, 0)
			})
			synctest.Wait()
			if !b.Contended() {
				t.Fatalf("not contended with %d waiting", i+1)
			}
		}
		b.settle(first, 20) // 80 are free: the first in line needs 90
		synctest.Wait()
		if len(order) != 0 {
			t.Fatalf("%v went past the first in line", order)
		}
		b.release(20)
		wg.Wait()
		if len(order) != 3 || b.Contended() {
			t.Fatalf("got %v", order)
		}
		if u := b.Usage(); u != (Usage{Limit: 100, Peak: 100}) {
			t.Fatalf("got %+v", u)
		}
	})
}

func TestBudgetGivesLessWhereLessIsEnough(t *testing.T) {
	b := NewBudget(100)
	b.settle(0, 70)
	n, err := b.reserve(context.Background(), 90, 10)
	if err != nil || n != 30 {
		t.Fatalf("got %d, %v", n, err)
	}
}

func TestBudgetWaiterThatGivesUpLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		b.settle(0, 50)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.reserve(ctx, 90, 90); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if n, err := b.reserve(context.Background(), 40, 40); err != nil || n != 40 {
				t.Errorf("got %d, %v", n, err)
			}
		})
		wg.Wait()
	})
}

func TestBudgetAnOversizedRequestGoesAlone(t *testing.T) {
	b := NewBudget(100)
	n, err := b.reserve(context.Background(), 5000, 5000)
	if err != nil || n != 100 {
		t.Fatalf("got %d, %v", n, err)
	}
	b.settle(n, 4000)
	if b.freeLocked() >= 0 {
		t.Error("what came above the limit is not counted")
	}
	b.release(4000)
}

// C136: many partitions with a backlog and receivers that hold what they get.
func TestMemoryIsBoundedWithManySlowReceivers(t *testing.T) {
	const n = 1000
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": n}, budget: 4 << 20}, func(w *world) {
		for p := range int32(n) {
			w.produce("orders", p, testBatch(4, 4<<10))
			w.produce("orders", p, testBatch(4, 4<<10))
		}
		var wg sync.WaitGroup
		for p := range int32(n) {
			st := w.f.Open(w.start("orders", p))
			wg.Go(func() {
				r := follower{t: w.t}
				for r.next < 8 {
					e, ok := w.event(st)
					if !ok || e.Chunk == nil {
						w.t.Errorf("partition %d: %+v", p, e)
						return
					}
					r.take(e.Chunk)
					time.Sleep(time.Duration(p%50) * 10 * time.Millisecond)
					e.Chunk.Release()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		u := w.budget.Usage()
		if u.Peak > u.Limit {
			t.Errorf("%d bytes at once, limit %d", u.Peak, u.Limit)
		}
		if u.Held != 0 {
			t.Errorf("%d bytes held at the end", u.Held)
		}
	})
}

// Receivers that never come must not take the memory from those that do (B2).
func TestUnreceivedChunksAreTakenBack(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"stuck": 16, "orders": 1}, budget: 2 << 20}, func(w *world) {
		for p := range int32(16) {
			for range 4 {
				w.produce("stuck", p, testBatch(1, 150<<10))
			}
		}
		var stuck []feed.Stream
		for p := range int32(16) {
			stuck = append(stuck, w.f.Open(w.start("stuck", p)))
		}
		time.Sleep(time.Second)
		for range 40 {
			w.produce("orders", 0, testBatch(1, 100<<10))
		}
		began := time.Now()
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 40)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("4 MB took %v beside streams that nobody reads", d)
		}
		for _, st := range stuck { // they come after all: nothing is missing
			w.readTo(st, 0, 4)
		}
		if u := w.budget.Usage(); u.Peak > u.Limit {
			t.Errorf("%d bytes at once, limit %d", u.Peak, u.Limit)
		}
	})
}

// Receivers that hold chunks they cannot use release them when told (B2).
func TestContendedLetsHoldersStepAside(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"stuck": 16, "orders": 1}, budget: 2 << 20}, func(w *world) {
		for p := range int32(16) {
			w.produce("stuck", p, testBatch(1, 150<<10))
		}
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for p := range int32(16) {
			start := w.start("stuck", p)
			wg.Go(func() { holdUntilContended(ctx, w, start) })
		}
		time.Sleep(time.Second)
		for range 40 {
			w.produce("orders", 0, testBatch(1, 100<<10))
		}
		began := time.Now()
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 40)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("4 MB took %v beside receivers that step aside", d)
		}
		cancel()
		wg.Wait()
	})
}

func holdUntilContended(ctx context.Context, w *world, start feed.Start) {
	for ctx.Err() == nil {
		st := w.f.Open(start)
		var c *feed.Chunk
		select {
		case e := <-st.Events:
			c = e.Chunk
		case <-ctx.Done():
		}
		st.Close()
		for ctx.Err() == nil && !w.budget.Contended() {
			time.Sleep(20 * time.Millisecond)
		}
		if c != nil {
			c.Release()
		}
		time.Sleep(200 * time.Millisecond) // its target is still down
	}
}

func TestSmallChunksDoNotPinTheirAnswer(t *testing.T) { // B3
	b := NewBudget(1000)
	f := &Fetcher{budget: b, met: mustMetrics(t)}
	answer := func() []part {
		buf := make([]byte, 400)
		ps := make([]part, 4)
		for i := range ps {
			ps[i] = fakePart(buf[i*100 : (i+1)*100 : (i+1)*100])
		}
		return ps
	}
	bundle := func() []part {
		ps := answer()
		n, err := b.reserve(context.Background(), 400, 400)
		if err != nil {
			t.Fatal(err)
		}
		f.bundle(ps, exchange{reserved: n, bytes: 400})
		return ps
	}
	first := bundle()
	for _, p := range first[1:] {
		p.chunk.Release()
	}
	if got := b.Usage().Held; got != 400 {
		t.Fatalf("a kept chunk pins its answer, but %d bytes are counted", got)
	}
	b.share(0, 150) // half the budget is exceeded
	second := bundle()
	for _, p := range second[1:] {
		p.chunk.Release()
	}
	if got := b.Usage().Held; got != 650 {
		t.Fatalf("%d bytes held, want 400 pinned, 150, and a copy of 100", got)
	}
	first[0].chunk.Release()
	second[0].chunk.Release()
	if got := b.Usage().Held; got != 150 {
		t.Fatalf("%d bytes held", got)
	}
}

// TestWhatNobodySharesLeavesAnswersWhole: bytes that are released one by one pin
// nothing, so however many are held, no answer is copied for their sake.
func TestWhatNobodySharesLeavesAnswersWhole(t *testing.T) { // B3
	b := NewBudget(1000)
	f := &Fetcher{budget: b, met: mustMetrics(t)}
	b.settle(0, 600)
	n, err := b.reserve(context.Background(), 400, 400)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 400)
	ps := []part{fakePart(buf[:200:200]), fakePart(buf[200:])}
	f.bundle(ps, exchange{reserved: n, bytes: 400})
	if &ps[0].chunk.Batches[0][0] != &buf[0] {
		t.Error("the answer was copied")
	}
	ps[0].chunk.Release()
	if u := b.Usage(); u.Held != 1000 || u.Shared != 400 {
		t.Errorf("held %d, shared %d with one of two chunks released, want 1000 and 400", u.Held, u.Shared)
	}
	ps[1].chunk.Release()
	if u := b.Usage(); u.Held != 600 || u.Shared != 0 {
		t.Errorf("held %d, shared %d in the end, want 600 and 0", u.Held, u.Shared)
	}
}
