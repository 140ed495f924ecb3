package appender

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/linker/state"
)

func TestLogEndsOnePerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 3, topics: map[string]int32{"a": 60, "b": 30}})
		defer r.stop()
		var asked atomic.Int32
		r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			asked.Add(1)
			q := req.(*kmsg.OffsetForLeaderEpochRequest)
			if q.ReplicaID != -1 {
				t.Errorf("asked as replica %d", q.ReplicaID)
			}
			for _, p := range q.Topics[0].Partitions {
				if p.CurrentLeaderEpoch != p.LeaderEpoch || p.LeaderEpoch < 0 {
					t.Errorf("not fenced by the epoch: %+v", p)
				}
			}
			return nil, nil, false
		})
		var targets []Target
		for i := range int32(60) {
			targets = append(targets, r.target("a", i))
		}
		for i := range int32(30) {
			targets = append(targets, r.target("b", i))
		}
		for i, p := range targets {
			wantOutcome(t, r.append(p, 0, i+1, 0), Appended, "")
		}
		ends := r.a.LogEnds(t.Context(), targets)
		for i, p := range targets {
			e := ends[p]
			if e.Err != nil || e.End != int64(i+1) || e.Leader != r.cluster.LeaderFor(p.Topic, p.Partition) {
				t.Errorf("%v: %+v", p, e)
			}
		}
		if len(ends) != len(targets) || asked.Load() != 3 {
			t.Errorf("%d ends by %d requests", len(ends), asked.Load())
		}
	})
}

func TestLogEndsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2}})
		defer r.stop()
		good, moved := r.target("a", 0), r.target("a", 1)
		wantOutcome(t, r.append(good, 0, 3, 0), Appended, "")
		wantOutcome(t, r.append(moved, 0, 4, 0), Appended, "")
		if err := r.cluster.MoveTopicPartition("a", 1, (r.cluster.LeaderFor("a", 1)+1)%2); err != nil {
			t.Fatal(err)
		}
		missing := Target{Topic: "gone", ID: [16]byte{9}}
		beyond := Target{Topic: "a", ID: good.ID, Partition: 7}
		other := Target{Topic: "a", ID: [16]byte{9}}
		ends := r.a.LogEnds(t.Context(), []Target{good, moved, missing, beyond, other})
		if e := ends[good]; e.Err != nil || e.End != 3 {
			t.Errorf("good: %+v", e)
		}
		if e := ends[moved]; e.Err != nil || e.End != 4 || e.LeaderEpoch != 1 {
			t.Errorf("moved: %+v", e)
		}
		for p, reason := range map[Target]state.Reason{missing: state.TopicMissing, beyond: state.TopicMissing, other: state.TargetRecreated} {
			if e := ends[p]; e.End != -1 || e.Reason != reason || e.Err == nil {
				t.Errorf("%v: %+v", p, e)
			}
		}

		for _, c := range []struct {
			err    *kerr.Error
			reason state.Reason
			count  int
		}{
			{kerr.FencedLeaderEpoch, "", 1}, // asked again
			{kerr.FencedLeaderEpoch, state.NoLeader, 2},
			{kerr.KafkaStorageError, state.StorageError, 2},
			{kerr.TopicAuthorizationFailed, state.NoPermission, 1},
		} {
			h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: c.err, Count: c.count})
			e := r.a.LogEnds(t.Context(), []Target{good})[good]
			if e.Reason != c.reason || (e.Err == nil) != (c.reason == "") {
				t.Errorf("%s: %+v", c.err.Message, e)
			}
			var f *Fault
			if c.reason == state.NoPermission && (!errors.As(e.Err, &f) || f.Right != rightDescribe) {
				t.Errorf("right not named: %v", e.Err)
			}
			h.Remove()
		}
	})
}

// C135: a broker that hangs is not needed to read the ends of other leaders'
// logs, not even for their topics' ids.
func TestLogEndsBesideHangingBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 3, topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 7, 0), Appended, "")
		gate := make(chan struct{})
		defer func() {
			close(gate)
			synctest.Wait()
		}()
		healthy := r.cluster.LeaderFor("a", 0)
		r.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			if r.cluster.CurrentNode() != healthy {
				r.cluster.SleepControl(func() { <-gate })
			}
			return nil, nil, false
		})
		begun := time.Now()
		for range 20 {
			if e := r.a.LogEnds(t.Context(), []Target{p})[p]; e.Err != nil || e.End != 7 {
				t.Fatalf("%+v", e)
			}
		}
		if took := time.Since(begun); took > time.Second {
			t.Fatalf("took %v", took)
		}
	})
}

// A leader that has not entered its epoch answers -1, or the end of an older
// one: neither is its log's end.
func TestLogEndsOtherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		for _, odd := range []struct {
			epoch int32
			end   int64
		}{{-1, -1}, {0, -1}, {-1, 10}} {
			r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
				rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
				rt.Topic = "a"
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.LeaderEpoch, rp.EndOffset = odd.epoch, odd.end
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			if e := r.a.LogEnds(t.Context(), []Target{p})[p]; !errors.Is(e.Err, ErrNoAnswer) || e.Reason != state.NoLeader {
				t.Errorf("epoch %d end %d: %+v", odd.epoch, odd.end, e)
			}
			r.cluster.DropControl()
		}
	})
}

func TestLogEndsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		gate := make(chan struct{})
		defer func() {
			close(gate)
			synctest.Wait()
		}()
		r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.SleepControl(func() { <-gate })
			return nil, nil, false
		})
		begun := time.Now()
		p := r.target("a", 0)
		e := r.a.LogEnds(t.Context(), []Target{p})[p]
		if took := time.Since(begun); e.Reason != state.Unreachable || took < DefaultRequestTimeout || took > DefaultRequestTimeout+time.Second {
			t.Fatalf("after %v: %+v", took, e)
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 4}})
		defer r.stop()
		var targets []Target
		for i := range int32(4) {
			p := r.target("a", i)
			targets = append(targets, p)
			wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
			if err := r.cluster.DeleteRecords("a", i, int64(i)); i > 0 && err != nil {
				t.Fatal(err)
			}
		}
		other := Target{Topic: "a", ID: [16]byte{9}}
		got := r.a.Bounds(t.Context(), append(targets, other))
		for i, p := range targets {
			if b := got[p]; b.Err != nil || b.Start != int64(i) || b.HighWatermark != 10 {
				t.Errorf("partition %d: %+v", i, b)
			}
		}
		if b := got[other]; b.Reason != state.TargetRecreated || b.Start != -1 || b.HighWatermark != -1 {
			t.Errorf("other id: %+v", b)
		}
	})
}

// kfake lists only transactional producers, so the answer is made by hand; the
// real thing is covered on a real broker.
func TestProducerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		if s, err := r.a.ProducerState(t.Context(), p, testPID); err != nil || s.Known {
			t.Fatalf("no entry: %+v, %v", s, err)
		}
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		var f *Fault
		if _, err := r.a.ProducerState(t.Context(), p, testPID); !errors.As(err, &f) || f.Reason != state.NoPermission || f.Right != rightRead {
			t.Fatalf("forbidden: %v", err)
		}
		h.Remove()
		r.cluster.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
			rt := kmsg.NewDescribeProducersResponseTopic()
			rt.Topic = "a"
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			for i := range int64(3) {
				e := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				e.ProducerID, e.ProducerEpoch, e.LastSequence, e.LastTimestamp, e.CoordinatorEpoch = testPID+i-1, int32(i), int32(10*i), 99, 4
				rp.ActiveProducers = append(rp.ActiveProducers, e)
			}
			rt.Partitions = append(rt.Partitions, rp)
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
		s, err := r.a.ProducerState(t.Context(), p, testPID)
		if want := (ProducerState{Known: true, Epoch: 1, LastSequence: 10, LastTimestamp: 99, CoordinatorEpoch: 4}); err != nil || s != want || s.Next() != 11 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// TestProducerStatesOfMany: one request and one answer each, whatever becomes of
// the others.
func TestProducerStatesOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 2, "b": 1}})
		defer r.stop()
		requests := 0
		r.cluster.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			requests++
			resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
			for _, topic := range req.(*kmsg.DescribeProducersRequest).Topics {
				rt := kmsg.NewDescribeProducersResponseTopic()
				rt.Topic = topic.Topic
				for _, n := range topic.Partitions {
					rp := kmsg.NewDescribeProducersResponseTopicPartition()
					rp.Partition = n
					e := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					e.ProducerID, e.ProducerEpoch = testPID+int64(n), 7
					rp.ActiveProducers = append(rp.ActiveProducers, e)
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
		ask := map[Target]int64{r.target("a", 0): testPID, r.target("a", 1): testPID + 1, r.target("b", 0): testPID + 9, {Topic: "gone"}: 1}
		got := r.a.ProducerStates(t.Context(), ask)
		if len(got) != len(ask) || got[Target{Topic: "gone"}].Err == nil {
			t.Fatalf("got %+v", got)
		}
		for target, s := range got {
			if target.Topic != "gone" && (s.Err != nil || s.Known != (target.Topic == "a") || s.Known && s.Epoch != 7) {
				t.Errorf("%v: %+v", target, s)
			}
		}
		if most := len(r.cluster.ListenAddrs()); requests > most {
			t.Errorf("%d requests to %d brokers", requests, most)
		}
	})
}

func TestProducerStateUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1},
			cluster: []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}})
		defer r.stop()
		p := Target{Topic: "a"} // such brokers have no topic ids
		_, err := r.a.ProducerState(t.Context(), p, testPID)
		if !errors.Is(err, ErrUnsupported) {
			t.Fatalf("err %v", err)
		}
		wantOutcome(t, r.append(p, 0, 1, 0), Appended, "")
		if end := r.end(p); end != 1 {
			t.Fatalf("end %d", end)
		}
	})
}
