package appender

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRunsTravelTogether: partitions whose next batch is ready when they are
// answered share the next request too, so that a run of n batches of k
// partitions takes about n requests and not n times k.
func TestRunsTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, batches = 8, 20
		r := newRig(t, rigOptions{topics: map[string]int32{"a": partitions}, lanes: 1})
		defer r.stop()
		var mu sync.Mutex
		requests := 0
		r.control(func(*kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			mu.Lock()
			requests++
			mu.Unlock()
			return nil, nil, false
		})
		var wg sync.WaitGroup
		for p := range int32(partitions) {
			wg.Go(func() {
				for n := range int32(batches) {
					b := Batch{Bytes: dataBatch(1, testPID, 0, n), Expect: int64(n), Follow: Follow(n < batches-1)}
					if res := r.a.Begin(t.Context(), r.target("a", p), b).Wait(t.Context()); res.Outcome != Appended {
						t.Errorf("partition %d batch %d: %v %v", p, n, res.Outcome, res.Err)
					}
				}
			})
		}
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		// Without company it would be one for each, with all the company there is one in
		// eight; how many find it is up to the scheduler.
		if requests > partitions*batches*3/4 {
			t.Errorf("%d requests for %d batches of %d partitions", requests, batches, partitions)
		}
	})
}

// TestARunThatEndsIsNotWaitedFor: a partition that said it comes back and does
// not costs the others one short wait, not one each time.
func TestARunThatEndsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 2}, lanes: 1})
		defer r.stop()
		res := r.a.Begin(t.Context(), r.target("a", 0), Batch{Bytes: dataBatch(1, testPID, 0, 0), Follow: More}).Wait(t.Context())
		wantOutcome(t, res, Appended, "")
		for n := range int32(5) {
			wantOutcome(t, r.append(r.target("a", 1), n, 1, int64(n)), Appended, "")
		}
		r.a.mu.Lock()
		defer r.a.mu.Unlock()
		for _, b := range r.a.brokers {
			for _, q := range b.fast {
				if len(q.returning) != 0 {
					t.Errorf("still waiting for %v", q.returning)
				}
			}
		}
	})
}
