package groups

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a source and a target with the topic "orders", called dr.orders on the
// target, holding records on both.
type pair struct {
	t        testing.TB
	ctx      context.Context
	src, dst *kfake.Cluster
	srcCl    *kgo.Client
	dstCl    *kgo.Client
	srcAdm   *kadm.Client
	dstAdm   *kadm.Client
	now      time.Time
	copier   *Copier
}

func newPair(t testing.TB) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	p := &pair{t: t, ctx: ctx, now: time.Unix(1_700_000_000, 0)}
	cluster := func(topic string) (*kfake.Cluster, *kgo.Client) {
		c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(2, topic))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.RequestRetries(2),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return c, cl
	}
	p.src, p.srcCl = cluster("orders")
	p.dst, p.dstCl = cluster("dr.orders")
	p.srcAdm, p.dstAdm = kadm.NewClient(p.srcCl), kadm.NewClient(p.dstCl)
	p.copier = NewCopier(Options{Source: p.srcCl, Target: p.dstCl, Select: func(g string) bool { return g != "excluded" },
		TargetTopic: func(s string) (string, bool) { return "dr." + s, s == "orders" },
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return p.now }})
	return p
}

// fill writes n records to partition 0 of the target.
func (p *pair) fill(n int) {
	p.t.Helper()
	for range n {
		if err := p.dstCl.ProduceSync(p.ctx, &kgo.Record{Topic: "dr.orders", Value: []byte("v")}).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pair) commit(adm *kadm.Client, group, topic string, partition int32, at int64, metadata string) {
	p.t.Helper()
	os := make(kadm.Offsets)
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: 7, Metadata: metadata})
	if err := adm.CommitAllOffsets(p.ctx, group, os); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) sync() map[string]state.Group {
	p.t.Helper()
	if err := p.copier.Sync(p.ctx); err != nil {
		p.t.Fatal(err)
	}
	out := make(map[string]state.Group)
	for _, g := range p.copier.Report() {
		out[g.Group] = g
	}
	return out
}

// committed is a group's offset on partition 0 of the target, nil where none.
func (p *pair) committed(group string) *kadm.Offset {
	p.t.Helper()
	os, err := p.dstAdm.FetchOffsets(p.ctx, group)
	if err != nil {
		return nil
	}
	if o, ok := os.Lookup("dr.orders", 0); ok && o.At >= 0 {
		return &o.Offset
	}
	return nil
}

func (p *pair) want(group string, at int64) {
	p.t.Helper()
	if o := p.committed(group); o == nil || o.At != at {
		p.t.Errorf("group %q is at %+v on the target, want %d", group, o, at)
	}
}

func TestCopyVerbatim(t *testing.T) {
	p := newPair(t)
	p.fill(5)
	// C023: names are opaque.
	for i, g := range []string{"g", "größe #1:@/ü", "a b", "a%20b", "G"} {
		p.commit(p.srcAdm, g, "orders", 0, int64(i), "metä\x00data")
	}
	p.commit(p.srcAdm, "excluded", "orders", 0, 3, "")
	got := p.sync()
	for i, g := range []string{"g", "größe #1:@/ü", "a b", "a%20b", "G"} {
		p.want(g, int64(i))
		if o := p.committed(g); o != nil && (o.Metadata != "metä\x00data" || o.LeaderEpoch != -1) {
			t.Errorf("%q: %+v", g, o)
		}
		if got[g].State != StateSynced {
			t.Errorf("%+v", got[g])
		}
	}
	if p.committed("excluded") != nil || len(got) != 5 {
		t.Errorf("%d groups reported", len(got))
	}
	// Nothing changed: nothing is written.
	commits := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
	p.sync()
	if commits.Hits() != 0 {
		t.Errorf("%d commits for nothing", commits.Hits())
	}
}

func TestCopyIsClampedAndRaised(t *testing.T) {
	p := newPair(t)
	p.fill(3)
	p.commit(p.srcAdm, "g", "orders", 0, 8, "")
	p.commit(p.srcAdm, "g", "orders", 1, 4, "")
	got := p.sync()["g"]
	p.want("g", 3)
	if got.State != StateSyncing || got.Partitions[0].Reason != "CLAMPED" || *got.Partitions[0].SourceOffset != 8 || *got.Partitions[0].TargetOffset != 3 || got.Partitions[0].AgeSeconds != nil {
		t.Errorf("%+v", got)
	}
	p.fill(10)
	got = p.sync()["g"]
	p.want("g", 8)
	if got.Partitions[0].Reason != "" || *got.Partitions[0].AgeSeconds != 0 {
		t.Errorf("%+v", got.Partitions[0])
	}
	p.commit(p.srcAdm, "g", "orders", 0, 2, "") // a rewind is followed
	p.now = p.now.Add(90 * time.Second)
	p.sync()
	p.want("g", 2)
}

func TestTargetOwnedIsLeftAlone(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 5, "")
	p.commit(p.dstAdm, "g", "dr.orders", 0, 7, "")
	if got := p.sync()["g"].Partitions[0]; got.Reason != "TARGET_OWNED" || *got.TargetOffset != 7 {
		t.Errorf("%+v", got)
	}
	p.want("g", 7)

	// Somebody worked on the target after klink had written.
	p.commit(p.srcAdm, "h", "orders", 0, 5, "")
	p.sync()
	p.commit(p.dstAdm, "h", "dr.orders", 0, 8, "")
	p.commit(p.srcAdm, "h", "orders", 0, 6, "")
	p.sync()
	p.want("h", 8)
}

// C010: with members, or when the target does not tell, nothing is written.
func TestGroupsWithMembersAreLeftAlone(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 5, "")
	p.sync()
	p.want("g", 5)

	member, err := kgo.NewClient(kgo.SeedBrokers(p.dst.ListenAddrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("dr.orders"),
		kgo.DisableAutoCommit(), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	if _, err := p.dst.WaitGroupStable(p.ctx, "g", 1); err != nil {
		t.Fatal(err)
	}
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	if got := p.sync()["g"]; got.State != StateWaiting || got.Reason != "GROUP_ACTIVE" || got.Partitions[0].Reason != "GROUP_ACTIVE" {
		t.Errorf("%+v", got)
	}
	p.want("g", 5)
	member.Close()

	// Empty again, but one coordinator does not answer the list.
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Nodes: []int32{p.dst.CoordinatorFor("g")}, Err: kerr.UnknownServerError, Count: 1})
	if got := p.sync()["g"]; got.Reason != "GROUP_UNKNOWN" {
		t.Errorf("%+v", got)
	}
	p.want("g", 5)
	p.sync()
	p.want("g", 6)
}

// U3, C022.
func TestOnePartitionsTroubleIsItsOwn(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 5, strings.Repeat("x", 3000))
	p.commit(p.srcAdm, "g", "orders", 1, 0, "short")
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "dr.orders", Partitions: []int32{0}, Err: kerr.OffsetMetadataTooLarge,
		Count: -1, When: func(r kmsg.Request) bool {
			for _, t := range r.(*kmsg.OffsetCommitRequest).Topics {
				for _, p := range t.Partitions {
					if p.Metadata != nil && len(*p.Metadata) > 1000 {
						return true
					}
				}
			}
			return false
		}})
	got := p.sync()["g"]
	p.want("g", 5)
	if o := p.committed("g"); o != nil && o.Metadata != "" {
		t.Errorf("%+v", o)
	}
	reasons := []string{got.Partitions[0].Reason, got.Partitions[1].Reason}
	if d := cmp.Diff([]string{"METADATA_DROPPED", ""}, reasons); d != "" {
		t.Error(d)
	}
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: 1})
	p.commit(p.srcAdm, "h", "orders", 0, 2, "")
	groups := p.sync()
	if groups["h"].State != StateSynced {
		t.Errorf("%+v", groups["h"])
	}
	p.want("h", 2)
}

// U4: a commit whose answer was an error may stand; it is not a stranger's.
func TestCommitWithoutAnswer(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 1})
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	if got := p.sync()["g"].Partitions[0]; got.Reason != "FAILED" {
		t.Errorf("%+v", got)
	}
	p.commit(p.srcAdm, "g", "orders", 0, 8, "")
	p.sync()
	p.want("g", 8)
}

func TestMirrorNotThereYet(t *testing.T) {
	p := newPair(t)
	if err := p.dst.DeleteTopic("dr.orders"); err != nil {
		t.Fatal(err)
	}
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	if got := p.sync()["g"]; got.State != StateSyncing || got.Partitions[0].Reason != "TARGET_UNKNOWN" || got.Partitions[0].TargetOffset != nil {
		t.Errorf("%+v", got)
	}
}

func TestRunRetriesAndEndsWithItsContext(t *testing.T) {
	p := newPair(t)
	p.fill(3)
	p.commit(p.srcAdm, "g", "orders", 0, 2, "")
	first := p.src.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.UnknownServerError, Count: 2})
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() { done <- p.copier.Run(ctx, time.Millisecond) }()
	if err := first.Wait(p.ctx, 2); err != nil {
		t.Error(err)
	}
	for p.committed("g") == nil {
		if p.ctx.Err() != nil {
			t.Fatal("not synced")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.want("g", 2)
}

func TestManyGroups(t *testing.T) {
	p := newPair(t)
	p.fill(3)
	for i := range 100 {
		p.commit(p.srcAdm, fmt.Sprintf("g%d", i), "orders", 0, int64(i%4), "")
	}
	for g, s := range p.sync() {
		if s.State != StateSynced {
			t.Errorf("%s: %+v", g, s)
		}
	}
	p.want("g99", 3)
}
