package appender

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pair begins two appends of one partition, the second behind the first.
func (r *rig) pair(ctx context.Context, t Target) (first, second *Pending) {
	first = r.a.Begin(ctx, t, Batch{Bytes: dataBatch(3, testPID, 0, 0), Expect: 0, Follow: More})
	second = r.a.Begin(ctx, t, Batch{Bytes: dataBatch(2, testPID, 0, 3), Expect: 3, After: first})
	return first, second
}

// TestAFollowerTravelsBehind (A8): the second batch is on the connection while
// the broker still works on the first, and both land in order.
func TestAFollowerTravelsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, lanes: 1})
		defer r.stop()
		p := r.target("a", 0)
		h := r.hold(func(*kmsg.ProduceRequest) bool { return true })
		first, second := r.pair(t.Context(), p)
		h.wait(1)
		synctest.Wait()
		if second.it.onLane == nil {
			t.Error("the second batch is not on the connection")
		}
		third := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(1, testPID, 0, 5), Expect: 5, After: second})
		if res := third.Wait(t.Context()); !errors.Is(res.Err, ErrBusy) {
			t.Errorf("a third batch: %+v", res)
		}
		h.release()
		wantOutcome(t, first.Wait(t.Context()), Appended, "")
		wantOutcome(t, second.Wait(t.Context()), Appended, "")
		third = r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(1, testPID, 0, 5), Expect: 5, After: second})
		wantOutcome(t, third.Wait(t.Context()), Appended, "")
		if end := r.end(p); end != 6 {
			t.Errorf("end %d", end)
		}
	})
}

// TestASettledAppendHoldsNothing: a long run, each batch behind the one before it,
// keeps none of them.
func TestASettledAppendHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, lanes: 1})
		defer r.stop()
		var before *Pending
		for n := range int32(10) {
			now := r.a.Begin(t.Context(), r.target("a", 0), Batch{Bytes: dataBatch(1, testPID, 0, n), Expect: int64(n), After: before})
			if before != nil {
				wantOutcome(t, before.Wait(t.Context()), Appended, "")
				if before.it.after != nil || before.it.batch != nil {
					t.Errorf("append %d holds on to its batch or to the one before it", n-1)
				}
			}
			before = now
		}
		wantOutcome(t, before.Wait(t.Context()), Appended, "")
	})
}

// TestAFollowerOfAFailure: whatever the first one's failure, the second is not
// written, and a batch that is begun behind it later does not leave.
func TestAFollowerOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, lanes: 1})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "") // the broker knows the producer
		refused := false
		r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			if refused {
				return nil, nil, false
			}
			refused = true
			return answerAll(req, kerr.NotEnoughReplicas.Code), nil, true
		})
		first := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(3, testPID, 0, 1), Expect: 1, Follow: More})
		second := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(2, testPID, 0, 4), Expect: 4, After: first})
		if res := first.Wait(t.Context()); res.Outcome != Refused {
			t.Errorf("first: %+v", res)
		}
		if res := second.Wait(t.Context()); res.Outcome != OutOfOrder && !errors.Is(res.Err, ErrPredecessor) {
			t.Errorf("second: %+v", res)
		}
		late := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(2, testPID, 0, 4), Expect: 4, After: first})
		if res := late.Wait(t.Context()); res.Outcome != NotSent || !errors.Is(res.Err, ErrPredecessor) {
			t.Errorf("late: %+v", res)
		}
		if end := r.end(p); end != 1 {
			t.Errorf("end %d", end)
		}
		wantOutcome(t, r.append(p, 1, 1, 1), Appended, "") // and the partition is free again
	})
}

// TestAFollowerOfALostAnswer: the connection ends after the first was written.
func TestAFollowerOfALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, lanes: 1})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")
		r.loseAnswer.Store(true)
		first := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(3, testPID, 0, 1), Expect: 1, Follow: More})
		second := r.a.Begin(t.Context(), p, Batch{Bytes: dataBatch(2, testPID, 0, 4), Expect: 4, After: first})
		if res := first.Wait(t.Context()); res.Outcome != Unknown {
			t.Errorf("first: %+v", res)
		}
		res := second.Wait(t.Context())
		end := r.end(p)
		switch {
		case end == 4 && (res.Outcome == Unknown || res.Outcome == NotSent):
		case end == 6 && (res.Outcome == Unknown || res.Outcome == Appended):
		default:
			t.Errorf("second: %+v, end %d", res, end)
		}
	})
}

// TestAFollowerIsTakenBack: what no lane has taken ends with its caller's ctx,
// and what is parked behind it comes back too.
func TestAFollowerIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 3}, lanes: 1})
		defer r.stop()
		h := r.hold(func(*kmsg.ProduceRequest) bool { return true })
		var held []*Pending // both places of the lane
		for i := range int32(2) {
			held = append(held, r.a.Begin(t.Context(), r.target("a", i), Batch{Bytes: dataBatch(1, testPID, 0, 0)}))
			synctest.Wait()
		}
		h.wait(1)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := r.pair(ctx, r.target("a", 2))
		time.AfterFunc(time.Millisecond, cancel)
		if res := first.Wait(ctx); res.Outcome != NotSent || !errors.Is(res.Err, context.Canceled) {
			t.Errorf("first: %+v", res)
		}
		if res := second.Wait(t.Context()); res.Outcome != NotSent || !errors.Is(res.Err, ErrPredecessor) {
			t.Errorf("second: %+v", res)
		}
		h.release()
		for _, p := range held {
			wantOutcome(t, p.Wait(t.Context()), Appended, "")
		}
		if end := r.end(r.target("a", 2)); end != 0 {
			t.Errorf("end %d", end)
		}
	})
}

// TestAFollowerAtTheEnd: Run ends while one batch is in flight and one waits.
func TestAFollowerAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, lanes: 1})
		defer r.stop()
		h := r.hold(func(*kmsg.ProduceRequest) bool { return true })
		first, second := r.pair(t.Context(), r.target("a", 0))
		h.wait(1)
		synctest.Wait()
		r.halt()
		for _, p := range []*Pending{first, second} {
			if res := p.Wait(t.Context()); res.Outcome != Unknown && res.Outcome != NotSent {
				t.Errorf("%+v", res)
			}
		}
		h.release()
	})
}

// answerAll refuses every batch of a request.
func answerAll(req *kmsg.ProduceRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
