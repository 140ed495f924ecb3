package appender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/linker/state"
)

// What is sent: version 1, COMMIT, one entry per marker, in order. Nothing is
// dialled before that.
func TestMarkersOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		var next int32
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			if req.Version != 1 {
				t.Errorf("version %d", req.Version)
			}
			for _, m := range req.Markers {
				if !m.Committed || m.ProducerID != testPID || m.ProducerEpoch != 0 || m.CoordinatorEpoch != next || len(m.Topics) != 1 || m.TransactionVersion != 0 {
					t.Fatalf("marker %+v, want coordinator epoch %d", m, next)
				}
				next++
			}
			return nil, nil, false
		})
		wantOutcome(t, r.append(p, 0, 3, 0), Appended, "")
		synctest.Wait()
		if n := r.dials["markers"].Load() + r.dials["bulks"].Load(); n != 0 {
			t.Errorf("%d connections for no markers", n)
		}
		wantMarkers(t, r.mark(p, 0, 1), MarkersDone, "")
		if n := r.dials["bulks"].Load(); n != 0 {
			t.Errorf("%d connections for no bulks", n)
		}
		res := r.mark(p, 1, MaxMarkers)
		wantMarkers(t, res, MarkersDone, "")
		if res.Leader.Broker != 0 || res.Leader.Epoch != 0 {
			t.Errorf("leader %+v", res.Leader)
		}
		// The data's sequences go on behind them.
		wantOutcome(t, r.append(p, 3, 2, 4+MaxMarkers), Appended, "")
		if end := r.end(p); next != MaxMarkers+1 || end != 6+MaxMarkers {
			t.Errorf("%d markers, log end %d", next, end)
		}
		if len(r.a.desk.parts) != 0 {
			t.Errorf("still remembered: %v", r.a.desk.parts)
		}
	})
}

func TestMarkersChecked(t *testing.T) {
	good := batch.Identity{ProducerID: 5}
	for _, c := range []struct {
		name string
		m    Markers
		ok   bool
	}{
		{"one", Markers{good, []int32{0}, AnyLeader}, true},
		{"rising with steps", Markers{good, []int32{1, 2, 9, 1<<31 - 1}, AnyLeader}, true},
		{"none", Markers{good, nil, AnyLeader}, false},
		{"equal", Markers{good, []int32{1, 1}, AnyLeader}, false},
		{"falling", Markers{good, []int32{2, 1}, AnyLeader}, false},
		{"negative", Markers{good, []int32{-1}, AnyLeader}, false},
		{"too many", rising(Target{}, 0, MaxMarkers+1), false},
		{"no producer", Markers{batch.Identity{ProducerID: -1}, []int32{0}, AnyLeader}, false},
		{"no state", Markers{batch.Identity{ProducerID: -2}, []int32{0}, AnyLeader}, false},
		{"no epoch", Markers{batch.Identity{ProducerID: 5, ProducerEpoch: -1}, []int32{0}, AnyLeader}, false},
	} {
		if err := c.m.check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadMarkers) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Single markers that wait travel together; so do bulks, up to MaxMarkers, in
// the order of their coming. Neither waits for the other kind.
func TestMarkersGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 10}})
		defer r.stop()
		var singles, bulks [][]int32
		gate := make(chan struct{})
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			ps := partitionsMarked(req)
			if len(req.Markers) == len(ps) {
				singles = append(singles, ps)
				return nil, nil, false
			}
			if bulks = append(bulks, ps); len(bulks) == 1 {
				r.cluster.SleepControl(func() { <-gate })
			}
			return nil, nil, false
		})
		var waiting []<-chan MarkerResult
		waiting = append(waiting, r.begin(t.Context(), r.target("a", 0), 0, MaxMarkers))
		synctest.Wait() // the bulk is under way
		for p, count := range []int{1: 1500, 2: 400, 3: 101, 4: 2, 5: 3} {
			if count > 0 {
				waiting = append(waiting, r.begin(t.Context(), r.target("a", int32(p)), 0, count))
				synctest.Wait()
			}
		}
		for p := int32(6); p < 10; p++ { // while the bulk is held
			wantMarkers(t, r.mark(r.target("a", p), 0, 1), MarkersDone, "")
		}
		close(gate)
		for _, w := range waiting {
			wantMarkers(t, <-w, MarkersDone, "")
		}
		if want := [][]int32{{0}, {1, 2}, {3, 4, 5}}; fmt.Sprint(bulks) != fmt.Sprint(want) {
			t.Errorf("bulks travelled as %v, want %v", bulks, want)
		}
		if len(singles) != 4 {
			t.Errorf("singles travelled as %v", singles)
		}

		h := r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		waiting = []<-chan MarkerResult{r.begin(t.Context(), r.target("a", 0), MaxMarkers, 1)}
		h.wait(1)
		var together []int32
		for p := int32(1); p < 9; p++ {
			waiting = append(waiting, r.begin(t.Context(), r.target("a", p), MaxMarkers, 1))
		}
		synctest.Wait()
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			together = append(together, int32(len(req.Markers)))
			return nil, nil, false
		})
		h.release()
		for _, w := range waiting {
			wantMarkers(t, <-w, MarkersDone, "")
		}
		if !slices.Equal(together, []int32{1, 8}) { // the one that was held passes here too
			t.Errorf("what waited travelled as %v", together)
		}
	})
}

// Each answer for a single marker, and for one of several.
func TestMarkersOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1, "b": 1}})
		defer r.stop()
		p := r.target("a", 0)
		var answer *kerr.Error
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			return answerMarkers(req, func(int32) *kerr.Error { return answer }), nil, true
		})
		for _, c := range []struct {
			err    *kerr.Error
			one    MarkerOutcome
			many   MarkerOutcome
			reason state.Reason
		}{
			{nil, MarkersDone, MarkersDone, ""},
			{kerr.TransactionCoordinatorFenced, MarkersCoordinatorFenced, MarkersCoordinatorFenced, ""},
			{kerr.InvalidProducerEpoch, MarkersProducerFenced, MarkersProducerFenced, state.Fenced},
			{kerr.NotEnoughReplicas, MarkersRefused, MarkersUnknown, state.NotEnoughReplicas},
			{kerr.NotEnoughReplicasAfterAppend, MarkersUnknown, MarkersUnknown, state.NotEnoughReplicas},
			{kerr.NotLeaderForPartition, MarkersUnknown, MarkersUnknown, state.NoLeader},
			{kerr.RequestTimedOut, MarkersUnknown, MarkersUnknown, state.NotEnoughReplicas},
			{kerr.UnknownTopicOrPartition, MarkersRefused, MarkersUnknown, state.TopicMissing},
			{kerr.UnknownServerError, MarkersUnknown, MarkersUnknown, state.TopicRefused},
			{kerr.ClusterAuthorizationFailed, MarkersRefused, MarkersRefused, state.NoPermission},
		} {
			answer = c.err
			wantMarkers(t, r.mark(p, 0, 1), c.one, c.reason)
			wantMarkers(t, r.mark(p, 0, 5), c.many, c.reason)
		}
		res := r.mark(p, 0, 1)
		if s := fmt.Sprint(res.Err); !strings.Contains(s, "missing right: Alter (or ClusterAction) on the cluster") {
			t.Errorf("right not named: %s", s)
		}
	})
}

// An answer that leaves the partition out says nothing.
func TestMarkersNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			return req.ResponseKind(), nil, true
		})
		res := r.mark(r.target("a", 0), 0, 1)
		wantMarkers(t, res, MarkersUnknown, state.Unreachable)
		if !errors.Is(res.Err, ErrNoAnswer) {
			t.Error(res.Err)
		}
	})
}

// A topic of the same name with another id gets no marker: by what the leader
// map knows, and by what the leader itself says where the map is old.
func TestMarkersTopicRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		wantMarkers(t, r.mark(p, 0, 1), MarkersDone, "")
		r.controlMarkers(func(*kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
			t.Error("sent")
			return nil, nil, false
		})
		other := Target{Topic: "a", ID: [16]byte{9}}
		res := r.mark(other, 0, 1)
		wantMarkers(t, res, MarkersNotSent, state.TargetRecreated)
		if !errors.Is(res.Err, ErrTopicID) {
			t.Error(res.Err)
		}

		r.recreate("a")
		pass(2 * idFresh)
		res = r.mark(p, 1, 1)
		wantMarkers(t, res, MarkersNotSent, state.TargetRecreated)
		if !errors.Is(res.Err, ErrTopicID) {
			t.Error(res.Err)
		}
		if err := r.a.SettleMarkers(t.Context(), p); !errors.Is(err, ErrTopicID) {
			t.Errorf("settled: %v", err)
		}
	})
}

func TestMarkersUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		r.cluster.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			for _, key := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.Produce} {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = int16(key), kmsg.RequestForKey(int16(key)).MaxVersion()
				k.MaxVersion = min(k.MaxVersion, 12)
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
			return resp, nil, true
		})
		res := r.mark(r.target("a", 0), 0, 1)
		wantMarkers(t, res, MarkersNotSent, state.Unfillable)
		if !errors.Is(res.Err, ErrUnsupported) {
			t.Error(res.Err)
		}
	})
}

func TestMarkersNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, edit: func(o *Options) { o.Markers = nil }})
		defer r.stop()
		p := r.target("a", 0)
		res := r.mark(p, 0, 1)
		wantMarkers(t, res, MarkersNotSent, "")
		if err := r.a.SettleMarkers(t.Context(), p); !errors.Is(err, ErrNoMarkerClients) || !errors.Is(res.Err, ErrNoMarkerClients) {
			t.Error(err, res.Err)
		}
	})
}

// A right that is missing is told, whoever checks it.
func TestMarkersForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		p := r.target("a", 0)
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.TopicAuthorizationFailed, Topic: "a"})
		wantMarkers(t, r.mark(p, 0, 1), MarkersNotSent, state.NoPermission)
	})
}

// A partition has one act under way.
func TestMarkersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}})
		defer r.stop()
		h := r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		first := r.begin(t.Context(), r.target("a", 0), 0, 1)
		h.wait(1)
		if res := r.mark(r.target("a", 0), 1, 1); res.Outcome != MarkersNotSent || !errors.Is(res.Err, ErrBusy) {
			t.Errorf("%+v", res)
		}
		h.release()
		wantMarkers(t, <-first, MarkersDone, "")
	})
}

// Stopping gives back what waits and cuts what is under way; afterwards there is
// nothing more.
func TestMarkersStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 2}})
		defer r.stop()
		h := r.holdMarkers(func(*kmsg.WriteTxnMarkersRequest) bool { return true })
		defer h.release()
		under := r.begin(context.Background(), r.target("a", 0), 0, 1)
		h.wait(1)
		waits := r.begin(context.Background(), r.target("a", 1), 0, 1)
		synctest.Wait()
		r.halt()
		wantMarkers(t, <-under, MarkersUnknown, state.Unreachable)
		if res := <-waits; res.Outcome != MarkersNotSent || !errors.Is(res.Err, ErrStopped) {
			t.Errorf("%+v", res)
		}
		if res := r.mark(r.target("a", 0), 1, 1); res.Outcome != MarkersNotSent || !errors.Is(res.Err, ErrStopped) {
			t.Errorf("%+v", res)
		}
		if err := r.a.SettleMarkers(t.Context(), r.target("a", 0)); !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
	})
}
