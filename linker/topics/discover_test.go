package topics

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

func TestDiscover(t *testing.T) {
	// AllowAutoTopicCreation: asking for a name must not make the topic (T1).
	c := newCluster(t, kfake.ClusterID("east"), kfake.AllowAutoTopicCreation())
	must(t, c.CreateTopic("orders", 3, map[string]string{"segment.ms": "5", "cleanup.policy": "compact"}))
	must(t, c.CreateTopic("audit.events", 1, nil))
	must(t, c.CreateTopic("audit-events", 1, nil))
	must(t, c.CreateTopic("__app_state", 1, nil))
	must(t, c.CreateTopic("__klink", 1, nil))
	must(t, c.CreateTopic("old.orders", 1, nil))
	m := matcher(t, Rules{Include: []string{"orders", "audit.events", "__*", "old.*", "later", "/x+/"}, Exclude: []string{"old.orders"},
		Rename: Rename{Prefix: "dr."}})
	writes := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics, kmsg.IncrementalAlterConfigs, kmsg.Produce}, Observe: true, Count: -1})

	d, err := Discover(testContext(t), newClient(t, c), m)
	must(t, err)
	if d.ClusterID != "east" {
		t.Errorf("cluster id %q", d.ClusterID)
	}
	var names []string
	for _, s := range d.Topics {
		names = append(names, s.Name)
		if s.Reason != "" || s.ConfigsErr != nil || s.Configs == nil || s.ID != c.TopicInfo(s.Name).TopicID || s.Replicas != 3 || s.Target != "dr."+s.Name {
			t.Errorf("%+v", s)
		}
		for p, l := range s.Leaders {
			if l.Broker != c.LeaderFor(s.Name, int32(p)) {
				t.Errorf("%s/%d is led by %+v", s.Name, p, l)
			}
		}
	}
	if d := cmp.Diff([]string{"__app_state", "audit.events", "orders"}, names); d != "" {
		t.Error(d)
	}
	orders := d.Topics[2]
	if len(orders.Leaders) != 3 || orders.Configs["segment.ms"] != (Setting{"5", true}) || orders.Configs["retention.ms"].Explicit {
		t.Errorf("%+v", orders)
	}
	if d := cmp.Diff([]Skipped{{"__klink", KlinksOwn}, {"old.orders", Excluded}}, d.Skipped); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Missing{{"later", state.TopicMissing, "the source has no topic of this name"}}, d.Missing); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"later", "/x+/"}, d.Unmatched); d != "" {
		t.Error(d)
	}
	if writes.Hits() != 0 || c.TopicInfo("later") != nil {
		t.Error("something was written to the source")
	}

	// C139: what comes later is found.
	must(t, c.CreateTopic("later", 2, nil))
	d, err = Discover(testContext(t), newClient(t, c), m)
	must(t, err)
	if len(d.Topics) != 4 || len(d.Missing) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestDiscoverWithFewRights(t *testing.T) {
	c, cl := guarded(t, append(allow("orders", opDescribe, opDescribeConfigs), allow("payments", opDescribe)...)...)
	for _, n := range []string{"orders", "payments", "secret"} {
		must(t, c.CreateTopic(n, 1, nil))
	}
	d, err := Discover(testContext(t), cl, matcher(t, Rules{Include: []string{"*", "secret"}}))
	must(t, err)
	if len(d.Topics) != 2 || d.Topics[0].Configs == nil {
		t.Fatalf("%+v", d.Topics)
	}
	var f *remote.Fault
	if p := d.Topics[1]; p.Configs != nil || !errors.As(p.ConfigsErr, &f) || f.Right != "DescribeConfigs on topic payments" {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff([]Missing{{"secret", state.NoPermission, "missing right: Describe on topic secret"}}, d.Missing); d != "" {
		t.Error(d)
	}
}

func TestDiscoverWithoutASource(t *testing.T) {
	c := newCluster(t)
	addrs := c.ListenAddrs()
	c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.DisableClientMetrics())
	must(t, err)
	defer cl.Close()
	_, err = Discover(testContext(t), cl, matcher(t, Rules{Include: []string{"*"}}))
	var f *remote.Fault
	if !errors.As(err, &f) || f.Reason != state.Unreachable {
		t.Errorf("got %v", err)
	}
}

// A source that answers everything but settings is mirrored all the same.
func TestDiscoverWhenSettingsCannotBeAsked(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.UnknownServerError, Count: -1})
	d, err := Discover(testContext(t), newClient(t, c), matcher(t, Rules{Include: []string{"*"}}))
	must(t, err)
	if len(d.Topics) != 1 || d.Topics[0].Configs != nil || d.Topics[0].ConfigsErr == nil {
		t.Errorf("%+v", d.Topics)
	}
}
