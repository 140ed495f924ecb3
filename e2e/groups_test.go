package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/groups"
	"klink/linker/state"
)

// groupInterval is how often the link of these tests polls: too seldom for
// anything that is awaited for groupSoon.
const (
	groupInterval = 2 * time.Minute
	groupSoon     = 45 * time.Second
)

// groupRig is a link that carries all groups, over two clusters, of which the
// target is reached through a proxy.
type groupRig struct {
	pair
	t        testing.TB // of the whole test: klink outlives its parts
	file     string
	src, dst *kadm.Client
	k        *klink
}

// TestG6_GroupOffsets: commits reach the target by way of the source's
// __consumer_offsets, as they are, and only where nobody works on the target.
func TestG6_GroupOffsets(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Proxy: true})
	r := &groupRig{pair: p, t: t, src: admin(t, p.src), dst: admin(t, p.dst)}
	for _, topic := range []string{"orders", "many"} {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: groupPartitions})
		produce(t, p.src, fixed(1, 400*groupPartitions, topic))
	}
	link := openLink("carried", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "orders", "many")
	link["groups"] = object{"include": []string{"*"}, "exclude": []string{"excluded"}, "interval": groupInterval.String()}
	r.file = configFile(t, link)
	// A group that worked before klink came is carried by the first poll.
	r.commit(t, r.src, "early", kadm.Offset{Topic: "orders", Partition: 0, At: 5})
	r.run(t)
	r.want(t, "early", kadm.Offset{Topic: "orders", Partition: 0, At: 5})

	t.Run("latency", func(t *testing.T) { testGroupLatency(t, r) })
	t.Run("as they are", func(t *testing.T) { testGroupsAsTheyAre(t, r) })
	t.Run("KIP-848", func(t *testing.T) { testConsumerProtocolGroup(t, r) })
	t.Run("transactions", func(t *testing.T) {
		testGroupTransactions(t, r, beforeKIP890)
		testGroupTransactions(t, r, sinceKIP890)
	})
	t.Run("deleted", func(t *testing.T) { testGroupDeleted(t, r) })
	t.Run("clamped and raised", func(t *testing.T) { testGroupClamped(t, r) })
	t.Run("the target's own", func(t *testing.T) { testGroupOwned(t, r) })
	t.Run("restarts", func(t *testing.T) { testGroupRestarts(t, r) })
	t.Run("after a failover", func(t *testing.T) { testGroupAfterFailover(t, r) })
}

func (r *groupRig) run(t testing.TB) {
	t.Helper()
	r.k = startKlink(r.t, "-c", r.file)
	r.k.await(t, "both topics mirrored", func(l state.Link) bool {
		return topicOf(l, "orders").State == state.Active && topicOf(l, "many").State == state.Active
	})
}

// commit is an administrator's commit. It says a leader epoch, as members do.
func (r *groupRig) commit(t testing.TB, adm *kadm.Client, group string, offsets ...kadm.Offset) {
	t.Helper()
	all := make(kadm.Offsets)
	for _, o := range offsets {
		o.LeaderEpoch = 0
		all.Add(o)
	}
	if err := adm.CommitAllOffsets(within(t, patience), group, all); err != nil {
		t.Fatalf("commit of %s: %v", group, err)
	}
}

// committed is what the target has; false for no offset.
func (r *groupRig) committed(t testing.TB, group, topic string, partition int32) (kadm.Offset, bool) {
	t.Helper()
	all, err := r.dst.FetchOffsets(within(t, patience), group)
	if err != nil {
		t.Fatalf("offsets of %s: %v", group, err)
	}
	o, ok := all.Lookup(topic, partition)
	if !ok || o.Err != nil || o.At < 0 {
		return kadm.Offset{}, false
	}
	return o.Offset, true
}

// want waits for a commit on the target, much less than until the next poll.
func (r *groupRig) want(t testing.TB, group string, want kadm.Offset) {
	t.Helper()
	r.wantWithin(t, groupSoon, group, want)
}

func (r *groupRig) wantWithin(t testing.TB, d time.Duration, group string, want kadm.Offset) {
	t.Helper()
	eventually(t, d, fmt.Sprintf("%s at %d of %s/%d on the target", group, want.At, want.Topic, want.Partition), func() bool {
		got, ok := r.committed(t, group, want.Topic, want.Partition)
		return ok && got.At == want.At
	})
	got, _ := r.committed(t, group, want.Topic, want.Partition)
	if got.Metadata != want.Metadata || got.LeaderEpoch != -1 {
		t.Errorf("%s has %+v on the target, want %+v without a leader epoch", group, got, want)
	}
}

// wantNone requires that nothing has come, after a later commit of the same group
// has; that one follows it in the log.
func (r *groupRig) wantNone(t testing.TB, group, topic string, partition int32) {
	t.Helper()
	if got, ok := r.committed(t, group, topic, partition); ok {
		t.Errorf("%s has %+v of %s/%d on the target, want nothing", group, got, topic, partition)
	}
}

// awaitGroup waits until a group's partition is shown as wanted.
func (r *groupRig) awaitGroup(t testing.TB, group, topic string, partition int32, reason groups.Verdict) {
	t.Helper()
	r.k.await(t, fmt.Sprintf("%s of %s/%d shown as %q", group, topic, partition, reason), func(l state.Link) bool {
		for _, g := range l.Groups {
			for _, p := range g.Partitions {
				if g.Group == group && p.SourceTopic == topic && p.Partition == partition {
					return p.Reason == string(reason)
				}
			}
		}
		return false
	})
}

func testGroupsAsTheyAre(t *testing.T, r *groupRig) {
	for i, g := range []string{"g", "größe #1:@/ü", "a b", "a%20b", "G"} {
		o := kadm.Offset{Topic: "orders", Partition: 1, At: int64(i), Metadata: "metä\x00data"}
		r.commit(t, r.src, g, o)
		r.want(t, g, o)
	}
	r.commit(t, r.src, "g", kadm.Offset{Topic: "orders", Partition: 1, At: 40})
	r.commit(t, r.src, "excluded", kadm.Offset{Topic: "orders", Partition: 1, At: 40})
	r.want(t, "g", kadm.Offset{Topic: "orders", Partition: 1, At: 40})
	// A rewind is followed.
	r.commit(t, r.src, "g", kadm.Offset{Topic: "orders", Partition: 1, At: 3, Metadata: "back"})
	r.want(t, "g", kadm.Offset{Topic: "orders", Partition: 1, At: 3, Metadata: "back"})
	r.wantNone(t, "excluded", "orders", 1)
}

// testConsumerProtocolGroup commits as a member of a group of the consumer
// protocol (KIP-848), by its requests: its commits are as fenced as those of a
// real client, and the group's records are among those that are followed.
func testConsumerProtocolGroup(t *testing.T, r *groupRig) {
	const group = "of-kip-848"
	cl, err := kgo.NewClient(r.pair.src.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.MemberEpoch = group, "member-of-kip-848", 0
	beat.RebalanceTimeoutMillis = int32(patience.Milliseconds())
	beat.SubscribedTopicNames = []string{"orders"}
	beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	var joined *kmsg.ConsumerGroupHeartbeatResponse
	eventually(t, patience, "a member", func() bool {
		joined, err = beat.RequestWith(within(t, patience), cl)
		return err == nil && joined.ErrorCode == 0
	})
	details, err := r.src.ListTopics(within(t, patience), "orders")
	if err != nil {
		t.Fatal(err)
	}
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "orders", details["orders"].ID
	for n := range int32(2) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = n, int64(20+n), kmsg.StringPtr("of a member")
		topic.Partitions = append(topic.Partitions, p)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.MemberID, commit.Generation = group, beat.MemberID, joined.MemberEpoch
	commit.Topics = append(commit.Topics, topic)
	answer, err := commit.RequestWith(within(t, patience), cl)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
	for n := range int32(2) {
		r.want(t, group, kadm.Offset{Topic: "orders", Partition: n, At: int64(20 + n), Metadata: "of a member"})
	}
	beat.MemberEpoch = -1 // leaves
	if _, err := beat.RequestWith(within(t, patience), cl); err != nil {
		t.Fatal(err)
	}
}

func testGroupTransactions(t *testing.T, r *groupRig, kind transactions) {
	group := fmt.Sprintf("transactional-%d", kind)
	at := func(partition int32, offset int64, metadata string) kadm.Offset {
		return kadm.Offset{Topic: "orders", Partition: partition, At: offset, Metadata: metadata}
	}
	hangs := newTxnCommits(t, r.pair.src, group+"-hangs", kind)
	other := newTxnCommits(t, r.pair.src, group+"-other", kind)
	hangs.commit(group, at(0, 10, "hangs"))
	hangs.commit(group, at(5, 10, "overtaken"))
	other.commit(group, at(1, 11, "committed"))
	// One that hangs holds up neither commits of no transaction nor others.
	r.commit(t, r.src, group, at(2, 12, "plain"), at(5, 50, "later"))
	r.want(t, group, at(2, 12, "plain"))
	r.wantNone(t, group, "orders", 1)
	other.end(kgo.TryCommit)
	r.want(t, group, at(1, 11, "committed"))
	other.commit(group, at(3, 13, "aborted"))
	other.end(kgo.TryAbort)
	r.commit(t, r.src, group, at(4, 14, "after the abort"))
	r.want(t, group, at(4, 14, "after the abort"))
	r.wantNone(t, group, "orders", 3)
	r.wantNone(t, group, "orders", 0)
	hangs.end(kgo.TryCommit)
	r.want(t, group, at(0, 10, "hangs"))
	r.want(t, group, at(5, 50, "later"))
}

// testGroupDeleted: what is deleted at the source stays on the target, shown as
// such, and a group that is made again goes on, also from further back.
func testGroupDeleted(t *testing.T, r *groupRig) {
	kept, again := kadm.Offset{Topic: "orders", Partition: 0, At: 60}, kadm.Offset{Topic: "orders", Partition: 1, At: 61}
	r.commit(t, r.src, "deleted", kept, again)
	r.want(t, "deleted", kept)
	r.want(t, "deleted", again)
	gone := make(kadm.TopicsSet)
	gone.Add("orders", 0)
	if _, err := r.src.DeleteOffsets(within(t, patience), "deleted", gone); err != nil {
		t.Fatal(err)
	}
	r.awaitGroup(t, "deleted", "orders", 0, groups.SourceDeleted)
	if _, err := r.src.DeleteGroups(within(t, patience), "deleted"); err != nil {
		t.Fatal(err)
	}
	r.awaitGroup(t, "deleted", "orders", 1, groups.SourceDeleted)
	r.want(t, "deleted", kept)
	again.At = 7
	r.commit(t, r.src, "deleted", again)
	r.want(t, "deleted", again)
}

// testGroupClamped commits beyond the end of the log, which brokers allow.
func testGroupClamped(t *testing.T, r *groupRig) {
	const partition = 6
	end := boundsOf(t, r.pair.src, "orders")[partition].End
	r.commit(t, r.src, "ahead", kadm.Offset{Topic: "orders", Partition: partition, At: end + 20, Metadata: "m"})
	r.want(t, "ahead", kadm.Offset{Topic: "orders", Partition: partition, At: end, Metadata: "m"})
	r.awaitGroup(t, "ahead", "orders", partition, groups.Clamped)
	produce(t, r.pair.src, fixed(2, 100*groupPartitions, "orders"))
	if now := boundsOf(t, r.pair.src, "orders")[partition].End; now < end+20 {
		t.Fatalf("the partition has grown from %d to %d only", end, now)
	}
	r.want(t, "ahead", kadm.Offset{Topic: "orders", Partition: partition, At: end + 20, Metadata: "m"})
}

// testGroupOwned: a group that has members on the target, or worked there, is
// left alone.
func testGroupOwned(t *testing.T, r *groupRig) {
	r.commit(t, r.dst, "owned", kadm.Offset{Topic: "orders", Partition: 0, At: 7, Metadata: "worked here"})
	r.commit(t, r.src, "owned", kadm.Offset{Topic: "orders", Partition: 0, At: 3}, kadm.Offset{Topic: "orders", Partition: 1, At: 4})
	r.want(t, "owned", kadm.Offset{Topic: "orders", Partition: 1, At: 4})
	r.awaitGroup(t, "owned", "orders", 0, groups.TargetOwned)

	member, err := kgo.NewClient(append(r.pair.dst.AdminOpts(), kgo.ConsumerGroup("busy"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())...)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	if fs := member.PollRecords(within(t, patience), 1); fs.Err() != nil {
		t.Fatal(fs.Err())
	}
	r.commit(t, r.src, "busy", kadm.Offset{Topic: "orders", Partition: 0, At: 9})
	r.awaitGroup(t, "busy", "orders", 0, groups.GroupActive)
	for partition, at := range map[int32]int64{0: 7, 1: 4} {
		if o, ok := r.committed(t, "owned", "orders", partition); !ok || o.At != at {
			t.Errorf("owned has %+v of orders/%d, want %d", o, partition, at)
		}
	}
	r.wantNone(t, "busy", "orders", 0)
}

// commitDoor holds the first OffsetCommit of one group, or its answer.
type commitDoor struct {
	group   string
	answers bool
	came    chan struct{} // closed when it is held
	open    chan struct{} // closed to let it go on
	held    atomic.Bool   // one was
	conn    atomic.Uint64 // of the last request
}

func newCommitDoor(t testing.TB, b *lab.Broker, group string, answers bool) *commitDoor {
	d := &commitDoor{group: group, answers: answers, came: make(chan struct{}), open: make(chan struct{})}
	t.Cleanup(sync.OnceFunc(func() { close(d.open) }))
	t.Cleanup(b.Proxy().On(int16(kmsg.OffsetCommit), d.request))
	t.Cleanup(b.Proxy().OnAnswer(int16(kmsg.OffsetCommit), d.answer))
	return d
}

func (d *commitDoor) request(f proxy.Frame) proxy.Action {
	req, err := f.Request()
	if err != nil || req.(*kmsg.OffsetCommitRequest).Group != d.group {
		return proxy.Forward
	}
	d.conn.Store(f.Conn)
	if !d.answers {
		d.hold()
	}
	return proxy.Forward
}

func (d *commitDoor) answer(f proxy.Frame) proxy.Action {
	if d.answers && d.conn.Load() == f.Conn {
		d.hold()
	}
	return proxy.Forward
}

// hold holds the first one, and lets later ones pass.
func (d *commitDoor) hold() {
	if d.held.CompareAndSwap(false, true) {
		close(d.came)
		<-d.open
	}
}

// testGroupRestarts: klink knows its own commits again, also those of which it
// never saw the answer, and makes up for those that it did not send.
func testGroupRestarts(t *testing.T, r *groupRig) {
	r.commit(t, r.src, "restarted", kadm.Offset{Topic: "orders", Partition: 0, At: 30})
	r.want(t, "restarted", kadm.Offset{Topic: "orders", Partition: 0, At: 30})
	r.k.stop(t)
	r.commit(t, r.src, "restarted", kadm.Offset{Topic: "orders", Partition: 0, At: 31})
	r.run(t)
	r.want(t, "restarted", kadm.Offset{Topic: "orders", Partition: 0, At: 31})

	// Killed with two commits that are on record: one that has not reached the
	// broker, and one of which the answer has not reached klink.
	doors := map[string]*commitDoor{
		"killed-before-the-commit": newCommitDoor(t, r.pair.dst.Broker(1), "killed-before-the-commit", false),
		"killed-before-its-answer": newCommitDoor(t, r.pair.dst.Broker(1), "killed-before-its-answer", true),
	}
	for group, d := range doors {
		r.commit(t, r.src, group, kadm.Offset{Topic: "orders", Partition: 0, At: 32})
		select {
		case <-d.came:
		case <-time.After(patience):
			t.Fatalf("%s: no commit was on its way", group)
		}
	}
	r.k.kill(t)
	for group := range doors {
		r.commit(t, r.src, group, kadm.Offset{Topic: "orders", Partition: 0, At: 33})
	}
	r.run(t)
	for group := range doors {
		// The dead one's membership, and with it the right to write, has to end first.
		r.wantWithin(t, patience, group, kadm.Offset{Topic: "orders", Partition: 0, At: 33})
	}
}

// testGroupAfterFailover: from then on nothing is written, neither by the klink
// that ran, which slept through it and finds a commit when it wakes, nor by one
// that starts later.
func testGroupAfterFailover(t *testing.T, r *groupRig) {
	r.commit(t, r.src, "failed-over", kadm.Offset{Topic: "orders", Partition: 0, At: 40})
	r.want(t, "failed-over", kadm.Offset{Topic: "orders", Partition: 0, At: 40})
	if err := r.k.proc.Freeze(); err != nil {
		t.Fatal(err)
	}
	r.commit(t, r.src, "failed-over", kadm.Offset{Topic: "orders", Partition: 0, At: 41})
	if o := command(t, "failover", "-c", r.file, "--yes"); o.code != 0 {
		t.Fatalf("failover: exit code %d: %s%s", o.code, o.out, o.errOut)
	}
	if err := r.k.proc.Thaw(); err != nil {
		t.Fatal(err)
	}
	r.k.awaitTopic(t, "orders", state.Stopped, "")
	r.commit(t, r.src, "failed-over", kadm.Offset{Topic: "orders", Partition: 0, At: 42})
	r.awaitGroup(t, "failed-over", "orders", 0, groups.TopicStopped)
	r.k.stop(t)
	r.commit(t, r.src, "failed-over", kadm.Offset{Topic: "orders", Partition: 0, At: 43})
	r.k = startKlink(r.t, "-c", r.file)
	r.k.awaitTopic(t, "orders", state.Stopped, "")
	r.k.awaitTopic(t, "many", state.Stopped, "")
	r.awaitGroup(t, "failed-over", "orders", 0, groups.TopicStopped)
	if o, ok := r.committed(t, "failed-over", "orders", 0); !ok || o.At != 40 {
		t.Errorf("%+v after the failover, want 40 as before it", o)
	}
}
