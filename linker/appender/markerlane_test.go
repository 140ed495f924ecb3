package appender

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

// pass lets time go by, in a bubble at no cost.
func pass(d time.Duration) { <-time.After(d) }

// recreate deletes a topic and makes it again, behind the leader map's back.
func (r *rig) recreate(topic string) {
	r.t.Helper()
	del := kmsg.NewPtrDeleteTopicsRequest()
	dt := kmsg.NewDeleteTopicsRequestTopic()
	dt.Topic = kmsg.StringPtr(topic)
	del.Topics, del.TopicNames = append(del.Topics, dt), []string{topic}
	if _, err := r.admin.Request(r.t.Context(), del); err != nil {
		r.t.Fatal(err)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = topic, 1, 1
	create.Topics = append(create.Topics, ct)
	if _, err := r.admin.Request(r.t.Context(), create); err != nil {
		r.t.Fatal(err)
	}
}

// The answer is lost after the marker was written. Settling asks on a new
// connection; the next marker goes by that one.
func TestMarkersLostAnswer(t *testing.T) {
	for _, count := range []int{1, 7} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
			defer r.stop()
			p := r.target("a", 0)
			wantMarkers(t, r.mark(p, 0, count), MarkersDone, "")
			dials := r.dials["markers"]
			if count > 1 {
				dials = r.dials["bulks"]
			}
			before := dials.Load()
			r.loseMarkers.Store(true)
			wantMarkers(t, r.mark(p, 100, count), MarkersUnknown, state.Unreachable)
			if end := r.end(p); end != int64(2*count) {
				t.Errorf("log end %d", end)
			}
			if err := r.a.SettleMarkers(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if n := dials.Load() - before; n != 1 {
				t.Errorf("%d new connections", n)
			}
			wantMarkers(t, r.mark(p, 200, 1), MarkersDone, "")
			if p := r.a.desk.parts[p]; p != (markerPart{}) {
				t.Errorf("still remembered: %+v", p)
			}
		})
	}
}

// Settling fails while the leader does not answer.
func TestMarkersSettleUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		r.refuse.Store(true)
		var f *Fault
		if err := r.a.SettleMarkers(t.Context(), p); !errors.As(err, &f) || f.Op != opSettle || f.Reason != state.Unreachable {
			t.Errorf("settled: %v", err)
		}
		r.refuse.Store(false)
		if err := r.a.SettleMarkers(t.Context(), p); err != nil {
			t.Error(err)
		}
	})
}

// A broker that closed a connection while nothing was under way makes no doubt.
func TestMarkersAfterIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantMarkers(t, r.mark(p, 0, 1), MarkersDone, "")
		pass(2 * idFresh)
		r.loseMarkers.Store(true) // the next answer on the old connection is EOF
		wantMarkers(t, r.mark(p, 1, 1), MarkersDone, "")
		if end := r.end(p); end != 2 {
			t.Errorf("log end %d", end)
		}
	})
}

// Nothing was sent where there is no connection.
func TestMarkersCannotDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		r.refuse.Store(true)
		wantMarkers(t, r.mark(r.target("a", 0), 0, 1), MarkersNotSent, state.Unreachable)
	})
}

// When the right to write ends, the connection of what is under way is cut and
// the broker's work comes to nobody; what waits comes back.
func TestMarkersGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 3}})
		defer r.stop()
		h := r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		defer h.release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		under := r.begin(ctx, r.target("a", 0), 0, 1)
		h.wait(1)
		waits := r.begin(ctx, r.target("a", 1), 0, 1)
		stays := r.begin(t.Context(), r.target("a", 2), 0, 1)
		res := <-under
		wantMarkers(t, res, MarkersUnknown, state.Unreachable)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("after %v", took)
		}
		if res := <-waits; res.Outcome != MarkersNotSent || !errors.Is(res.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", res)
		}
		synctest.Wait()
		h.release()
		wantMarkers(t, <-stays, MarkersDone, "")
		if n := r.dials["markers"].Load(); n < 2 {
			t.Errorf("%d connections: the old one was not cut", n)
		}
	})
}

// Who shares a request that is given up is in doubt if it was sent, and tries
// again by itself if not.
func TestMarkersGivenUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 3}})
		defer r.stop()
		h := r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		first := r.begin(t.Context(), r.target("a", 0), 0, 1)
		h.wait(1)
		ctx, cancel := context.WithCancel(t.Context())
		one, other := r.begin(ctx, r.target("a", 1), 0, 1), r.begin(t.Context(), r.target("a", 2), 0, 1)
		synctest.Wait()
		h.release()
		wantMarkers(t, <-first, MarkersDone, "")
		wantMarkers(t, <-one, MarkersDone, "")
		wantMarkers(t, <-other, MarkersDone, "")

		h = r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		first = r.begin(t.Context(), r.target("a", 0), 1, 1)
		h.wait(1)
		one, other = r.begin(ctx, r.target("a", 1), 1, 1), r.begin(t.Context(), r.target("a", 2), 1, 1)
		synctest.Wait()
		again := r.holdMarkers(func(req *kmsg.WriteTxnMarkersRequest) bool { return len(req.Markers) == 2 })
		defer again.release()
		h.release()
		again.wait(1)
		cancel()
		wantMarkers(t, <-first, MarkersDone, "")
		wantMarkers(t, <-one, MarkersUnknown, state.Unreachable)
		wantMarkers(t, <-other, MarkersUnknown, state.Unreachable)
		if p := r.a.desk.parts[r.target("a", 2)]; p.doubts != 0 || !p.moved {
			t.Errorf("given up, and remembered as %+v", p)
		}

		// Given up while the connection is asked.
		pass(2 * idFresh)
		gate := make(chan struct{})
		asked := make(chan struct{}, 9)
		r.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			if id := req.(*kmsg.MetadataRequest); len(id.Topics) == 1 && r.cluster.CurrentNode() == 0 {
				asked <- struct{}{}
				r.cluster.SleepControl(func() { <-gate })
			}
			return nil, nil, false
		})
		ctx, cancel = context.WithCancel(t.Context())
		one = r.begin(ctx, r.target("a", 0), 2, 1)
		<-asked
		cancel()
		if res := <-one; res.Outcome != MarkersNotSent || !errors.Is(res.Err, context.Canceled) {
			t.Errorf("%+v", res)
		}
		close(gate)
		synctest.Wait()
		again.release()
	})
}

// A broker that never answers costs the deadline, and other brokers nothing.
func TestMarkersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2},
			edit: func(o *Options) { o.MarkerTimeout = 7 * time.Second }})
		defer r.stop()
		r.lead(map[int32]int32{0: 0, 1: 1})
		h := r.holdMarkers(func(req *kmsg.WriteTxnMarkersRequest) bool { return partitionsMarked(req)[0] == 0 })
		defer h.release()
		begun := time.Now()
		slow := r.begin(t.Context(), r.target("a", 0), 0, 1)
		h.wait(1)
		wantMarkers(t, r.mark(r.target("a", 1), 0, 1), MarkersDone, "")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the other broker's partition took %v", took)
		}
		wantMarkers(t, <-slow, MarkersUnknown, state.Unreachable)
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// lead moves partitions of topic a to brokers.
func (r *rig) lead(by map[int32]int32) {
	r.t.Helper()
	for p, b := range by {
		if err := r.cluster.MoveTopicPartition("a", p, b); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.leaders.Refresh(r.t.Context(), "a"); err != nil {
		r.t.Fatal(err)
	}
}

// The followers of one partition hang: the broker says so of that one, and its
// next markers keep no single markers of others waiting.
func TestMarkersIsolateSlowPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 4}})
		defer r.stop()
		const brokersPatience = 30 * time.Second
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			if !slices.Contains(partitionsMarked(req), 0) {
				return nil, nil, false
			}
			r.cluster.SleepControl(func() { pass(brokersPatience) })
			return answerMarkers(req, func(p int32) *kerr.Error {
				if p == 0 {
					return kerr.RequestTimedOut
				}
				return nil
			}), nil, true
		})
		slow := r.target("a", 0)
		wantMarkers(t, r.mark(slow, 0, 1), MarkersUnknown, state.NotEnoughReplicas)
		again := r.begin(t.Context(), slow, 1, 1)
		synctest.Wait()
		begun := time.Now()
		for i := range int32(20) {
			wantMarkers(t, r.mark(r.target("a", 1+i%3), i, 1), MarkersDone, "")
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("others waited %v", took)
		}
		wantMarkers(t, <-again, MarkersUnknown, state.NotEnoughReplicas)
	})
}

// What waits for a broker that lost the leadership goes to the new leader, and
// NOT_LEADER makes the next marker ask who leads.
func TestMarkersFollowTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2}})
		defer r.stop()
		r.lead(map[int32]int32{0: 0, 1: 0})
		h := r.holdMarkers(func(req *kmsg.WriteTxnMarkersRequest) bool { return partitionsMarked(req)[0] == 0 })
		first := r.begin(t.Context(), r.target("a", 0), 0, 1)
		h.wait(1)
		second := r.begin(t.Context(), r.target("a", 1), 0, 1)
		synctest.Wait()
		r.lead(map[int32]int32{1: 1})
		h.release()
		wantMarkers(t, <-first, MarkersDone, "")
		res := <-second
		wantMarkers(t, res, MarkersDone, "")
		if res.Leader.Broker != 1 {
			t.Errorf("went to %d", res.Leader.Broker)
		}

		if err := r.cluster.MoveTopicPartition("a", 1, 0); err != nil {
			t.Fatal(err)
		}
		wantMarkers(t, r.mark(r.target("a", 1), 1, 1), MarkersUnknown, state.NoLeader)
		res = r.mark(r.target("a", 1), 2, 1)
		wantMarkers(t, res, MarkersDone, "")
		if res.Leader.Broker != 0 {
			t.Errorf("went to %d", res.Leader.Broker)
		}
	})
}

// Markers that rely on a log end read in one leader epoch do not go to another:
// neither when the map knows of it at once nor when it learns while they wait.
func TestMarkersOfOneLeaderEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{brokers: 2, topics: map[string]int32{"a": 2}})
		defer r.stop()
		r.lead(map[int32]int32{0: 0, 1: 0})
		p, other := r.target("a", 0), r.target("a", 1)
		was, _ := r.leaders.Leader("a", 1)
		under := rising(other, 0, 1)
		under.LeaderEpoch = was.Epoch
		wantMarkers(t, r.a.WriteMarkers(t.Context(), other, under), MarkersDone, "")

		h := r.holdMarkers(func(req *kmsg.WriteTxnMarkersRequest) bool { return partitionsMarked(req)[0] == 0 })
		first := r.begin(t.Context(), p, 0, 1)
		h.wait(1)
		waits := make(chan MarkerResult, 1)
		go func() { waits <- r.a.WriteMarkers(t.Context(), other, under) }()
		synctest.Wait()
		r.lead(map[int32]int32{1: 1})
		h.release()
		wantMarkers(t, <-first, MarkersDone, "")
		for range 2 {
			res := <-waits
			wantMarkers(t, res, MarkersNotSent, "")
			if !errors.Is(res.Err, ErrLeaderEpoch) {
				t.Error(res.Err)
			}
			waits <- r.a.WriteMarkers(t.Context(), other, under)
		}
		under.LeaderEpoch++
		wantMarkers(t, r.a.WriteMarkers(t.Context(), other, under), MarkersDone, "")
	})
}

// A request whose bytes are made too late has no markers in it.
func TestMarkersTooLateWhenEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		jobs := []*markerJob{{markers: rising(Target{}, 0, 3)}, {markers: rising(Target{Partition: 1}, 0, 3), until: now.Add(time.Second)},
			{markers: rising(Target{Partition: 2}, 0, 3), until: now.Add(2 * time.Second)}}
		req := newMarkerRequest(jobs, time.Minute)
		for _, c := range []struct {
			at      time.Duration
			markers int
		}{{0, 9}, {time.Second - 1, 9}, {time.Second, 0}, {0, 0}} {
			pass(time.Until(now.Add(c.at)))
			raw := req.AppendTo([]byte("header"))
			got := kmsg.NewWriteTxnMarkersRequest()
			if err := got.ReadFrom(raw[len("header"):]); err != nil || len(got.Markers) != c.markers {
				t.Errorf("after %v: %d markers, %v", c.at, len(got.Markers), err)
			}
			if req.encoded.Load() == (c.markers == 0) || req.late.Load() != (c.markers == 0) {
				t.Errorf("after %v: encoded %v, late %v", c.at, req.encoded.Load(), req.late.Load())
			}
		}
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if res := <-r.begin(ctx, r.target("a", 0), 0, 1); res.Outcome != MarkersNotSent || !errors.Is(res.Err, context.Canceled) {
			t.Errorf("%+v", res)
		}
	})
}

func TestMarkersFitting(t *testing.T) {
	job := func(count, doubts int) *markerJob {
		return &markerJob{markers: rising(Target{}, 0, count), doubts: doubts}
	}
	settle := &markerJob{}
	many := slices.Repeat([]*markerJob{job(1, 0)}, MaxMarkers+5)
	for _, c := range []struct {
		name string
		jobs []*markerJob
		want int
	}{
		{"one", []*markerJob{job(MaxMarkers, 0)}, 1},
		{"two bulks", []*markerJob{job(MaxMarkers, 0), job(2, 0)}, 1},
		{"up to the limit", []*markerJob{job(MaxMarkers-2, 0), job(2, 0), job(1, 0)}, 2},
		{"singles", many, MaxMarkers},
		{"a question alone", []*markerJob{settle, job(1, 0)}, 1},
		{"a question waits its turn", []*markerJob{job(1, 0), job(1, 0), settle, job(1, 0)}, 2},
		{"after a doubt", slices.Repeat([]*markerJob{job(1, 1)}, 200), cutCompany / 2},
		{"after many", []*markerJob{job(1, 0), job(1, 16), job(1, 0)}, 1},
	} {
		if got := fitting(c.jobs); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
