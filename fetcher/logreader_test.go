package fetcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
)

func (w *world) logReader() *LogReader { return NewLogReader(w.cl, w.leaders, w.budget) }

func asFault(t testing.TB, err error, kind feed.Kind) *feed.Fault {
	t.Helper()
	var f *feed.Fault
	if !errors.As(err, &f) || f.Kind != kind {
		t.Fatalf("got %v, want %v", err, kind)
	}
	return f
}

func TestBounds(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 2}}, func(w *world) {
		w.produce("orders", 1, testBatch(20, 10))
		if err := w.c.DeleteRecords("orders", 1, 5); err != nil {
			t.Fatal(err)
		}
		if err := w.c.MoveTopicPartition("orders", 1, 2); err != nil {
			t.Fatal(err)
		}
		s := w.start("orders", 1)
		b, err := w.logReader().Bounds(context.Background(), s.Partition, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := feed.Bounds{ID: s.ID, LogStart: 5, LastStable: 20, HighWatermark: 20, LogEnd: 20,
			LeaderEpoch: w.c.PartitionInfo("orders", 1).Epoch, SeenAt: b.SeenAt}
		if b != want || b.SeenAt.IsZero() {
			t.Errorf("got %+v, want %+v", b, want)
		}
	})
}

// halfOpen lets nothing reach a node on the connection that was opened last.
func (w *world) halfOpen(node int32) {
	w.dead.mu.Lock()
	defer w.dead.mu.Unlock()
	open := w.dead.conns[w.c.ListenAddrs()[node]]
	w.dead.muted = slices.Clone(open[len(open)-1:])
}

// C138: a connection that is half open is given up after one request's
// deadline, kgo's own 10 s and what the request itself adds to it.
func TestAHalfOpenConnectionIsGivenUp(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		r, s := w.logReader(), w.start("orders", 0)
		if _, err := r.Bounds(context.Background(), s.Partition, s.ID); err != nil {
			t.Fatal(err)
		}
		w.c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.c.KeepControl()
			if adds := r.(*kmsg.ListOffsetsRequest).TimeoutMillis; adds > 1000 {
				t.Errorf("a ListOffsets adds %d ms to the deadline", adds)
			}
			return nil, nil, false
		})
		for range 5 { // which of its requests comes first is chance
			w.halfOpen(0)
			began := time.Now()
			if _, err := r.Bounds(context.Background(), s.Partition, s.ID); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d < 5*time.Second || d >= askTimeout {
				t.Errorf("took %v", d)
			}
		}
	})
}

func TestQuestionsFollowTheLeader(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 1}}, func(w *world) {
		r, s := w.logReader(), w.start("orders", 0)
		for i := range 6 {
			w.produce("orders", 0, testBatch(1, 10))
			if err := w.c.MoveTopicPartition("orders", 0, int32(i)%3); err != nil {
				t.Fatal(err)
			}
			if b, err := r.Bounds(context.Background(), s.Partition, s.ID); err != nil || b.LogEnd != int64(i+1) {
				t.Fatalf("got %+v, %v", b, err)
			}
		}
		got, end, err := r.EpochEnd(context.Background(), s.Partition, w.c.PartitionInfo("orders", 0).Epoch)
		if err != nil || end != 6 || got < 0 {
			t.Errorf("got epoch %d, end %d, %v", got, end, err)
		}
		if _, end, err := r.EpochEnd(context.Background(), s.Partition, 99); err != nil || end != feed.Unknown {
			t.Errorf("got %d, %v for an epoch that never was", end, err)
		}
	})
}

func TestQuestionsAboutDeadThings(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": 1, "closed": 1, "slow": 1}}, func(w *world) {
		r, ctx := w.logReader(), context.Background()
		orders := w.start("orders", 0)
		_, err := r.Bounds(ctx, feed.Partition{Topic: "never"}, feed.TopicID{})
		asFault(t, err, feed.Gone)
		_, err = r.Bounds(ctx, feed.Partition{Topic: "orders", Partition: 7}, orders.ID)
		asFault(t, err, feed.Gone)
		_, err = r.Bounds(ctx, orders.Partition, feed.TopicID{1, 2, 3})
		asFault(t, err, feed.Recreated)
		_, err = r.Read(ctx, ReadRequest{Partition: orders.Partition, ID: feed.TopicID{1, 2, 3}})
		asFault(t, err, feed.Recreated)

		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "closed", Err: kerr.TopicAuthorizationFailed, Count: -1})
		began := time.Now()
		_, err = r.Bounds(ctx, w.start("closed", 0).Partition, w.start("closed", 0).ID)
		if asFault(t, err, feed.Unauthorized); time.Since(began) > time.Second {
			t.Errorf("took %v to say that a right is missing", time.Since(began))
		}
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "slow", Err: kerr.NotLeaderForPartition, Count: -1})
		began = time.Now()
		_, err = r.Bounds(ctx, w.start("slow", 0).Partition, w.start("slow", 0).ID)
		if asFault(t, err, feed.NoLeader); time.Since(began) > askTimeout+time.Second {
			t.Errorf("took %v", time.Since(began))
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err = r.Bounds(short, w.start("slow", 0).Partition, w.start("slow", 0).ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		w.kill(0)
		w.kill(1)
		_, err = r.Bounds(ctx, orders.Partition, orders.ID)
		asFault(t, err, feed.Unreachable)
	})
}

func TestReadOnce(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": 1}}, func(w *world) {
		for range 4 {
			w.produce("orders", 0, testBatch(5, 1000))
		}
		r, s, ctx := w.logReader(), w.start("orders", 0), context.Background()
		c, err := r.Read(ctx, ReadRequest{Partition: s.Partition, ID: s.ID, From: 7, MaxBytes: 12000, ReadCommitted: true})
		if err != nil {
			t.Fatal(err)
		}
		if c.Next != 7 || len(c.Batches) != 2 || c.LogStart != 0 || c.HighWatermark != 20 || w.budget.Usage().Held == 0 {
			t.Errorf("got %+v", c)
		}
		(&follower{t: t, next: 7}).take(c)
		c.Release()
		c, err = r.Read(ctx, ReadRequest{Partition: s.Partition, ID: s.ID, From: 20})
		if err != nil || c.Bytes != 0 || c.Next != 20 {
			t.Errorf("at the end: %+v, %v", c, err)
		}
		c.Release()
		if u := w.budget.Usage(); u.Held != 0 {
			t.Errorf("%d bytes held", u.Held)
		}
		_, err = r.Read(ctx, ReadRequest{Partition: s.Partition, ID: s.ID, From: 31})
		if f := asFault(t, err, feed.Diverged); f.LogEnd != 20 || f.Next != 31 {
			t.Errorf("got %+v", f)
		}
		if err := w.c.DeleteRecords("orders", 0, 12); err != nil {
			t.Fatal(err)
		}
		_, err = r.Read(ctx, ReadRequest{Partition: s.Partition, ID: s.ID, From: 3})
		if f := asFault(t, err, feed.Overrun); f.LogStart != 12 || f.LogEnd != 20 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestReadWithoutTopicIDs(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(5, 10))
		c, err := w.logReader().Read(context.Background(), ReadRequest{Partition: feed.Partition{Topic: "orders"}})
		if err != nil {
			t.Fatal(err)
		}
		(&follower{t: t}).take(c)
		c.Release()
		start := w.start("orders", 0)
		start.ID = feed.TopicID{}
		w.readTo(w.f.Open(start), 0, 5)
	})
}

// A quota empties answers: that is not the end of the log.
func TestAThrottledReadIsNotTheEnd(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(5, 10))
		left := 2
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.c.KeepControl()
			req := r.(*kmsg.FetchRequest)
			if left--; left < 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			resp.ThrottleMillis = 500
			t := kmsg.NewFetchResponseTopic()
			t.TopicID = req.Topics[0].TopicID
			p := kmsg.NewFetchResponseTopicPartition()
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 5, 5, 0, []byte{}
			t.Partitions = append(t.Partitions, p)
			resp.Topics = append(resp.Topics, t)
			return resp, nil, true
		})
		s := w.start("orders", 0)
		c, err := w.logReader().Read(context.Background(), ReadRequest{Partition: s.Partition, ID: s.ID})
		if err != nil || c.Bytes == 0 {
			t.Fatalf("got %+v, %v", c, err)
		}
		c.Release()
	})
}

func TestManyQuestionsAtOnce(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 100}}, func(w *world) {
		r := w.logReader()
		h := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1})
		began := time.Now()
		var wg sync.WaitGroup
		for p := range int32(100) {
			s := w.start("orders", p)
			wg.Go(func() {
				if b, err := r.Bounds(context.Background(), s.Partition, s.ID); err != nil || b.LogEnd != 0 {
					t.Errorf("got %+v, %v", b, err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d > time.Second || h.Hits() > 20 {
			t.Errorf("took %v and %d metadata requests", d, h.Hits())
		}
	})
}
