package appender

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

// While one request is under way, what waits gathers; a free lane takes all of
// it in one request.
func TestLaneCombinesPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 150, "b": 50}})
		defer r.stop()
		var widths []int // on the cluster's goroutine, read when it is idle
		gate := make(chan struct{})
		arrived := make(chan struct{}, 1)
		r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			n, _ := partitionsOf(req)
			if widths = append(widths, n); len(widths) == 1 {
				arrived <- struct{}{}
				r.cluster.SleepControl(func() { <-gate })
			}
			return nil, nil, false
		})
		var wg sync.WaitGroup
		all := func(p Target) {
			wg.Go(func() { wantOutcome(t, r.append(p, 0, 2, 0), Appended, "") })
		}
		all(r.target("a", 0))
		<-arrived
		for i := int32(1); i < 150; i++ {
			all(r.target("a", i))
		}
		for i := int32(0); i < 50; i++ {
			all(r.target("b", i))
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if len(widths) != 2 || widths[0] != 1 || widths[1] != 199 {
			t.Fatalf("partitions per request: %v", widths)
		}
	})
}

// A3, A4: requests stay within their bytes, a larger batch travels alone, and
// what waits leaves in the order of its coming.
func TestLaneBoundsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10_000
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 40},
			edit: func(o *Options) { o.MaxRequestBytes = limit }})
		defer r.stop()
		gate := make(chan struct{})
		arrived := make(chan struct{}, 1)
		var order []int32
		first := true
		r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			if n, bytes := partitionsOf(req); bytes > limit && n > 1 {
				t.Errorf("%d partitions with %d bytes in a request", n, bytes)
			}
			for _, p := range req.Topics[0].Partitions {
				order = append(order, p.Partition)
			}
			if first {
				first = false
				arrived <- struct{}{}
				r.cluster.SleepControl(func() { <-gate })
			}
			return nil, nil, false
		})
		var wg sync.WaitGroup
		for i := range int32(40) {
			size := 3000
			if i%7 == 3 {
				size = 15_000
			}
			wg.Go(func() {
				res := r.a.Append(t.Context(), r.target("a", i), paddedBatch(1, testPID, 0, 0, make([]byte, size)), 0)
				wantOutcome(t, res, Appended, "")
			})
			if i == 0 {
				<-arrived
			}
			synctest.Wait() // the next one comes after this one waits
		}
		close(gate)
		wg.Wait()
		for i, p := range order {
			if p != int32(i) {
				t.Fatalf("order of sending: %v", order)
			}
		}
	})
}

// C133: followers of one partition hang. Its neighbours in the request wait
// for the fast timeout once; afterwards it waits on the slow lane, alone.
func TestLaneIsolatesSlowPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 8}})
		defer r.stop()
		var hanging atomic.Bool
		hanging.Store(true)
		r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			if carries(req, 0) && hanging.Load() {
				// As a broker does: the whole answer waits, then names the one.
				r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{0}, Err: kerr.RequestTimedOut,
					When: func(q kmsg.Request) bool { return q == kmsg.Request(req) }})
				wait := time.Duration(req.TimeoutMillis) * time.Millisecond
				r.cluster.SleepControl(func() { time.Sleep(wait) })
			}
			return nil, nil, false
		})
		slow := r.target("a", 0)
		var seq atomic.Int32
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for hanging.Load() {
				begun := time.Now()
				at := seq.Load()
				res := r.append(slow, at, 1, int64(at))
				if res.Outcome == Unknown {
					wantOutcome(t, res, Unknown, state.NotEnoughReplicas)
					if took := time.Since(begun); at > 0 && took < DefaultRequestTimeout {
						t.Errorf("batch %d waited %v, not on the slow lane", at, took)
					}
				}
				seq.Add(1) // kfake has appended it
			}
			close(done)
		})
		synctest.Wait()
		var worst [8]time.Duration
		for i := int32(1); i < 8; i++ {
			wg.Go(func() {
				p := r.target("a", i)
				for n := int64(0); ; n++ {
					select {
					case <-done:
						return
					default:
					}
					begun := time.Now()
					wantOutcome(t, r.append(p, int32(n), 1, n), Appended, "")
					if n > 0 {
						worst[i] = max(worst[i], time.Since(begun))
					}
					time.Sleep(50 * time.Millisecond) // records come at a pace
				}
			})
		}
		time.Sleep(35 * time.Second)
		hanging.Store(false)
		wg.Wait()
		for i, w := range worst {
			if w > 100*time.Millisecond {
				t.Errorf("partition %d waited %v for another one", i, w)
			}
		}
		if seq.Load() < 3 {
			t.Errorf("the slow partition made %d batches", seq.Load())
		}
		// An error-free answer brings it back.
		at := seq.Load()
		wantOutcome(t, r.append(slow, at, 1, int64(at)), Appended, "")
		if r.parts() != 0 {
			t.Errorf("%d still remembered", r.parts())
		}
	})
}

// C135, C138: a broker that does not answer costs its own partitions a deadline
// and the others nothing.
func TestLaneHangingBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2}, lanes: 2})
		defer r.stop()
		for i := range int32(2) {
			if err := r.cluster.MoveTopicPartition("a", i, i); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.leaders.Refresh(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		h := r.hold(func(req *kmsg.ProduceRequest) bool { return carries(req, 0) })
		defer h.release()
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			res := r.append(r.target("a", 0), 0, 1, 0)
			wantOutcome(t, res, Unknown, state.Unreachable)
			if took := time.Since(begun); took != DefaultFastTimeout+answerGrace {
				t.Errorf("deadline after %v", took)
			}
		})
		h.wait(1)
		for n := range int64(100) {
			wantOutcome(t, r.append(r.target("a", 1), int32(n), 1, n), Appended, "")
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the other broker's partition took %v", took)
		}
		wg.Wait()
	})
}

// A batch that makes the broker hang up must not take its neighbours with it
// for ever: requests of the slow lane are halved until it is alone.
func TestLaneFindsPoisonousBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 32}})
		defer r.stop()
		const bad = 13
		r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			if carries(req, bad) {
				return nil, errors.New("hang up"), true
			}
			return nil, nil, false
		})
		var wg sync.WaitGroup
		var tries [32]int
		for i := range int32(32) {
			wg.Go(func() {
				for tries[i] = 1; tries[i] <= 30; tries[i]++ {
					res := r.append(r.target("a", i), 0, 1, 0)
					if res.Outcome == Appended {
						return
					}
					wantOutcome(t, res, Unknown, state.Unreachable)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		for i, n := range tries {
			if i == bad && n <= 30 {
				t.Errorf("the bad batch went through")
			}
			if i != bad && n > 10 {
				t.Errorf("partition %d needed %d tries", i, n)
			}
		}
		wantOutcome(t, r.append(r.target("a", 0), 1, 1, 1), Appended, "")
		if p := r.part(r.target("a", bad)); p == nil || !p.slow {
			t.Errorf("the bad partition left the slow lane: %+v", p)
		}
	})
}

// What waits for a broker that lost the leadership goes to the new leader.
func TestLaneReroutesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2}})
		defer r.stop()
		for i := range int32(2) {
			if err := r.cluster.MoveTopicPartition("a", i, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.leaders.Refresh(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		h := r.hold(func(req *kmsg.ProduceRequest) bool { return carries(req, 0) })
		var wg sync.WaitGroup
		wg.Go(func() { wantOutcome(t, r.append(r.target("a", 0), 0, 1, 0), Appended, "") })
		h.wait(1)
		wg.Go(func() {
			res := r.append(r.target("a", 1), 0, 1, 0)
			wantOutcome(t, res, Appended, "")
			if res.Leader.Broker != 1 {
				t.Errorf("went to %d", res.Leader.Broker)
			}
		})
		synctest.Wait()
		if err := r.cluster.MoveTopicPartition("a", 1, 1); err != nil {
			t.Fatal(err)
		}
		if err := r.leaders.Refresh(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		h.release()
		wg.Wait()
	})
}

// answerWith replies to every produce with one error-free partition that edit
// has changed.
func (r *rig) answerWith(edit func(*kmsg.ProduceResponse, *kmsg.ProduceResponseTopicPartition)) {
	r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition = req.Topics[0].Partitions[0].Partition
		t.Partitions = append(t.Partitions, p)
		edit(resp, &t.Partitions[0])
		resp.Topics = append(resp.Topics, t)
		return resp, nil, true
	})
}

func TestLaneObeysThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		r.answerWith(func(resp *kmsg.ProduceResponse, _ *kmsg.ProduceResponseTopicPartition) { resp.ThrottleMillis = 60_000 })
		res := r.append(r.target("a", 0), 0, 1, 0)
		wantOutcome(t, res, Appended, "")
		if res.ThrottleFor != time.Minute {
			t.Fatalf("throttle %v", res.ThrottleFor)
		}
		begun := time.Now()
		// Longer than any deadline: the pause must not eat the request's time.
		wantOutcome(t, r.append(r.target("a", 0), 0, 1, 0), Appended, "")
		if took := time.Since(begun); took < time.Minute {
			t.Fatalf("sent again after %v", took)
		}
	})
}

func TestLaneOddAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*kmsg.ProduceResponse, *kmsg.ProduceResponseTopicPartition)
		want   Outcome
		reason state.Reason
		check  func(Result) bool
	}{
		{"other partition", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) { p.Partition = 99 },
			Unknown, state.Unreachable, func(r Result) bool { return errors.Is(r.Err, ErrNoAnswer) }},
		{"no offset", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) { p.BaseOffset = -1 },
			Unknown, state.Unreachable, func(r Result) bool { return r.Base == -1 }},
		{"append time", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) {
			p.LogAppendTime = 1_700_000_000_001 // not the batch's own
		},
			Appended, "", func(r Result) bool { return r.Retimed }},
		{"append time of a duplicate", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) {
			p.LogAppendTime = 1_700_000_000_000 // the batch's max timestamp
		},
			Appended, "", func(r Result) bool { return !r.Retimed }},
		{"log start", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) { p.LogStartOffset = 5 },
			Appended, "", func(r Result) bool { return r.LogStart == 5 && !r.Retimed }},
		{"unheard-of error", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) { p.ErrorCode = 9999 },
			Unknown, state.TopicRefused, func(r Result) bool { return errors.Is(r.Err, kerr.UnknownServerError) }},
		{"error with an offset", func(_ *kmsg.ProduceResponse, p *kmsg.ProduceResponseTopicPartition) {
			p.ErrorCode, p.BaseOffset = kerr.InvalidRecord.Code, 0
			p.ErrorMessage = kmsg.StringPtr("no key")
			rec := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			rec.RelativeOffset = 4
			p.ErrorRecords = append(p.ErrorRecords, rec)
		}, Refused, state.Unfillable, func(r Result) bool {
			var f *Fault
			return r.Base == -1 && errors.As(r.Err, &f) && f.Detail == "no key record 4"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
				defer r.stop()
				r.answerWith(c.edit)
				res := r.append(r.target("a", 0), 0, 1, 0)
				wantOutcome(t, res, c.want, c.reason)
				if !c.check(res) {
					t.Fatalf("result %+v", res)
				}
			})
		})
	}
}
