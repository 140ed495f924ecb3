package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
	"klink/linker/survey"
)

// planned is what klink plan says of a topic.
func (k running) planned(t testing.TB, topic string) survey.TopicPlan {
	t.Helper()
	got := k.ask(t, "plan", topic)
	var r survey.PlanResult
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || len(r.Topics) != 1 {
		t.Fatalf("%v: %+v", err, got)
	}
	return r.Topics[0]
}

// mustRefuseAlike checks that klink plan says beforehand what klink run then says.
func (k running) mustRefuseAlike(t testing.TB, before survey.TopicPlan) {
	t.Helper()
	var r state.Report
	got := k.ask(t, "status", before.SourceTopic)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	is := r.Links[0].Topics[0]
	if want := is.Reason + ": " + is.Detail + " (" + is.Hint + ")"; before.Verdict != survey.Refuse || len(before.Reasons) != 1 || before.Reasons[0] != want {
		t.Errorf("planned: %s %q\nrun: %q", before.Verdict, before.Reasons, want)
	}
}

func TestPlanSaysWhatRunRefusesOfAnotherMode(t *testing.T) {
	for _, c := range []struct {
		was, is string
		state   state.State
	}{
		{"mode: checkpoint", "mode: mirror", state.TargetUnavailable}, // under another name
		{"mode: mirror", "mode: checkpoint\n    checkpoint: {replication_policy: identity}", state.Halted},
	} {
		src, dst := pairOfClusters(t)
		k := mirrorWith(t, src, dst, "    "+c.was+"\n")
		k.await(t, "orders", state.Active)
		k.stop()
		k.change(t, c.was, c.is)
		before := k.planned(t, "orders")
		k = mirrorFile(t, k.file)
		k.await(t, "orders", c.state)
		k.mustRefuseAlike(t, before)
		k.stop()
	}
}

func TestPlanSaysWhatRunRefusesOfALoop(t *testing.T) {
	src, dst := pairOfClusters(t)
	there := mirrorBoth(t, src, dst)
	there.await(t, "orders", state.Active)
	back := running{file: writeLink(t, dst, src, "")}
	before := back.planned(t, "orders")
	back = mirrorFile(t, back.file)
	back.await(t, "orders", state.TargetUnavailable)
	back.mustRefuseAlike(t, before)
	back.stop()
	there.stop()
}

// A source that does not show its record is told of, and hinders nothing.
func TestPlanWhereTheSourcesRecordCannotBeRead(t *testing.T) {
	src := cluster(t, kfake.NumBrokers(1), kfake.ClusterID("SRC"), kfake.SeedTopics(1, "orders", "payments", "__klink"))
	dst := cluster(t, kfake.NumBrokers(1), kfake.ClusterID("DST"))
	src.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		src.KeepControl()
		asked := req.(*kmsg.FetchRequest)
		if len(asked.Topics) != 1 || asked.Topics[0].TopicID != src.TopicInfo("__klink").TopicID {
			return nil, nil, false
		}
		resp := asked.ResponseKind().(*kmsg.FetchResponse)
		x, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode = kerr.TopicAuthorizationFailed.Code
		x.TopicID, x.Partitions = asked.Topics[0].TopicID, append(x.Partitions, p)
		resp.Topics = append(resp.Topics, x)
		return resp, nil, true
	})
	k := running{file: writeLink(t, src, dst, "")}
	got := k.ask(t, "plan")
	var r survey.PlanResult
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || len(r.Topics) != 2 || r.Topics[0].Verdict != survey.Raw || !strings.Contains(strings.Join(r.Notes, "\n"), "cannot be seen") {
		t.Errorf("%v: %+v", err, got)
	}
}
