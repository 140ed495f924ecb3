package appender

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/linker/state"
)

func wantOutcome(t testing.TB, r Result, want Outcome, reason state.Reason) {
	t.Helper()
	if r.Outcome != want || r.Reason != reason {
		t.Fatalf("got %v, reason %q, base %d, err %v; want %v, reason %q", r.Outcome, r.Reason, r.Base, r.Err, want, reason)
	}
	if (r.Err == nil) != (want == Appended) {
		t.Fatalf("%v with error %v", want, r.Err)
	}
	var f *Fault
	if r.Err != nil && !errors.As(r.Err, &f) {
		t.Fatalf("error %v is no Fault", r.Err)
	}
}

func TestAppendInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		next := int64(0)
		for range 20 {
			res := r.append(p, int32(next), 3, next)
			wantOutcome(t, res, Appended, "")
			if res.Base != next || !res.Sent || res.Leader.Broker != r.cluster.LeaderFor("a", 0) {
				t.Fatalf("result %+v at %d", res, next)
			}
			next += 3
		}
		if end := r.end(p); end != next {
			t.Fatalf("end %d, want %d", end, next)
		}
		if r.parts() != 0 {
			t.Fatalf("%d partitions remembered", r.parts())
		}
	})
}

func TestAppendBaseOffsetsAndSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
		wantOutcome(t, r.append(p, 10, 10, 10), Appended, "")

		res := r.append(p, 0, 10, 20)
		wantOutcome(t, res, Duplicate, "")
		if res.Base != 0 || !errors.Is(res.Err, ErrOffset) {
			t.Fatalf("duplicate: %+v", res)
		}
		res = r.append(p, 25, 5, 20)
		wantOutcome(t, res, OutOfOrder, "")
		if res.Base != -1 {
			t.Fatalf("base offset %d with an error (A7)", res.Base)
		}

		// A foreign record moves the end: the sequence fits, the offset does not.
		foreign := r.a.Append(t.Context(), p, dataBatch(1, 77, 0, 0), 20)
		wantOutcome(t, foreign, Appended, "")
		res = r.append(p, 20, 1, 20)
		wantOutcome(t, res, Misplaced, state.ForeignWrite)
		if res.Base != 21 {
			t.Fatalf("misplaced at %d", res.Base)
		}

		wantOutcome(t, r.a.Append(t.Context(), p, dataBatch(1, testPID, 1, 0), 22), Appended, "")
		wantOutcome(t, r.append(p, 21, 1, 23), Fenced, state.Fenced)
	})
}

// G3: an append that was carried out but not confirmed is found by the log end,
// and sending it again writes nothing.
func TestAppendUnknownWasWritten(t *testing.T) {
	for _, c := range []struct {
		name   string
		cause  func(*rig)
		reason state.Reason
		is     error
	}{
		{"timed out", func(r *rig) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut})
		}, state.NotEnoughReplicas, kerr.RequestTimedOut},
		{"not enough replicas after append", func(r *rig) {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend})
		}, state.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend},
		{"answer lost", func(r *rig) { r.loseAnswer.Store(true) }, state.Unreachable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
				defer r.stop()
				p := r.target("a", 0)
				wantOutcome(t, r.append(p, 0, 5, 0), Appended, "") // the connection is open
				c.cause(r)
				res := r.append(p, 5, 5, 5)
				wantOutcome(t, res, Unknown, c.reason)
				if !res.Sent || res.Base != -1 || c.is != nil && !errors.Is(res.Err, c.is) {
					t.Fatalf("result %+v", res)
				}
				if end := r.end(p); end != 10 {
					t.Fatalf("end %d: the batch should be there", end)
				}
				wantOutcome(t, r.append(p, 5, 5, 5), Appended, "") // duplicate of the very same place
				wantOutcome(t, r.append(p, 10, 5, 10), Appended, "")
				if end := r.end(p); end != 15 {
					t.Fatalf("end %d after the duplicate", end)
				}
			})
		})
	}
}

func TestAppendRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		for _, c := range []struct {
			err    *kerr.Error
			reason state.Reason
		}{
			{kerr.NotEnoughReplicas, state.NotEnoughReplicas},
			{kerr.MessageTooLarge, state.TooLarge},
			{kerr.CorruptMessage, state.Corrupt},
			{kerr.TopicAuthorizationFailed, state.NoPermission},
			{kerr.UnknownTopicOrPartition, state.TopicMissing},
		} {
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.err})
			res := r.append(p, 0, 1, 0)
			wantOutcome(t, res, Refused, c.reason)
			if !errors.Is(res.Err, c.err) {
				t.Errorf("%v is no %v", res.Err, c.err)
			}
		}
		if end := r.end(p); end != 0 {
			t.Fatalf("end %d after refusals", end)
		}
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")
	})
}

func TestAppendNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		r.refuse.Store(true)
		res := r.append(p, 0, 1, 0)
		wantOutcome(t, res, NotSent, state.Unreachable)
		if res.Sent {
			t.Fatal("claims to have sent over no connection")
		}
		r.refuse.Store(false)
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")

		res = r.append(Target{Topic: "missing", ID: [16]byte{1}}, 0, 1, 0)
		wantOutcome(t, res, NotSent, state.TopicMissing)
		res = r.a.Append(t.Context(), p, []byte("no batch"), 0)
		wantOutcome(t, res, NotSent, state.Corrupt)
		if !errors.Is(res.Err, ErrBadBatch) {
			t.Fatalf("err %v", res.Err)
		}
	})
}

func TestAppendFollowsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 3, topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")
		for i := int64(1); i < 6; i++ {
			to := (r.cluster.LeaderFor("a", 0) + 1) % 3
			if err := r.cluster.MoveTopicPartition("a", 0, to); err != nil {
				t.Fatal(err)
			}
			res := r.append(p, int32(i), 1, i)
			wantOutcome(t, res, Unknown, state.NoLeader)
			if l, _ := r.leaders.Leader("a", 0); l.Broker != to {
				t.Fatalf("hint not taken: leader %d, want %d", l.Broker, to)
			}
			if end := r.end(p); end != i {
				t.Fatalf("end %d", end)
			}
			res = r.append(p, int32(i), 1, i)
			wantOutcome(t, res, Appended, "")
			if res.Leader.Broker != to {
				t.Fatalf("sent to %d, leader is %d", res.Leader.Broker, to)
			}
		}
	})
}

// A leader that cannot be reached may be none any more: the next batch asks.
func TestAppendAsksAfterFailedDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		r.refuse.Store(true)
		wantOutcome(t, r.append(p, 0, 1, 0), NotSent, state.Unreachable)
		r.refuse.Store(false)
		to := 1 - r.cluster.LeaderFor("a", 0)
		if err := r.cluster.MoveTopicPartition("a", 0, to); err != nil {
			t.Fatal(err)
		}
		res := r.append(p, 0, 1, 0)
		wantOutcome(t, res, Appended, "")
		if res.Leader.Broker != to {
			t.Fatalf("sent to %d", res.Leader.Broker)
		}
	})
}

// A metadata request that hangs delays a partition whose leader is known by no
// more than the patience.
func TestAppendBesideHangingMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")
		r.loseAnswer.Store(true)
		wantOutcome(t, r.append(p, 1, 1, 1), Unknown, state.Unreachable)
		synctest.Wait() // the clients have learned the brokers
		gate := make(chan struct{})
		defer func() {
			close(gate)
			synctest.Wait()
		}()
		r.cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.SleepControl(func() { <-gate })
			return nil, nil, false
		})
		begun := time.Now()
		wantOutcome(t, r.append(p, 1, 1, 1), Appended, "")
		if took := time.Since(begun); took > askPatience+100*time.Millisecond {
			t.Fatalf("took %v", took)
		}
	})
}

func TestAppendRecreatedTopic(t *testing.T) {
	recreate := func(t *testing.T, r *rig) {
		t.Helper()
		if err := r.cluster.DeleteTopic("a"); err != nil {
			t.Fatal(err)
		}
		if err := r.cluster.CreateTopic("a", 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("by id", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
			defer r.stop()
			p := r.target("a", 0)
			wantOutcome(t, r.append(p, 0, 5, 0), Appended, "")
			recreate(t, r)
			wantOutcome(t, r.append(p, 5, 5, 5), Refused, state.TargetRecreated)
			if e := r.a.LogEnds(t.Context(), []Target{p})[p]; e.Reason != state.TargetRecreated || !errors.Is(e.Err, ErrTopicID) {
				t.Fatalf("log end %+v", e)
			}
			wantOutcome(t, r.append(p, 5, 5, 5), NotSent, state.TargetRecreated)
			if end := r.end(r.target("a", 0)); end != 0 {
				t.Fatalf("the new topic has %d records", end)
			}
		})
	})
	t.Run("by name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, client: []kgo.Opt{kgo.MaxVersions(kversion.V3_9_0())}})
			defer r.stop()
			p := r.target("a", 0)
			wantOutcome(t, r.append(p, 0, 5, 0), Appended, "")
			recreate(t, r)
			if err := r.leaders.Refresh(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			res := r.append(p, 5, 5, 5)
			wantOutcome(t, res, NotSent, state.TargetRecreated)
			if !errors.Is(res.Err, ErrTopicID) || r.end(r.target("a", 0)) != 0 {
				t.Fatalf("%v, new topic's end %d", res.Err, r.end(r.target("a", 0)))
			}
		})
	})
}

func TestAppendBusyAndWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 3}})
		defer r.stop()
		h := r.hold(func(*kmsg.ProduceRequest) bool { return true })
		var wg sync.WaitGroup
		wg.Go(func() { wantOutcome(t, r.append(r.target("a", 0), 0, 1, 0), Appended, "") })
		h.wait(1)
		if res := r.append(r.target("a", 0), 1, 1, 1); res.Outcome != NotSent || !errors.Is(res.Err, ErrBusy) {
			t.Fatalf("second append of a partition: %+v", res)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			res := r.a.Append(ctx, r.target("a", 1), dataBatch(1, testPID, 0, 0), 0)
			if res.Outcome != NotSent || !errors.Is(res.Err, context.Canceled) {
				t.Errorf("withdrawn: %+v", res)
			}
		})
		wg.Go(func() { wantOutcome(t, r.append(r.target("a", 2), 0, 1, 0), Appended, "") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		h.release()
		wg.Wait()
		for i, want := range []int64{1, 0, 1} {
			if end := r.end(r.target("a", int32(i))); end != want {
				t.Errorf("partition %d ends at %d, want %d", i, end, want)
			}
		}
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 2}})
		defer r.stop()
		h := r.hold(func(*kmsg.ProduceRequest) bool { return true })
		var wg sync.WaitGroup
		results := make([]Result, 2)
		wg.Go(func() { results[0] = r.append(r.target("a", 0), 0, 1, 0) })
		h.wait(1)
		wg.Go(func() { results[1] = r.append(r.target("a", 1), 0, 1, 0) })
		synctest.Wait()
		r.halt()
		wg.Wait()
		h.release()
		wantOutcome(t, results[0], Unknown, state.Unreachable)
		if results[1].Outcome != NotSent || !errors.Is(results[1].Err, ErrStopped) {
			t.Fatalf("waiting append: %+v", results[1])
		}
		if res := r.a.Append(t.Context(), r.target("a", 0), dataBatch(1, testPID, 0, 0), 0); !errors.Is(res.Err, ErrStopped) {
			t.Fatalf("append after the end: %+v", res)
		}
	})
}

func TestRunChecksOptions(t *testing.T) {
	if err := New(Options{}).Run(t.Context()); err == nil {
		t.Fatal("ran without clients")
	}
	r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, client: []kgo.Opt{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()}, noRun: true})
	if err := r.a.Run(t.Context()); err == nil {
		t.Fatal("ran with clients that never read answers")
	}
}
