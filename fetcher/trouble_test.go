package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"klink/fetcher/feed"
)

// toldOnce expects one temporary fault of a kind, nothing for a while, and a
// chunk once cure has run.
func (w *world) toldOnce(st feed.Stream, kind feed.Kind, cure func()) {
	w.t.Helper()
	if f := w.fault(st); f.Kind != kind {
		w.t.Fatalf("got %v, want %v", f, kind)
	}
	select {
	case e := <-st.Events:
		w.t.Fatalf("told again: %+v, %v", e.Chunk, e.Fault)
	case <-time.After(20 * time.Second):
	}
	cure()
	began := time.Now()
	e, ok := w.event(st)
	if !ok || e.Chunk == nil {
		w.t.Fatalf("got %v, %v after the cure", e.Fault, ok)
	}
	e.Chunk.Release()
	if d := time.Since(began); d > 2*lastPause+refreshEvery {
		w.t.Errorf("took %v after the cure", d)
	}
}

func TestTemporaryFaultsAreToldOnce(t *testing.T) {
	for _, c := range []struct {
		err  *kerr.Error
		kind feed.Kind
	}{
		{kerr.TopicAuthorizationFailed, feed.Unauthorized},
		{kerr.KafkaStorageError, feed.Storage},
		{kerr.UnknownServerError, feed.Storage}, // C073
		{kerr.NotLeaderForPartition, feed.NoLeader},
		{kerr.FencedLeaderEpoch, feed.NoLeader},
		{kerr.UnknownLeaderEpoch, feed.NoLeader},
		{kerr.LeaderNotAvailable, feed.NoLeader},
		{kerr.ReplicaNotAvailable, feed.NoLeader},
		{kerr.OffsetNotAvailable, feed.NoLeader},
		{kerr.RequestTimedOut, feed.Unreachable},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			inWorld(t, setup{topics: map[string]int32{"orders": 2}}, func(w *world) {
				w.produce("orders", 0, testBatch(10, 10))
				w.produce("orders", 1, testBatch(10, 10))
				h := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Partitions: []int32{0}, Err: c.err, Count: -1})
				sick, well := w.f.Open(w.start("orders", 0)), w.f.Open(w.start("orders", 1))
				w.readTo(well, 0, 10)
				w.toldOnce(sick, c.kind, h.Remove)
			})
		})
	}
}

func TestABriefFaultIsNotTold(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: kerr.NotLeaderForPartition, Count: 3})
		st := w.f.Open(w.start("orders", 0))
		e, _ := w.event(st)
		if e.Fault != nil {
			t.Fatalf("told: %v", e.Fault)
		}
		e.Chunk.Release()
	})
}

func TestFinalFaults(t *testing.T) {
	for _, c := range []struct {
		err  *kerr.Error
		kind feed.Kind
	}{
		{kerr.CorruptMessage, feed.Corrupt},
		{kerr.UnsupportedCompressionType, feed.Unexpected},
		{kerr.TransactionCoordinatorFenced, feed.Unexpected},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
				w.produce("orders", 0, testBatch(10, 10))
				w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: c.err, Count: -1})
				f := w.final(w.f.Open(w.start("orders", 0)), c.kind)
				if !errors.Is(f, c.err) {
					t.Errorf("got %v", f)
				}
			})
		})
	}
}

func TestBrokenBytesAreReadAgainThenReported(t *testing.T) {
	for _, times := range []int{2, 1000} {
		inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
			w.produce("orders", 0, testBatch(10, 10))
			left := times
			w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				w.c.KeepControl()
				req := r.(*kmsg.FetchRequest)
				if left--; left < 0 || len(req.Topics) == 0 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				t := kmsg.NewFetchResponseTopic()
				t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
				p := kmsg.NewFetchResponseTopicPartition()
				p.RecordBatches = join(testBatch(3, 10), at(testBatch(3, 10), 1, 0))[70:]
				t.Partitions = append(t.Partitions, p)
				resp.Topics = append(resp.Topics, t)
				return resp, nil, true
			})
			st := w.f.Open(w.start("orders", 0))
			if times < retries {
				w.readTo(st, 0, 10)
				return
			}
			w.final(st, feed.Corrupt)
		})
	}
}

func TestLeadersThatMoveUnderLoad(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 4}}, func(w *world) {
		var wg sync.WaitGroup
		const n = 100
		for p := range int32(4) {
			st := w.f.Open(w.start("orders", p))
			wg.Go(func() { w.readTo(st, 0, n) })
		}
		for i := range n {
			for p := range int32(4) {
				w.produce("orders", p, testBatch(1, 100))
				if (i+int(p))%5 == 0 {
					if err := w.c.MoveTopicPartition("orders", p, int32(i+int(p))%3); err != nil {
						t.Error(err)
					}
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		wg.Wait()
	})
}

func TestADeadBrokerDelaysOnlyItsOwn(t *testing.T) {
	inWorld(t, setup{brokers: 3, topics: map[string]int32{"orders": 6}}, func(w *world) {
		streams := make([]feed.Stream, 6)
		for p := range int32(6) {
			w.produce("orders", p, testBatch(10, 10))
			streams[p] = w.f.Open(w.start("orders", p))
			w.readTo(streams[p], 0, 10)
		}
		dead := w.c.LeaderFor("orders", 0)
		w.kill(dead)
		var stuck []int32
		for p := range int32(6) {
			if w.c.LeaderFor("orders", p) == dead {
				stuck = append(stuck, p)
				continue
			}
			began := time.Now()
			w.produce("orders", p, testBatch(10, 10))
			w.readTo(streams[p], 10, 20)
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Errorf("partition %d took %v", p, d)
			}
		}
		for i, p := range stuck {
			if i == 0 { // nobody takes it over
				continue
			}
			if err := w.c.MoveTopicPartition("orders", p, (dead+1)%3); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			w.produce("orders", p, testBatch(10, 10))
			w.readTo(streams[p], 10, 20)
			if d := time.Since(began); d > refreshEvery+time.Second {
				t.Errorf("partition %d took %v to move", p, d)
			}
		}
		w.toldOnce(streams[stuck[0]], feed.Unreachable, func() { w.revive(dead) })
		w.produce("orders", stuck[0], testBatch(10, 10))
		w.readTo(streams[stuck[0]], 10, 20)
	})
}

func TestSourceUnreachableAtStart(t *testing.T) {
	inWorld(t, setup{brokers: 1, topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		w.kill(0)
		st := w.f.Open(w.start("orders", 0))
		w.toldOnce(st, feed.Unreachable, func() { w.revive(0) })
	})
}

func TestAWrongPassword(t *testing.T) {
	login := kgo.SASL(plain.Auth{User: "klink", Pass: "right"}.AsMechanism())
	inWorld(t, setup{topics: map[string]int32{"orders": 1}, clientOpts: []kgo.Opt{login},
		opts: []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "klink", "right")}}, func(w *world) {
		// kfake hangs up on a wrong password; a broker says what is wrong.
		h := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
		w.toldOnce(w.f.Open(w.start("orders", 0)), feed.Authentication, h.Remove)
	})
}

// C138: a broker that swallows everything.
func TestASilentBroker(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": 2}}, func(w *world) {
		for p := range int32(2) {
			if err := w.c.MoveTopicPartition("orders", p, p); err != nil {
				t.Fatal(err)
			}
		}
		silent := w.f.Open(w.start("orders", 0))
		loud := w.f.Open(w.start("orders", 1))
		w.event(silent)
		w.event(loud)
		w.silence(0)
		time.Sleep(30 * time.Second)
		w.produce("orders", 1, testBatch(10, 10))
		w.readTo(loud, 0, 10)
		if f := w.fault(silent); f.Kind != feed.Unreachable {
			t.Errorf("got %v", f)
		}
		if err := w.c.MoveTopicPartition("orders", 0, 1); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.produce("orders", 0, testBatch(10, 10))
		w.readTo(silent, 0, 10)
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("took %v to go on at the new leader", d)
		}
	})
}

// Without a third client the short polls go over Admin's Fetch connection.
func TestShortPollsOverAdmin(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 2}, change: func(o *Options) { o.Short = nil }}, func(w *world) {
		st := w.f.Open(w.start("orders", 0))
		w.event(st)
		time.Sleep(300 * time.Millisecond)
		w.produce("orders", 1, testBatch(1, 10))
		began := time.Now()
		w.readTo(w.f.Open(w.start("orders", 1)), 0, 1)
		if d := time.Since(began); d > 20*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestFaultErrorsReadWell(t *testing.T) {
	s := newReading(feed.Start{Partition: feed.Partition{Topic: "orders", Partition: 3}, Next: 7})
	s.ends = ends{10, 20, 20}
	err := error(s.fault(feed.Overrun, kerr.OffsetOutOfRange))
	var f *feed.Fault
	if want := "orders/3: overrun at offset 7 (source log start 10, end 20): " + kerr.OffsetOutOfRange.Error(); fmt.Sprint(err) != want || !errors.As(err, &f) {
		t.Errorf("got %q, want %q", err, want)
	}
}

// silentConn swallows what is written once its broker is silent.
type silentConn struct {
	net.Conn
	w    *world
	addr string
}

func (c *silentConn) Write(b []byte) (int, error) {
	c.w.dead.mu.Lock()
	silent := c.w.dead.silent[c.addr] || slices.Contains(c.w.dead.muted, c.Conn)
	c.w.dead.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (w *world) silence(node int32) {
	w.dead.mu.Lock()
	defer w.dead.mu.Unlock()
	w.dead.silent = map[string]bool{w.c.ListenAddrs()[node]: true}
}

func TestRecordsThatAreNotReturnedAreReported(t *testing.T) { // C072
	var out lockedBuffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	inWorld(t, setup{topics: map[string]int32{"orders": 1}, change: func(o *Options) { o.Logger = log }}, func(w *world) {
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.c.KeepControl()
			req := r.(*kmsg.FetchRequest)
			if len(req.Topics) == 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			t := kmsg.NewFetchResponseTopic()
			t.TopicID = req.Topics[0].TopicID
			p := kmsg.NewFetchResponseTopicPartition()
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 9, 9, 0, []byte{}
			t.Partitions = append(t.Partitions, p)
			resp.Topics = append(resp.Topics, t)
			return resp, nil, true
		})
		st := w.f.Open(w.start("orders", 0))
		for began := time.Now(); time.Since(began) < 3*stuckAfter; {
			e, ok := w.event(st)
			if !ok || e.Chunk == nil || e.Chunk.Bytes > 0 || e.Chunk.Next != 0 || e.Chunk.LastStable != 9 {
				t.Fatalf("got %+v, %v", e, ok)
			}
		}
		if n := strings.Count(out.String(), "does not return"); n != 1 {
			t.Errorf("reported %d times: %s", n, out.String())
		}
	})
}

// lockedBuffer is a log's end for concurrent writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
