package topics

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

const controlTopic = "__klink"

func plan(name string, partitions int, configs Settings) Plan {
	return Plan{Source: SourceTopic{Name: name, Target: name, Leaders: make([]leaders.Leader, partitions), Replicas: 2, Configs: configs},
		Target: name, Partitions: int32(partitions), Replicas: 2}
}

func ensure(t testing.TB, cl *kgo.Client, plans ...Plan) []Outcome {
	t.Helper()
	out, err := NewTarget(cl, controlTopic).Ensure(testContext(t), plans)
	must(t, err)
	return out
}

func usable(t testing.TB, outcomes []Outcome) {
	t.Helper()
	for _, o := range outcomes {
		if o.Reason != "" {
			t.Errorf("%s: %s: %s", o.TargetTopic, o.Reason, o.Detail)
		}
	}
}

func config(c *kfake.Cluster, topic, key string) string {
	if v := c.TopicInfo(topic).Configs[key]; v != nil {
		return *v
	}
	return ""
}

func partitions(c *kfake.Cluster, topic string) int { return len(c.PartitionInfos(topic)) }

func TestEnsureCreatesWithFinalSettings(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, controlTopic))
	cl := newClient(t, c)
	creates := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Observe: true, Count: -1})
	alters := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, Observe: true, Count: -1})
	p1 := plan("orders", 3, explicit(keyCleanup, "compact", "segment.ms", "5", keyRetainMs, "1000", "remote.storage.enable", "true", keyMaxMessage, "2000000"))
	p1.Target = "dr.orders"
	p2 := plan("payments", 1, Settings{})
	p2.Replicas = 3
	out := ensure(t, cl, p1, p2)
	usable(t, out)
	if o := out[0]; !o.Created || o.Partitions != 3 || o.ID != c.TopicInfo("dr.orders").TopicID || o.SourceTopic != "orders" || o.TargetTopic != "dr.orders" {
		t.Errorf("%+v", o)
	}
	for k, want := range map[string]string{keyCleanup: "compact", "segment.ms": "5", keyRetainMs: "-1", keyRetainSize: "-1",
		keyCompress: "producer", keyTimestamps: "CreateTime", keyMaxMessage: "2000000", "remote.storage.enable": ""} {
		if got := config(c, "dr.orders", k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	if d := cmp.Diff([]Dropped{{"remote.storage.enable", "true", whyTiered}}, out[0].Dropped); d != "" {
		t.Error(d)
	}
	if c.TopicInfo("dr.orders").NumReplicas != 2 || c.TopicInfo("payments").NumReplicas != 3 || partitions(c, "dr.orders") != 3 {
		t.Errorf("%+v", c.TopicInfo("dr.orders"))
	}
	if creates.Hits() != 1 {
		t.Errorf("%d requests for two topics", creates.Hits())
	}

	// Again: nothing to do.
	out = ensure(t, cl, p1, p2)
	usable(t, out)
	if o := out[0]; o.Created || o.Grown || len(o.Changed) > 0 || o.ID != c.TopicInfo("dr.orders").TopicID {
		t.Errorf("%+v", o)
	}
	if creates.Hits() != 1 || alters.Hits() != 0 {
		t.Error("the second time wrote something")
	}
}

func TestEnsurePassesOverRefusedPlans(t *testing.T) {
	c := newCluster(t)
	bad := plan("bad", 1, Settings{})
	bad.Reason, bad.Detail = state.TopicRefused, "two to one"
	out := ensure(t, newClient(t, c), bad, plan("good", 1, Settings{}))
	if out[0].Reason != state.TopicRefused || out[0].Detail != "two to one" || out[1].Reason != "" || c.TopicInfo("bad") != nil {
		t.Errorf("%+v", out)
	}
}

func TestEnsureTopicsWithoutSourceSettings(t *testing.T) {
	c := newCluster(t)
	out := ensure(t, newClient(t, c), plan("orders", 1, nil))
	usable(t, out)
	if len(out[0].Warnings) != 1 || !strings.Contains(out[0].Warnings[0], "DescribeConfigs") || config(c, "orders", keyCompress) != "producer" {
		t.Errorf("%+v", out[0])
	}
}

// C105, C112: one topic's refusal is its own.
func TestEnsureReasonsPerTopic(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("a.b", 1, nil))
	many := plan("many", 1, Settings{})
	many.Replicas = 5
	out := ensure(t, newClient(t, c), many, plan("a_b", 1, Settings{}), plan("good", 1, Settings{}))
	if o := out[0]; o.Reason != state.TooFewBrokers || !strings.Contains(o.Detail, "5 replicas") || c.TopicInfo("many") != nil {
		t.Errorf("%+v", o)
	}
	if o := out[1]; o.Reason != state.TopicRefused || o.Detail == "" {
		t.Errorf("%+v", o)
	}
	usable(t, out[2:])

	// The brokers come: it is made with what was asked for.
	for range 2 {
		if _, _, err := c.AddNode(-1, 0); err != nil {
			t.Fatal(err)
		}
	}
	usable(t, ensure(t, newClient(t, c), many))
	if got := c.TopicInfo("many").NumReplicas; got != 5 {
		t.Errorf("%d replicas", got)
	}
}

func TestEnsureLeavesOutWhatTheTargetRefuses(t *testing.T) {
	source := explicit("segment.bytes", "1000", "segment.ms", "5", "flush.ms", "9")
	for name, c := range map[string]struct {
		err     *kerr.Error
		message string
		refused []string
		left    []string
		reason  state.Reason
	}{
		"unknown key":             {kerr.InvalidConfig, "Unknown topic config name: segment.bytes", []string{"segment.bytes"}, []string{"segment.bytes"}, ""},
		"bad value":               {kerr.InvalidConfig, "Invalid value 5 for configuration segment.ms: Value must be at least 60000", []string{"segment.ms"}, []string{"segment.ms"}, ""},
		"names none":              {kerr.PolicyViolation, "no", []string{"flush.ms"}, []string{"flush.ms", keyAfter, keyBefore, "segment.bytes", "segment.ms"}, ""},
		"vital":                   {kerr.PolicyViolation, "retention.ms must be at most 604800000", []string{keyRetainMs}, nil, state.TopicRefused},
		"names none, all refused": {kerr.PolicyViolation, "no", []string{keyCompress}, []string{"flush.ms", keyAfter, keyBefore, "segment.bytes", "segment.ms"}, state.TopicRefused},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			refuseConfig(cluster, c.err, c.message, c.refused...)
			o := ensure(t, newClient(t, cluster), plan("orders", 1, source))[0]
			var left []string
			for _, d := range o.Dropped {
				left = append(left, d.Key)
				if !strings.Contains(d.Why, c.message) {
					t.Errorf("%+v", d)
				}
			}
			if d := cmp.Diff(c.left, left); d != "" {
				t.Error(d)
			}
			if o.Reason != c.reason || c.reason != "" && !strings.Contains(o.Detail, c.message) || (o.Reason == "") != o.Created {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("an override is never left out", func(t *testing.T) {
		cluster := newCluster(t)
		refuseConfig(cluster, kerr.InvalidConfig, "Unknown topic config name: confluent.x", "confluent.x")
		p := plan("orders", 1, Settings{})
		p.Overrides = map[string]string{"confluent.x": "1"}
		if o := ensure(t, newClient(t, cluster), p)[0]; o.Reason != state.TopicRefused || !strings.Contains(o.Detail, "confluent.x") {
			t.Errorf("%+v", o)
		}
	})
}

// C104, C106.
func TestEnsurePartitionCounts(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c)
	must(t, c.CreateTopic("few", 1, nil))
	must(t, c.CreateTopic("many", 100, nil))
	out := ensure(t, cl, plan("few", 12, Settings{}), plan("many", 60, Settings{}))
	if o := out[0]; o.Reason != "" || !o.Grown || o.Partitions != 12 || partitions(c, "few") != 12 {
		t.Errorf("%+v", o)
	}
	if o := out[1]; o.Reason != state.TopicRefused || !strings.Contains(o.Detail, "100") || !strings.Contains(o.Detail, "60") || partitions(c, "many") != 100 {
		t.Errorf("%+v", o)
	}
	out = ensure(t, cl, plan("few", 24, Settings{}))
	if !out[0].Grown || partitions(c, "few") != 24 {
		t.Errorf("%+v", out[0])
	}
}

func TestEnsureRaces(t *testing.T) {
	t.Run("created meanwhile", func(t *testing.T) {
		c := newCluster(t)
		created := false
		c.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			if !created {
				created = true
				if err := c.CreateTopic("orders", 2, map[string]string{keyCompress: "zstd"}); err != nil {
					t.Error(err)
				}
			}
			return nil, nil, false
		})
		o := ensure(t, newClient(t, c), plan("orders", 3, Settings{}))[0]
		if o.Reason != "" || o.Created || !o.Grown || o.Partitions != 3 || config(c, "orders", keyCompress) != "producer" || o.ID != c.TopicInfo("orders").TopicID {
			t.Errorf("%+v", o)
		}
	})
	t.Run("created meanwhile, and not known to all brokers", func(t *testing.T) {
		c := newCluster(t)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAlreadyExists})
		cl := newClient(t, c)
		if o := ensure(t, cl, plan("orders", 3, Settings{}))[0]; o.Reason != state.TopicMissing || o.Detail == "" {
			t.Errorf("%+v", o)
		}
		usable(t, ensure(t, cl, plan("orders", 3, Settings{})))
	})
	t.Run("answer says timeout, and it was created", func(t *testing.T) {
		c := newCluster(t)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.RequestTimedOut})
		cl := newClient(t, c)
		if o := ensure(t, cl, plan("orders", 3, Settings{}))[0]; o.Reason != state.Unreachable {
			t.Errorf("%+v", o)
		}
		if o := ensure(t, cl, plan("orders", 3, Settings{}))[0]; o.Reason != "" || o.Partitions != 3 {
			t.Errorf("%+v", o)
		}
	})
}

// C121: only what is forced changes.
func TestEnsureCorrectsForcedSettingsOnly(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("orders", 1, map[string]string{keyCompress: "zstd", keyRetainMs: "1000", keyInsync: "2",
		"follower.replication.throttled.replicas": "*", "segment.ms": "77"}))
	o := ensure(t, newClient(t, c), plan("orders", 1, explicit("segment.ms", "5", keyInsync, "1")))[0]
	if o.Reason != "" {
		t.Fatalf("%+v", o)
	}
	want := []Correction{{keyCompress, "zstd", "producer", true}, {keyRetainMs, "1000", "-1", false}}
	if d := cmp.Diff(want, o.Changed); d != "" {
		t.Error(d)
	}
	for k, v := range map[string]string{keyCompress: "producer", keyRetainMs: "-1", keyInsync: "2", "follower.replication.throttled.replicas": "*", "segment.ms": "77"} {
		if got := config(c, "orders", k); got != v {
			t.Errorf("%s is %q, want %q", k, got, v)
		}
	}
}

// A target's cleaner must not remove what the source keeps (G1).
func TestEnsureRefusesACleanerThatTheSourceHasNot(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("orders", 1, map[string]string{keyCleanup: "compact"}))
	cl := newClient(t, c)
	for source, want := range map[string]state.Reason{"delete": state.TopicRefused, "compact": "", "compact,delete": "", "": ""} {
		src := explicit(keyCleanup, source)
		if source == "" {
			src = nil // not to be seen
		}
		o := ensure(t, cl, plan("orders", 1, src))[0]
		if o.Reason != want || want != "" && !strings.Contains(o.Detail, "cleanup.policy=delete") {
			t.Errorf("source with %q: %+v", source, o)
		}
	}
}

// C126: with the least rights, and a missing one named exactly.
func TestEnsureRights(t *testing.T) {
	for name, c := range map[string]struct {
		acls     []kfake.ACL
		existing map[string]string // configs of the prepared topic, nil where there is none
		reason   state.Reason
		right    string
		warnings int
	}{
		"create":               {allow("orders", opCreate, opDescribe), nil, "", "", 0},
		"no create":            {allow("orders", opDescribe), nil, state.NoPermission, "Create on topic orders", 0},
		"prepared by hand":     {allow("orders", opDescribe, opDescribeConfigs), map[string]string{keyRetainMs: "-1"}, "", "", 0},
		"nothing":              {nil, map[string]string{}, state.NoPermission, "Describe on topic orders", 0},
		"settings not visible": {allow("orders", opDescribe), map[string]string{keyCompress: "zstd"}, "", "", 1},
		"harmless difference":  {allow("orders", opDescribe, opDescribeConfigs), map[string]string{keyRetainMs: "1000"}, "", "", 1},
		"codec differs":        {allow("orders", opDescribe, opDescribeConfigs), map[string]string{keyCompress: "zstd"}, state.NoPermission, "AlterConfigs on topic orders", 0},
		"messages do not fit":  {allow("orders", opDescribe, opDescribeConfigs), map[string]string{keyRetainMs: "-1", keyMaxMessage: "1000"}, "", "", 1},
		"may alter":            {allow("orders", opDescribe, opAlterConfigs, opDescribeConfigs), map[string]string{keyCompress: "zstd"}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cl := guarded(t, c.acls...)
			if c.existing != nil {
				must(t, cluster.CreateTopic("orders", 1, c.existing))
			}
			o := ensure(t, cl, plan("orders", 1, explicit(keyMaxMessage, "2000")))[0]
			if o.Reason != c.reason || !strings.Contains(o.Detail, c.right) || len(o.Warnings) != c.warnings {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("no alter", func(t *testing.T) {
		cluster, cl := guarded(t, allow("orders", opDescribe, opDescribeConfigs, opAlterConfigs)...)
		must(t, cluster.CreateTopic("orders", 1, nil))
		o := ensure(t, cl, plan("orders", 2, Settings{}))[0]
		if o.Reason != state.NoPermission || !strings.Contains(o.Detail, "Alter on topic orders") || o.Partitions != 1 {
			t.Errorf("%+v", o)
		}
	})
}

func TestEnsureWithoutATarget(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c, kgo.RequestRetries(0))
	c.Close()
	_, err := NewTarget(cl, controlTopic).Ensure(testContext(t), []Plan{plan("orders", 1, nil)})
	var f *remote.Fault
	if !errors.As(err, &f) || f.Reason != state.Unreachable {
		t.Errorf("got %v", err)
	}
}

func TestRequestsStayBelowTheControllersLimit(t *testing.T) {
	var ws []*work
	for i, n := range []int{1, 1999, 1, 5000, 1, 1} {
		ws = append(ws, &work{plan: plan(fmt.Sprint(i), n, nil)})
	}
	var got [][]int
	for _, chunk := range chunks(ws) {
		var sizes []int
		for _, w := range chunk {
			sizes = append(sizes, int(w.plan.Partitions))
		}
		got = append(got, sizes)
	}
	if d := cmp.Diff([][]int{{1, 1999}, {1}, {5000}, {1, 1}}, got); d != "" {
		t.Error(d)
	}
	if chunks(nil) != nil {
		t.Error("a request for nothing")
	}
}
