package appender

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 3, topics: map[string]int32{"a": 6}})
		defer r.stop()
		var targets []Target
		for i := range int32(6) {
			p := r.target("a", i)
			targets = append(targets, p)
			wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
			if err := r.cluster.DeleteRecords("a", i, int64(i)); i > 0 && err != nil {
				t.Fatal(err)
			}
		}
		other := Target{Topic: "a", ID: [16]byte{9}}
		got := r.a.Ends(t.Context(), append(targets, other))
		for i, p := range targets {
			want := Ends{LogStart: int64(i), HighWatermark: 10, LogEnd: 10, Leader: r.cluster.LeaderFor("a", p.Partition)}
			if got[p] != want {
				t.Errorf("partition %d: %+v, want %+v", i, got[p], want)
			}
		}
		if e := got[other]; e.Reason != state.TargetRecreated || e.LogStart != -1 || e.HighWatermark != -1 || e.LogEnd != -1 || e.Err == nil {
			t.Errorf("other id: %+v", e)
		}
	})
}

// The leader changes between the questions: all answers are those of the new
// epoch.
func TestEndsOfOneEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 1}})
		defer r.stop()
		r.lead(map[int32]int32{0: 0})
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
		was, _ := r.leaders.Leader("a", 0)
		moved := false
		r.cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			if !moved {
				moved = true
				r.cluster.SleepControl(func() {
					if err := r.cluster.MoveTopicPartition("a", 0, 1); err != nil {
						t.Error(err)
					}
				})
			}
			return nil, nil, false
		})
		e := r.a.Ends(t.Context(), []Target{p})[p]
		if e.Err != nil || e.LeaderEpoch != was.Epoch+1 || e.Leader != 1 || e.LogEnd != 10 || e.HighWatermark != 10 {
			t.Errorf("%+v", e)
		}
	})
}

// Each of the three questions can fail alone.
func TestEndsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 2}})
		defer r.stop()
		p, other := r.target("a", 0), r.target("a", 1)
		for _, key := range []kmsg.Key{kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch} {
			h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1})
			got := r.a.Ends(t.Context(), []Target{p, other})
			if e := got[p]; e.Reason != state.NoPermission || e.LogEnd != -1 {
				t.Errorf("%s: %+v", key.Name(), e)
			}
			if e := got[other]; e.Err != nil {
				t.Errorf("%s, the other partition: %+v", key.Name(), e)
			}
			h.Remove()
		}
	})
}

func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 3, topics: map[string]int32{"a": 6}})
		defer r.stop()
		starts := make(map[Target]int64)
		for i := range int32(6) {
			p := r.target("a", i)
			wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
			starts[p] = int64(i + 1)
		}
		other, last := Target{Topic: "a", ID: [16]byte{9}}, r.target("a", 5)
		starts[other] = 3
		got := r.a.Trim(t.Context(), starts)
		for p, want := range starts {
			if p == other {
				continue
			}
			if g := got[p]; g.Err != nil || g.LogStart != want {
				t.Errorf("partition %d: %+v, want %d", p.Partition, g, want)
			}
		}
		if g := got[other]; g.Reason != state.TargetRecreated || g.LogStart != -1 || !errors.Is(g.Err, ErrTopicID) {
			t.Errorf("other id: %+v", g)
		}
		if g := r.a.Trim(t.Context(), map[Target]int64{last: -1})[last]; !errors.Is(g.Err, ErrBadTrim) {
			t.Errorf("trim to -1: %+v", g)
		}
		ends := r.a.Ends(t.Context(), []Target{last})
		if ends[last].LogStart != 6 || ends[last].LogEnd != 10 {
			t.Errorf("%+v", ends[last])
		}
	})
}

// A leader map that is behind does not let a trim reach a recreated topic.
func TestTrimTopicRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		r.recreate("a")
		r.cluster.ControlKey(int16(kmsg.DeleteRecords), func(kmsg.Request) (kmsg.Response, error, bool) {
			t.Error("sent")
			return nil, nil, false
		})
		if g := r.a.Trim(t.Context(), map[Target]int64{p: 0})[p]; g.Reason != state.TargetRecreated {
			t.Errorf("%+v", g)
		}
	})
}

func TestTrimFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantOutcome(t, r.append(p, 0, 10, 0), Appended, "")
		for _, c := range []struct {
			err    *kerr.Error
			is     error
			reason state.Reason
			right  string
			count  int
		}{
			{kerr.PolicyViolation, ErrCompactOnly, state.TopicRefused, "", 1},
			{kerr.OffsetOutOfRange, kerr.OffsetOutOfRange, state.NotEnoughReplicas, "", 1},
			{kerr.RequestTimedOut, kerr.RequestTimedOut, state.NotEnoughReplicas, "", 1},
			{kerr.TopicAuthorizationFailed, kerr.TopicAuthorizationFailed, state.NoPermission, rightDelete, 1},
			{kerr.NotLeaderForPartition, nil, "", "", 1}, // asked again
			{kerr.NotLeaderForPartition, kerr.NotLeaderForPartition, state.NoLeader, "", 2},
		} {
			asked := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Observe: true, Count: -1})
			h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Topic: "a", Partitions: []int32{0}, Err: c.err, Count: c.count})
			g := r.a.Trim(t.Context(), map[Target]int64{p: 4})[p]
			h.Remove()
			if g.Reason != c.reason || (g.Err == nil) != (c.is == nil) || c.is != nil && !errors.Is(g.Err, c.is) {
				t.Errorf("%s: %+v", c.err.Message, g)
			}
			var f *Fault
			if errors.As(g.Err, &f) && (f.Right != c.right || f.Op != opTrim) {
				t.Errorf("%s: %+v", c.err.Message, f)
			}
			if n := int(asked.Hits()); c.is != nil && n != c.count {
				t.Errorf("%s: asked %d times, want %d", c.err.Message, n, c.count)
			}
			asked.Remove()
		}
		if g := r.a.Trim(t.Context(), map[Target]int64{p: 11})[p]; !errors.Is(g.Err, kerr.OffsetOutOfRange) {
			t.Errorf("above the end: %+v", g)
		}
	})
}
