package topics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

// lag lets a broker tell of an old policy for its first answers, n of them; -1
// for all. It returns the number of the broker.
func lag(c *kfake.Cluster, broker int32, n int, old string) {
	c.ControlKey(int16(kmsg.DescribeConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() != broker || n == 0 {
			return nil, nil, false
		}
		n--
		req := r.(*kmsg.DescribeConfigsRequest)
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, asked := range req.Resources {
			a := kmsg.NewDescribeConfigsResponseResource()
			a.ResourceType, a.ResourceName = asked.ResourceType, asked.ResourceName
			kv := kmsg.NewDescribeConfigsResponseResourceConfig()
			kv.Name, kv.Value, kv.Source = keyCleanup, kmsg.StringPtr(old), kmsg.ConfigSourceDynamicTopicConfig
			a.Configs = append(a.Configs, kv)
			resp.Resources = append(resp.Resources, a)
		}
		return resp, nil, true
	})
}

func TestCleanupPolicyIsChangedAndPutBack(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("orders", 6, map[string]string{keyCleanup: "compact", "segment.ms": "5"}))
	target, ctx := NewTarget(newClient(t, c), controlTopic), testContext(t)
	for _, policy := range []string{"delete", "compact", "compact,delete"} {
		before, err := target.CleanupPolicy(ctx, "orders")
		must(t, err)
		lag(c, c.LeaderFor("orders", 4), 3, before)
		must(t, target.SetCleanupPolicy(ctx, "orders", policy))
		must(t, target.AwaitCleanupPolicy(ctx, "orders", policy))
		got, err := target.CleanupPolicy(ctx, "orders")
		if err != nil || got != policy {
			t.Fatalf("%q (%v), want %q", got, err, policy)
		}
	}
	must(t, target.AwaitCleanupPolicy(ctx, "orders", "delete,compact"))
	if got := config(c, "orders", "segment.ms"); got != "5" {
		t.Errorf("another setting is %q now", got)
	}
}

func TestAPolicyThatDoesNotComeIntoForce(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("orders", 3, map[string]string{keyCleanup: "compact"}))
	target := NewTarget(newClient(t, c), controlTopic)
	must(t, target.SetCleanupPolicy(testContext(t), "orders", "delete"))
	lag(c, c.LeaderFor("orders", 2), -1, "compact")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := target.AwaitCleanupPolicy(ctx, "orders", "delete")
	var f *remote.Fault
	if !errors.As(err, &f) || f.Reason != state.Unreachable || !strings.Contains(err.Error(), "topic orders") {
		t.Errorf("got %v", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if err := target.AwaitCleanupPolicy(stopped, "orders", "delete"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPoliciesThatCannotBeChanged(t *testing.T) {
	want := func(t *testing.T, err error, reason state.Reason, text string) {
		t.Helper()
		var f *remote.Fault
		if !errors.As(err, &f) || f.Reason != reason || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s with %q", err, reason, text)
		}
	}
	t.Run("rights", func(t *testing.T) {
		cluster, cl := guarded(t, allow("orders", opDescribe)...)
		must(t, cluster.CreateTopic("orders", 1, nil))
		target, ctx := NewTarget(cl, controlTopic), testContext(t)
		_, err := target.CleanupPolicy(ctx, "orders")
		want(t, err, state.NoPermission, "DescribeConfigs on topic orders")
		want(t, target.SetCleanupPolicy(ctx, "orders", "delete"), state.NoPermission, "AlterConfigs on topic orders")
		want(t, target.AwaitCleanupPolicy(ctx, "orders", "delete"), state.NoPermission, "DescribeConfigs on topic orders")
	})
	t.Run("no topic", func(t *testing.T) {
		target, ctx := NewTarget(newClient(t, newCluster(t)), controlTopic), testContext(t)
		_, err := target.CleanupPolicy(ctx, "orders")
		want(t, err, state.TopicMissing, "describe configs")
		want(t, target.SetCleanupPolicy(ctx, "orders", "delete"), state.TopicMissing, "orders")
	})
	t.Run("the cluster's policy forbids it", func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "orders"))
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, Err: kerr.PolicyViolation})
		want(t, NewTarget(newClient(t, c), controlTopic).SetCleanupPolicy(testContext(t), "orders", "delete"), state.TopicRefused, "cleanup.policy=delete on topic orders")
	})
	t.Run("no target", func(t *testing.T) {
		c := newCluster(t)
		cl := newClient(t, c, kgo.RequestRetries(0))
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		want(t, NewTarget(cl, controlTopic).AwaitCleanupPolicy(ctx, "orders", "delete"), state.Unreachable, "")
	})
}
