package topics

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t testing.TB, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(),
		kgo.RequestRetries(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// guarded returns a cluster with an authorizer and a client of a principal that
// has the given rights and no others.
func guarded(t testing.TB, acls ...kfake.ACL) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("PLAIN", "klink", "secret", acls...))
	return c, newClient(t, c, kgo.SASL(plain.Auth{User: "klink", Pass: "secret"}.AsMechanism()))
}

func allow(topic string, ops ...kmsg.ACLOperation) []kfake.ACL {
	var out []kfake.ACL
	for _, op := range ops {
		out = append(out, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic,
			Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
	}
	return out
}

const (
	opDescribe        = kmsg.ACLOperationDescribe
	opDescribeConfigs = kmsg.ACLOperationDescribeConfigs
	opAlterConfigs    = kmsg.ACLOperationAlterConfigs
	opAlter           = kmsg.ACLOperationAlter
	opCreate          = kmsg.ACLOperationCreate
)

// refuseConfig answers creations that carry a config as a broker does that does
// not know it, or whose policy forbids it. kfake itself takes any.
func refuseConfig(c *kfake.Cluster, e *kerr.Error, message string, keys ...string) {
	c.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := false
		for _, t := range req.Topics {
			a := kmsg.NewCreateTopicsResponseTopic()
			a.Topic = t.Topic
			for _, cfg := range t.Configs {
				for _, k := range keys {
					if cfg.Name == k {
						a.ErrorCode, a.ErrorMessage, refused = e.Code, kmsg.StringPtr(message), true
					}
				}
			}
			resp.Topics = append(resp.Topics, a)
		}
		return resp, nil, refused
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func matcher(t testing.TB, r Rules) *Matcher {
	t.Helper()
	m, err := NewMatcher(r)
	must(t, err)
	return m
}
