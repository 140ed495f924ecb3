package survey

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/appender"
)

// short keeps measuring out of the way.
const short = 5 * time.Millisecond

func (c *cluster) options() Options {
	return Options{Admin: c.admin, Target: c.a, Reader: c.read, MeasureFor: short}
}

// scratchTopics lists what probes have left.
func (c *cluster) scratchTopics(t testing.TB) []string {
	t.Helper()
	left, err := leftovers(t.Context(), c.admin, "")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func (r ProbeResult) finding(f Fact) Finding {
	i := slices.IndexFunc(r.Facts, func(x Finding) bool { return x.Fact == f })
	return r.Facts[i]
}

// The embedded cluster takes markers and checks neither coordinator epochs nor
// the epochs that markers raise: gaps and fences would not be safe there. It
// lists no producers outside of transactions.
func TestProbe(t *testing.T) {
	c := startCluster(t, kfake.SeedTopics(1, ScratchPrefix+"dead", "orders"))
	r, err := Probe(t.Context(), c.options())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Facts {
		want := Yes
		switch f.Fact {
		case MarkersOrdered, FenceHolds, ProducersListed:
			want = No
		case AppendTimeCleared:
			continue // for information, and no concern of a double
		}
		if f.Holds != want {
			t.Errorf("%s: %s, %s", f.Fact, f.Holds, f.Detail)
		}
	}
	if r.Verdict != Limited || r.Summary != "mirror mode works, without gaps, fences, guarded restarts" || len(r.MissingRights) != 0 || r.Trouble != "" {
		t.Errorf("%+v", r.Judgement)
	}
	if r.ClusterID == "" || r.Brokers != 1 || r.Replicas != 1 || r.BrokerVersion == "" || time.Since(r.AsOf) > time.Minute {
		t.Errorf("%+v", r)
	}
	for name, rate := range map[string]*float64{"append": r.Rates.AppendBytes, "markers": r.Rates.Markers, "bulk": r.Rates.MarkersBulk, "pads": r.Rates.PadOffsets} {
		if rate == nil || *rate <= 0 {
			t.Errorf("rate of %s: %v", name, rate)
		}
	}
	if !r.TopicRemoved || r.NotRemoved != "" || !strings.HasPrefix(r.Topic, ScratchPrefix) {
		t.Errorf("%+v", r)
	}
	if left := c.scratchTopics(t); !slices.Equal(left, []string{ScratchPrefix + "dead"}) || !slices.Equal(left, r.Leftovers) {
		t.Errorf("left %q, reported %q", left, r.Leftovers)
	}
}

// refuse answers every request of a kind with an error.
func (c *cluster) refuse(key kmsg.Key, answer func(kmsg.Request) kmsg.Response) {
	c.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return answer(req), nil, true
	})
}

func refuseMarkers(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.(*kmsg.WriteTxnMarkersRequest).Markers {
		x := kmsg.NewWriteTxnMarkersResponseMarker()
		for _, t := range m.Topics {
			y := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			y.Topic = t.Topic
			for _, n := range t.Partitions {
				z := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				z.Partition, z.ErrorCode = n, kerr.ClusterAuthorizationFailed.Code
				y.Partitions = append(y.Partitions, z)
			}
			x.Topics = append(x.Topics, y)
		}
		resp.Markers = append(resp.Markers, x)
	}
	return resp
}

func TestProbeWithoutMarkers(t *testing.T) {
	c := startCluster(t)
	c.refuse(kmsg.WriteTxnMarkers, refuseMarkers)
	r, err := Probe(t.Context(), c.options())
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Limited || r.Summary != "mirror mode works, without gaps, fences, guarded restarts" || !slices.Equal(r.MissingRights, []string{markersRight}) {
		t.Errorf("%+v", r.Judgement)
	}
	if f := r.finding(MarkersAllowed); f.Holds != No || f.MissingRight != markersRight {
		t.Errorf("%+v", f)
	}
	if f := r.finding(FenceHolds); f.Holds != Unknown || f.Detail != "not tried without markers_allowed" {
		t.Errorf("%+v", f)
	}
	if r.Rates.Markers != nil || r.Rates.PadOffsets == nil {
		t.Errorf("%+v", r.Rates)
	}
	if !r.TopicRemoved || len(c.scratchTopics(t)) != 0 {
		t.Error("the scratch topic is left behind")
	}
}

// target lets a test stand between a probe and the appender.
type target struct {
	Target
	append func(b []byte, expect int64, pass func() appender.Result) appender.Result
}

func (x target) Append(ctx context.Context, t appender.Target, b []byte, expect int64) appender.Result {
	return x.append(b, expect, func() appender.Result { return x.Target.Append(ctx, t, b, expect) })
}

// A target that takes every sequence is no target for mirror mode.
func TestProbeWithoutSequences(t *testing.T) {
	c := startCluster(t)
	o := c.options()
	o.Target = target{c.a, func(_ []byte, expect int64, pass func() appender.Result) appender.Result {
		if r := pass(); r.Outcome != appender.OutOfOrder {
			return r
		}
		return appender.Result{Outcome: appender.Appended, Base: expect}
	}}
	r, err := Probe(t.Context(), o)
	if err != nil || r.Verdict != None || r.finding(SequenceChecked).Holds != No || r.finding(SequenceChecked).Detail != "the batch was appended" {
		t.Errorf("%v: %+v, %+v", err, r.Judgement, r.finding(SequenceChecked))
	}
}

// The scratch topic goes with the probe, whenever it is stopped (S1).
func TestProbeStopped(t *testing.T) {
	for stopAt := range 10 {
		c := startCluster(t)
		ctx, stop := context.WithCancel(t.Context())
		appends := 0
		o := c.options()
		o.Target = target{c.a, func(_ []byte, _ int64, pass func() appender.Result) appender.Result {
			if appends++; appends > stopAt {
				stop()
			}
			return pass()
		}}
		r, err := Probe(ctx, o)
		stop()
		if !errors.Is(err, context.Canceled) || !r.TopicRemoved || len(c.scratchTopics(t)) != 0 {
			t.Errorf("stopped at append %d: %v, removed: %v %s", stopAt, err, r.TopicRemoved, r.NotRemoved)
		}
	}
}

func TestProbeMayNotCreate(t *testing.T) {
	c := startCluster(t)
	c.refuse(kmsg.CreateTopics, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		x := kmsg.NewCreateTopicsResponseTopic()
		x.Topic, x.ErrorCode = req.(*kmsg.CreateTopicsRequest).Topics[0].Topic, kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, x)
		return resp
	})
	r, err := Probe(t.Context(), c.options())
	if err != nil || r.Verdict != Undecided || !slices.Equal(r.MissingRights, []string{"Create on topic __klink-probe-*"}) || r.Trouble == "" || !r.TopicRemoved {
		t.Errorf("%v: %+v", err, r)
	}
	if len(r.Facts) != len(facts) || r.Limits == nil {
		t.Errorf("%+v", r)
	}
}

func TestProbeMayNotDelete(t *testing.T) {
	c := startCluster(t)
	c.refuse(kmsg.DeleteTopics, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
		x := kmsg.NewDeleteTopicsResponseTopic()
		x.Topic, x.ErrorCode = req.(*kmsg.DeleteTopicsRequest).Topics[0].Topic, kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, x)
		return resp
	})
	r, err := Probe(t.Context(), c.options())
	if err != nil || r.Verdict != Limited || r.TopicRemoved || !strings.Contains(r.NotRemoved, "Delete on topic __klink-probe-*") {
		t.Errorf("%v: %+v", err, r)
	}
}

// A fact whose answer may be another one in a moment is open, not refuted (S2).
func TestFail(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		holds Answer
		right string
	}{
		"a leader moves":  {kerr.NotLeaderForPartition, Unknown, ""},
		"no answer":       {context.DeadlineExceeded, Unknown, ""},
		"not understood":  {kerr.UnsupportedVersion, No, ""},
		"a missing right": {kerr.TopicAuthorizationFailed, No, "Read"},
		"an appender's missing right": {&appender.Fault{Right: "Write", Reason: "NO_PERMISSION", Err: kerr.TopicAuthorizationFailed},
			No, "Write on topic __klink-probe-*"},
		"not served": {&appender.Fault{Err: appender.ErrUnsupported}, No, ""},
	} {
		p := &prober{}
		p.fail(PadsTaken, "Read", c.err)
		if f := p.found[0]; f.Holds != c.holds || f.MissingRight != c.right {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
