package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"klink/linker/state"
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
		kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// opened is a running store.
type opened struct {
	*Store
	stop func() error // ends Run and gives its result
}

func open(t testing.TB, cl *kgo.Client) opened {
	t.Helper()
	s, err := Open(testContext(t), Options{Client: cl, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		err := <-ended
		s.Close()
		return err
	})
	t.Cleanup(func() { _ = stop() })
	return opened{s, stop}
}

// eventually waits for a condition that another store's write brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func topicRecord(link, topic, target string) TopicRecord {
	return TopicRecord{Link: link, SourceTopic: topic, SourceID: seqID(0), TargetTopic: target, TargetID: seqID(16), Partitions: 3}
}

func TestOpenMakesTheTopicAndReadsItAgain(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	if !s.Created() {
		t.Error("made, and not said so")
	}
	info := c.TopicInfo(TopicName)
	if info == nil || c.PartitionInfo(TopicName, 0) == nil || c.PartitionInfo(TopicName, 1) != nil || info.NumReplicas != 3 {
		t.Fatalf("%+v", info)
	}
	for k, want := range map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "2"} {
		if got := info.Configs[k]; got == nil || *got != want {
			t.Errorf("%s is %v, want %s", k, got, want)
		}
	}
	must(t, s.PutLink(ctx, wantLink))
	must(t, s.PutLinkState(ctx, wantLinkState))
	must(t, s.PutTopic(ctx, wantOrders))
	must(t, s.PutEpoch(ctx, EpochRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 3, Epoch: Epoch{5, 77}}))
	must(t, s.PutState(ctx, wantState()))

	check := func(name string, s interface {
		Topics(string) []TopicRecord
		Epochs(string, string, int32) []Epoch
		States(string) []StateRecord
		Report() state.Report
	}) {
		t.Helper()
		if d := cmp.Diff([]TopicRecord{wantOrders}, s.Topics("east-west")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff([]Epoch{{5, 77}}, s.Epochs("east-west", "orders", 3)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff([]StateRecord{wantState()}, s.States("east-west")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		rep := s.Report()
		if age := time.Since(rep.AsOf); age < 0 || age > time.Minute || len(rep.Links) != 1 || rep.Links[0].State != state.SourceUnavailable {
			t.Errorf("%s: report %+v", name, rep)
		}
	}
	check("same store", s)
	must(t, s.stop())

	again := open(t, newClient(t, c))
	if again.Created() {
		t.Error("was there, and is said to be made")
	}
	check("opened again", again)

	writes := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce, kmsg.CreateTopics, kmsg.InitProducerID, kmsg.IncrementalAlterConfigs}, Observe: true, Count: -1})
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	check("read", v)
	if writes.Hits() != 0 {
		t.Errorf("Read wrote %d times", writes.Hits())
	}
}

func TestSettingsOfTheTopic(t *testing.T) {
	for name, c := range map[string]struct {
		brokers        int
		wanted         int16
		replicas       int
		insync, policy string
	}{
		"one broker":    {1, 0, 1, "1", ""},
		"two brokers":   {2, 0, 2, "1", ""},
		"five brokers":  {5, 0, 3, "2", ""},
		"given":         {5, 4, 4, "2", ""},
		"strict policy": {1, 0, 1, "", "segment.bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t, kfake.NumBrokers(c.brokers))
			if c.policy != "" {
				refuseConfig(cl, c.policy)
			}
			s, err := Open(testContext(t), Options{Client: newClient(t, cl), ReplicationFactor: c.wanted, Logger: quiet()})
			must(t, err)
			defer s.Close()
			info := cl.TopicInfo(TopicName)
			if info.NumReplicas != c.replicas || *info.Configs["cleanup.policy"] != "compact" {
				t.Errorf("%+v", info)
			}
			if got := info.Configs["min.insync.replicas"]; c.insync != "" && *got != c.insync {
				t.Errorf("min.insync.replicas is %s", *got)
			}
		})
	}
}

// refuseConfig makes creations that carry a key fail as a create.topic.policy
// on a broker would.
func refuseConfig(c *kfake.Cluster, key string) {
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.PolicyViolation, Count: -1, When: func(r kmsg.Request) bool {
		for _, t := range r.(*kmsg.CreateTopicsRequest).Topics {
			for _, c := range t.Configs {
				if c.Name == key {
					return true
				}
			}
		}
		return false
	}})
}

func TestPreparedTopic(t *testing.T) {
	for name, c := range map[string]struct {
		partitions int32
		policy     string
		want       state.Reason
	}{
		"as it should be":     {1, "compact", ""},
		"policy is corrected": {1, "delete", ""},
		"deletes beside":      {1, "compact,delete", ""},
		"too many partitions": {3, "compact", state.ControlUnwritable},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t)
			must(t, cl.CreateTopic(TopicName, c.partitions, map[string]string{"cleanup.policy": c.policy}))
			s, err := Open(testContext(t), Options{Client: newClient(t, cl), Logger: quiet()})
			var f *Fault
			if errors.As(err, &f) {
				if f.Reason != c.want {
					t.Fatal(err)
				}
				return
			}
			must(t, err)
			defer s.Close()
			if got := *cl.TopicInfo(TopicName).Configs["cleanup.policy"]; got != "compact" || c.want != "" {
				t.Errorf("opened with policy %s", got)
			}
		})
	}
}

func TestTwoStoresSeeEachOther(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	a, b := open(t, newClient(t, c)), open(t, newClient(t, c))
	must(t, a.PutLink(ctx, LinkRecord{Link: "l", Mode: "mirror"}))
	eventually(t, "link", func() bool { _, ok := b.Link("l"); return ok })

	// Last in the log wins, in both.
	must(t, b.PutLink(ctx, LinkRecord{Link: "l", Mode: "checkpoint"}))
	if r, _ := b.Link("l"); r.Mode != "checkpoint" {
		t.Error("b does not see its own write")
	}
	eventually(t, "mode", func() bool { r, _ := a.Link("l"); return r.Mode == "checkpoint" })
}

func TestOneOfManyGetsATargetTopic(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	const stores, targets = 3, 50
	var mu sync.Mutex
	winners := make(map[string][]string)
	var wg sync.WaitGroup
	for i := range stores {
		s, link := open(t, newClient(t, c)), fmt.Sprintf("link-%d", i)
		for n := range targets {
			wg.Go(func() {
				target := fmt.Sprintf("t%d", n)
				err := s.PutTopic(ctx, topicRecord(link, "src-"+target, target))
				if err != nil && !errors.Is(err, ErrOwned) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					winners[target] = append(winners[target], link)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	for n := range targets {
		target := fmt.Sprintf("t%d", n)
		owner, ok := v.TopicOwner(target)
		if !ok || len(winners[target]) != 1 || winners[target][0] != owner.Link {
			t.Errorf("%s: winners %v, the log says %q", target, winners[target], owner.Link)
		}
	}
	if got := len(v.Topics("link-0")) + len(v.Topics("link-1")) + len(v.Topics("link-2")); got != targets {
		t.Errorf("%d records for %d targets: losers leave nothing", got, targets)
	}
}

func TestOwnedTopicIsRefusedByName(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	must(t, s.PutTopic(ctx, topicRecord("a", "orders", "orders")))
	must(t, s.PutTopic(ctx, topicRecord("b", "orders", "b.orders")))
	grown := topicRecord("a", "orders", "orders")
	grown.Partitions = 6
	must(t, s.PutTopic(ctx, grown)) // the owner may write again

	err := s.PutTopic(ctx, topicRecord("b", "orders", "orders"))
	var owned *OwnedError
	if !errors.Is(err, ErrOwned) || !errors.As(err, &owned) || owned.Link != "a" || owned.SourceTopic != "orders" {
		t.Fatalf("got %v", err)
	}
	if r, _ := s.Topic("b", "orders"); r.TargetTopic != "b.orders" {
		t.Errorf("the loser's record is %+v", r)
	}
	must(t, s.stop())
	again := open(t, newClient(t, c))
	if owner, _ := again.TopicOwner("orders"); owner != "a" {
		t.Errorf("owner %q after a restart", owner)
	}
	if r, _ := again.Topic("a", "orders"); r.Partitions != 6 {
		t.Errorf("%+v", r)
	}
}

func TestAThousandWritersAtOnceAreQuick(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	must(t, s.PutTopic(ctx, topicRecord("l", "t", "t")))
	produces := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	begun := time.Now()
	var wg sync.WaitGroup
	for p := range int32(1000) {
		wg.Go(func() {
			if err := s.PutEpoch(ctx, EpochRecord{Link: "l", Topic: "t", SourceID: seqID(0), Partition: p, Epoch: Epoch{1, int64(p)}}); err != nil {
				t.Error(err)
			}
			if got := s.Epochs("l", "t", p); len(got) != 1 || got[0].First != int64(p) {
				t.Errorf("own write is not seen: %v", got)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if n := produces.Hits(); n > 100 {
		t.Errorf("%d requests for 1000 records", n)
	}
	// The same facts again cost nothing.
	before := produces.Hits()
	for p := range int32(1000) {
		must(t, s.PutEpoch(ctx, EpochRecord{Link: "l", Topic: "t", SourceID: seqID(0), Partition: p, Epoch: Epoch{1, int64(p)}}))
	}
	if got := produces.Hits(); got != before {
		t.Errorf("%d requests for what is on record", got-before)
	}
}

// C2: an answer that says "maybe" is followed by writing again.
func TestUnknownOutcomeAndRepeat(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c, kgo.RecordRetries(0)))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend})
	rec := LinkRecord{Link: "l", Mode: "mirror"}
	if err := s.PutLink(ctx, rec); err != nil {
		var f *Fault
		if !errors.As(err, &f) || f.Reason != state.NotEnoughReplicas {
			t.Fatal(err)
		}
		must(t, s.PutLink(ctx, rec))
	}
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	if got, ok := v.Link("l"); !ok || got.Mode != "mirror" {
		t.Errorf("%+v", got)
	}
}

func TestNewerRecordStopsTheStore(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	other := newClient(t, c)
	err := other.ProduceSync(ctx, &kgo.Record{Topic: TopicName, Key: []byte(`{"kind":"later","link":"l"}`), Value: []byte(`{"version":9}`)}).FirstErr()
	must(t, err)
	eventually(t, "refusal", func() bool { return errors.Is(s.PutLink(ctx, LinkRecord{Link: "l"}), ErrNewer) })
	if err := s.stop(); !errors.Is(err, ErrNewer) {
		t.Errorf("Run ended with %v", err)
	}
	if _, err := Open(ctx, Options{Client: newClient(t, c), Logger: quiet()}); !errors.Is(err, ErrNewer) {
		t.Errorf("Open: %v", err)
	}
	if _, err := Read(ctx, newClient(t, c)); !errors.Is(err, ErrNewer) {
		t.Errorf("Read: %v", err)
	}
}

func TestMalformedRecordsAreCountedNotFatal(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	must(t, s.PutLink(ctx, wantLink))
	must(t, newClient(t, c).ProduceSync(ctx,
		&kgo.Record{Topic: TopicName, Key: []byte("garbage"), Value: []byte("garbage")},
		&kgo.Record{Topic: TopicName, Value: []byte("no key")}).FirstErr())
	eventually(t, "count", func() bool { return s.Problems().Malformed == 2 })
	must(t, s.PutLinkState(ctx, wantLinkState))
	if _, ok := s.Link("east-west"); !ok {
		t.Error("a good record is gone")
	}
}

// C5: deleted while running, and made anew by somebody else.
func TestDeletedTopicIsNoticedAndNotMadeAgain(t *testing.T) {
	for name, recreate := range map[string]bool{"deleted": false, "made anew": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			ctx := testContext(t)
			s := open(t, newClient(t, c))
			must(t, s.PutLink(ctx, wantLink))
			must(t, c.DeleteTopic(TopicName))
			if recreate {
				must(t, c.CreateTopic(TopicName, 1, map[string]string{"cleanup.policy": "compact"}))
			}
			// A write that is under way when the loss is noticed ends with it.
			if err := s.PutLinkState(ctx, wantLinkState); err == nil {
				t.Error("a write was acknowledged")
			}
			eventually(t, "loss", func() bool { return errors.Is(s.PutLink(ctx, wantLink), ErrLost) })
			if err := s.stop(); !errors.Is(err, ErrLost) {
				t.Errorf("Run ended with %v", err)
			}
			if recreate != (c.TopicInfo(TopicName) != nil) {
				t.Error("the store made the topic")
			}
			if recreate && c.PartitionInfo(TopicName, 0).HighWatermark != 0 {
				t.Error("the store wrote to the other topic")
			}
		})
	}
}

// A log whose start is above 0 is read from there, and one that is cut while
// it is followed is read anew.
func TestLogThatDoesNotBeginAtZero(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	first := open(t, newClient(t, c))
	must(t, first.PutLink(ctx, LinkRecord{Link: "old"}))
	must(t, first.PutLink(ctx, LinkRecord{Link: "new"}))
	must(t, first.stop())
	must(t, c.DeleteRecords(TopicName, 0, 1))
	s := open(t, newClient(t, c))
	if _, ok := s.Link("new"); !ok {
		t.Error("the retained record is not read")
	}
	if _, ok := s.Link("old"); ok {
		t.Error("a deleted record is read")
	}
}

func TestUnreachableClusterIsRetried(t *testing.T) {
	c := newCluster(t)
	s := open(t, newClient(t, c))
	ctx := testContext(t)
	must(t, s.PutLink(ctx, wantLink))
	drop := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: 3})
	must(t, drop.Wait(ctx, 3))
	must(t, newClient(t, c).ProduceSync(ctx, &kgo.Record{Topic: TopicName, Key: []byte(`{"kind":"link","link":"late"}`),
		Value: []byte(`{"version":1}`)}).FirstErr())
	eventually(t, "record after the outage", func() bool { _, ok := s.Link("late"); return ok })
}

func TestMissingTopicIsNamedByRead(t *testing.T) {
	_, err := Read(testContext(t), newClient(t, newCluster(t)))
	var f *Fault
	if !errors.As(err, &f) || f.Reason != state.TopicMissing {
		t.Fatalf("got %v", err)
	}
}

func TestRights(t *testing.T) {
	on := func(ops ...kmsg.ACLOperation) (out []kfake.ACL) {
		for _, op := range ops {
			out = append(out, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: TopicName,
				Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
		}
		return out
	}
	const (
		describe = kmsg.ACLOperationDescribe
		read     = kmsg.ACLOperationRead
		write    = kmsg.ACLOperationWrite
		create   = kmsg.ACLOperationCreate
	)
	for name, c := range map[string]struct {
		exists    bool
		acls      []kfake.ACL
		open, put string // the right named by Open, by the first Put
	}{
		"all":                          {false, on(create, read, write), "", ""},
		"may not create what is there": {true, on(read, write), "", ""},
		"may not create":               {false, on(read, write), "Create on topic __klink", ""},
		"may not read":                 {true, on(describe, write), "Read on topic __klink", ""},
		"may not write anything":       {true, on(read), "Write on topic __klink", ""},
		"may write elsewhere":          {true, append(on(read), kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "orders", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: write, Allow: true}), "", "Write on topic __klink"},
		"nothing":                      {true, nil, "Describe on topic __klink", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(),
				kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "klink", "secret", c.acls...))
			if c.exists {
				must(t, cluster.CreateTopic(TopicName, 1, map[string]string{"cleanup.policy": "compact"}))
			}
			cl := newClient(t, cluster, kgo.SASL(plain.Auth{User: "klink", Pass: "secret"}.AsMechanism()))
			s, err := Open(testContext(t), Options{Client: cl, Logger: quiet()})
			wantRight(t, "Open", err, c.open)
			if err != nil {
				return
			}
			defer s.Close()
			wantRight(t, "Put", s.PutLink(testContext(t), wantLink), c.put)
		})
	}
}

// A right that is granted later is enough: a producer that was refused its id
// once would never ask again.
func TestRightToWriteGrantedLater(t *testing.T) {
	grant := func(op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: TopicName, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	cluster := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("PLAIN", "klink", "secret", grant(kmsg.ACLOperationRead)))
	must(t, cluster.CreateTopic(TopicName, 1, map[string]string{"cleanup.policy": "compact"}))
	cl := newClient(t, cluster, kgo.SASL(plain.Auth{User: "klink", Pass: "secret"}.AsMechanism()))
	_, err := Open(testContext(t), Options{Client: cl, Logger: quiet()})
	wantRight(t, "Open", err, "Write on topic __klink")

	root := kadm.NewClient(newClient(t, cluster, kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism())))
	_, err = root.CreateACLs(testContext(t), kadm.NewACLs().Topics(TopicName).ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpWrite).Allow("User:klink").AllowHosts("*"))
	must(t, err)
	s, err := Open(testContext(t), Options{Client: cl, Logger: quiet()})
	must(t, err)
	defer s.Close()
	must(t, s.PutLink(testContext(t), wantLink))
}

func wantRight(t testing.TB, what string, err error, right string) {
	t.Helper()
	var f *Fault
	switch {
	case right == "" && err != nil:
		t.Fatalf("%s: %v", what, err)
	case right == "":
	case !errors.As(err, &f) || f.Reason != state.NoPermission || f.Right != right || !strings.Contains(err.Error(), right):
		t.Errorf("%s: got %v, want the right %q", what, err, right)
	}
}

func TestPutEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	s := open(t, newClient(t, c))
	must(t, s.PutLink(testContext(t), wantLink))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := s.PutLink(ctx, wantLink)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkPutEpoch(b *testing.B) {
	c := newCluster(b)
	s := open(b, newClient(b, c))
	n := int64(0)
	var mu sync.Mutex
	b.SetParallelism(500)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			i := n
			mu.Unlock()
			if err := s.PutEpoch(context.Background(), EpochRecord{Link: "l", Topic: "t", Epoch: Epoch{int32(i), i}}); err != nil {
				b.Error(err)
			}
		}
	})
}
