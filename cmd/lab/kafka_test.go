package lab_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/labtest"
	"klink/cmd/lab/proxy"
)

func client(t *testing.T, opts []kgo.Opt, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(slices.Clone(opts), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// await looks every few milliseconds whether something has become true.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func metadata(t *testing.T, c *kgo.Client) *kmsg.MetadataResponse {
	t.Helper()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(within(t, 20*time.Second), c)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestBothVersionsStartBehindTheirProxies(t *testing.T) {
	for _, version := range []string{install.Newest, install.Oldest} {
		k := labtest.StartKafka(t, lab.KafkaOptions{Version: version, Proxy: true})
		resp := metadata(t, client(t, k.ClientOpts()))
		if len(resp.Brokers) != 1 || resp.Brokers[0].Port == 0 || *resp.ClusterID != k.ClusterID() {
			t.Errorf("Kafka %s: metadata %+v, want one broker of cluster %s", version, resp, k.ClusterID())
		}
		if n := k.Broker(1).Proxy().Count(int16(kmsg.Metadata)); n == 0 {
			t.Errorf("Kafka %s: metadata did not go through the proxy", version)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARealBrokerTakesTheLoadAndKeepsWhatWasAnsweredOrNot(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{Proxy: true})
	labtest.CreateTopics(t, k, lab.TopicSpec{Name: "t", Partitions: 2, Configs: lab.KeepEverything()})
	report := labtest.Produce(t, k, lab.LoadOptions{Topics: []string{"t"}, Total: 10000, LargeEvery: 10, Idempotent: true})
	p := lab.Partition{Topic: "t"}
	before, err := lab.DigestPartition(within(t, time.Minute), k, p, lab.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if before.Records != report.Ends[p] {
		t.Errorf("%d records read, %d acknowledged", before.Records, report.Ends[p])
	}
	once := client(t, k.ClientOpts(), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, c := range []struct {
		action  proxy.Action
		written int64
	}{{proxy.CutBefore, 0}, {proxy.DropAnswer, 1}, {proxy.CutSent, 1}} {
		remove := k.Broker(1).Proxy().On(int16(kmsg.Produce), proxy.Once(c.action))
		if err := once.ProduceSync(within(t, 20*time.Second), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err == nil {
			t.Errorf("action %d: the producer got an answer", c.action)
		}
		remove()
		want := before.To + c.written
		await(t, "the log end", func() bool {
			bounds, err := lab.ReadBounds(t.Context(), k, lab.ReadUncommitted, "t")
			return err == nil && bounds[p].End == want
		})
		before.To = want
	}
}

func TestABrokerIsStoppedKilledFrozenAndStartedAgain(t *testing.T) {
	t.Parallel() // it mostly waits for sessions to end
	k := labtest.StartKafka(t, lab.KafkaOptions{})
	b := k.Broker(1)
	admin := client(t, k.AdminOpts())
	addr := b.Addr()
	if err := b.Start(t.Context()); !errors.Is(err, lab.ErrRunning) {
		t.Errorf("starting a running broker: %v, want ErrRunning", err)
	}
	if err := b.Restart(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	metadata(t, admin)
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	if b.Running() {
		t.Error("a killed broker is running")
	}
	if err := b.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if b.Addr() != addr {
		t.Errorf("the address moved from %s to %s", addr, b.Addr())
	}
	metadata(t, admin)
	if err := b.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Ping(within(t, 300*time.Millisecond)); err == nil {
		t.Error("a frozen broker answered")
	}
	if err := b.Thaw(); err != nil {
		t.Fatal(err)
	}
	metadata(t, admin)
}

func TestThreeBrokersOutliveOneKilled(t *testing.T) {
	t.Parallel() // it mostly waits for sessions to end
	k := labtest.StartKafka(t, lab.KafkaOptions{Brokers: 3})
	admin := client(t, k.AdminOpts())
	if n := len(metadata(t, admin).Brokers); n != 3 {
		t.Fatalf("%d brokers, want 3", n)
	}
	labtest.CreateTopics(t, k, lab.TopicSpec{Name: "t", Replicas: 3})
	p := lab.Partition{Topic: "t"}
	for _, to := range []int32{1, 2} {
		if err := lab.MoveLeader(within(t, 20*time.Second), k, p, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := lab.MoveLeader(within(t, 20*time.Second), k, p, 7); err == nil {
		t.Error("a broker that holds no replica became leader")
	}
	if err := k.Broker(2).Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the killed broker to leave the metadata", func() bool { return len(metadata(t, admin).Brokers) == 2 })
	await(t, "another leader", func() bool {
		leader, _, err := lab.Leader(t.Context(), k, p)
		return err == nil && leader >= 0 && leader != 2
	})
	if err := k.Broker(2).Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func TestLoginsOverSASLAndTLS(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{"bob"}})
	for _, mechanism := range []string{lab.Plain, lab.ScramSHA256, lab.ScramSHA512, lab.OAuthBearer} {
		right := client(t, k.LoginOpts(lab.Login{User: "bob", Mechanism: mechanism}))
		if err := right.Ping(within(t, 20*time.Second)); err != nil {
			t.Errorf("%s with the right password: %v", mechanism, err)
		}
		wrong := client(t, k.LoginOpts(lab.Login{User: "bob", Password: "guess", Mechanism: mechanism}), kgo.RequestRetries(0))
		if err := wrong.Ping(within(t, 20*time.Second)); !errors.Is(err, kerr.SaslAuthenticationFailed) && mechanism != lab.OAuthBearer || err == nil {
			t.Errorf("%s with a wrong password: %v, want SASL_AUTHENTICATION_FAILED", mechanism, err)
		}
	}
	requireAuthorized(t, k, lab.Login{}, true)
	requireAuthorized(t, k, lab.Login{User: "bob"}, false)
}

func TestClientCertificatesArePrincipals(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{Security: lab.MutualTLS, Users: []string{"bob"}, Proxy: true})
	requireAuthorized(t, k, lab.Login{}, true)
	requireAuthorized(t, k, lab.Login{User: "bob"}, false)
}

// requireAuthorized tries to make a topic.
func requireAuthorized(t *testing.T, k *lab.Kafka, l lab.Login, want bool) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(within(t, 20*time.Second), client(t, k.LoginOpts(l)))
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); (err == nil) != want {
		t.Errorf("%q creates a topic: %v, want allowed %t", l.User, err, want)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []lab.KafkaOptions{{Brokers: 2}, {Users: []string{"bob"}}, {Security: 9}, {Version: "newest"}} {
		if _, err := lab.StartKafka(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
