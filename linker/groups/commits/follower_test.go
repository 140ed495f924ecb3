package commits

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offsetsPartitions is less than the 50 of a real cluster.
const offsetsPartitions = 6

// rig is a fake cluster whose __consumer_offsets the test itself writes.
type rig struct {
	t        testing.TB
	ctx      context.Context
	cluster  *kfake.Cluster
	producer *kgo.Client
	f        *Follower
	now      map[string]int64 // what the batches made of the offsets, by group/topic/partition
	gaps     int
	stop     func()
}

func newRig(t testing.TB, topics ...string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(offsetsPartitions, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &rig{t: t, ctx: ctx, cluster: c, now: make(map[string]int64)}
	r.producer = r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	return r
}

func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

// follow starts a Follower, which ends with the test.
func (r *rig) follow(o Options) {
	r.t.Helper()
	o.Client, o.Logger = r.client(), slog.New(slog.NewTextHandler(io.Discard, nil))
	r.f = New(o)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- r.f.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
		r.stop = func() {}
	}
	r.t.Cleanup(func() { r.stop() })
}

// begin follows and takes the first batch, which is a gap.
func (r *rig) begin(o Options) {
	r.t.Helper()
	r.follow(o)
	r.until("the first gap", func() bool { return r.gaps > 0 })
	select {
	case <-r.f.Ready():
	default:
		r.t.Error("a gap, and the ends are not said to be known")
	}
}

// until takes batches until what they made of it is as wanted.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for !is() {
		select {
		case b := <-r.f.Batches():
			r.take(b)
		case <-r.ctx.Done():
			r.t.Fatalf("never came: %s; offsets %v, %d gaps, %+v", what, r.now, r.gaps, r.f.Status())
		}
	}
}

func (r *rig) take(b Batch) {
	r.t.Helper()
	if b.Received.IsZero() || !b.Gap && len(b.Events) == 0 {
		r.t.Errorf("batch %+v", b)
	}
	if b.Gap {
		r.gaps++
	}
	for _, e := range b.Events {
		if e.At.IsZero() || e.Source.Partition < 0 || e.Source.Partition >= offsetsPartitions {
			r.t.Errorf("event %+v", e)
		}
		r.now[fmt.Sprintf("%s/%s/%d", e.Group, e.Topic, e.Partition)] = e.Offset
	}
}

// awaitState takes batches until the state is as wanted.
func (r *rig) awaitState(want State, reason state.Reason) Status {
	r.t.Helper()
	return r.awaitStatus(fmt.Sprintf("state %s %s", want, reason), func(s Status) bool { return s.State == want && s.Reason == reason })
}

func (r *rig) awaitStatus(what string, is func(Status) bool) Status {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s := r.f.Status(); is(s) {
			return s
		}
		select {
		case b := <-r.f.Batches():
			r.take(b)
		case <-tick.C:
		case <-r.ctx.Done():
			r.t.Fatalf("never came: %s; it is %+v", what, r.f.Status())
		}
	}
}

func (r *rig) wantOffset(k string, offset int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("%s at %d", k, offset), func() bool { n, ok := r.now[k]; return ok && n == offset })
}

// record makes one of __consumer_offsets; the partition stands for the hash of
// the group.
func record(partition int32, k string, offset int64) *kgo.Record {
	parts := strings.Split(k, "/")
	rec := &kgo.Record{Topic: Topic, Partition: partition, Key: offsetKeyBytes(key{parts[0], parts[1], int32(parts[2][0] - '0')})}
	if offset != Deleted {
		rec.Value = offsetValueBytes(3, offset, "")
	}
	return rec
}

func (r *rig) commit(partition int32, k string, offset int64) {
	r.t.Helper()
	if err := r.producer.ProduceSync(r.ctx, record(partition, k, offset)).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// transaction begins one with a commit in it; end ends it.
func (r *rig) transaction(id string, records ...*kgo.Record) (end func(kgo.TransactionEndTry)) {
	r.t.Helper()
	cl := r.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		r.t.Fatal(err)
	}
	if err := cl.ProduceSync(r.ctx, records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
	return func(how kgo.TransactionEndTry) {
		r.t.Helper()
		if err := cl.EndTransaction(r.ctx, how); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestFollow(t *testing.T) {
	r := newRig(t, Topic)
	r.commit(1, "g/t/0", 5)
	r.begin(Options{})
	for p := range int32(offsetsPartitions) {
		r.commit(p, fmt.Sprintf("g%d/t/0", p), int64(p))
	}
	r.commit(0, "g0/t/0", 9)
	r.commit(0, "g1/t/1", 8)
	r.commit(0, "g1/t/1", Deleted)
	r.wantOffset("g1/t/1", Deleted)
	r.wantOffset("g0/t/0", 9)
	r.until("all", func() bool { return len(r.now) == offsetsPartitions+1 })
	if _, told := r.now["g/t/0"]; told { // O6
		t.Error("a commit from before the noted end was told")
	}
	if s := r.awaitState(Following, ""); s.Partitions != offsetsPartitions || s.Following != offsetsPartitions || s.Open != 0 || s.Unknown != 0 {
		t.Errorf("%+v", s)
	}
	if r.gaps != 1 {
		t.Errorf("%d gaps", r.gaps)
	}
	r.stop()
}

// O2: one transaction hangs, others are decided around it.
func TestFollowTransactions(t *testing.T) {
	r := newRig(t, Topic)
	before := r.transaction("before", record(0, "before/t/0", 3))
	r.begin(Options{})
	r.transaction("hangs", record(0, "hangs/t/0", 1))
	committed := r.transaction("committed", record(0, "c/t/0", 7), record(0, "c/t/1", 8))
	aborted := r.transaction("aborted", record(0, "a/t/0", 7))
	r.commit(0, "plain/t/0", 1)
	r.wantOffset("plain/t/0", 1)
	if len(r.now) != 1 {
		t.Errorf("told before it was decided: %v", r.now)
	}
	aborted(kgo.TryAbort)
	committed(kgo.TryCommit)
	r.wantOffset("c/t/1", 8)
	before(kgo.TryCommit)
	r.wantOffset("before/t/0", 3)
	if d := cmp.Diff(map[string]int64{"plain/t/0": 1, "c/t/0": 7, "c/t/1": 8, "before/t/0": 3}, r.now); d != "" {
		t.Error(d)
	}
	r.awaitStatus("one open", func(s Status) bool { return s.Open == 1 && s.State == Following })
	if r.gaps != 1 {
		t.Errorf("%d gaps", r.gaps)
	}
}

func TestFollowOnlyWhatIsWanted(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{Group: func(g string) bool { return g == "g" }, Topic: func(t string) bool { return t != "other" }})
	r.commit(2, "h/t/0", 1)
	r.commit(2, "g/other/0", 1)
	r.commit(2, "g/t/0", 1)
	r.wantOffset("g/t/0", 1)
	if len(r.now) != 1 {
		t.Errorf("%v", r.now)
	}
}

// Leaders move under load; each is read on from its place, without a gap.
func TestFollowLeaderMoves(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{})
	for i := range int64(12) {
		p := int32(i % offsetsPartitions)
		if err := r.cluster.MoveTopicPartition(Topic, p, (r.cluster.LeaderFor(Topic, p)+1)%3); err != nil {
			t.Fatal(err)
		}
		for q := range int32(offsetsPartitions) {
			r.commit(q, fmt.Sprintf("g%d/t/0", q), i)
		}
	}
	for q := range offsetsPartitions {
		r.wantOffset(fmt.Sprintf("g%d/t/0", q), 11)
	}
	if r.gaps != 1 {
		t.Errorf("%d gaps", r.gaps)
	}
}

// O3: a position outside the log is a gap, and what follows it is told.
func TestFollowOutOfRange(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{})
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Partitions: []int32{3}, Err: kerr.OffsetOutOfRange, Count: 1})
	r.commit(4, "h/t/0", 1) // ends the request under way
	r.until("a gap", func() bool { return r.gaps == 2 })
	r.commit(3, "g/t/0", 1)
	r.wantOffset("g/t/0", 1)
	r.wantOffset("h/t/0", 1)
}

// O4: a record of the future is counted and passed over.
func TestFollowPassesOver(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{})
	unknown := &kgo.Record{Topic: Topic, Partition: 5, Key: []byte{0x7f, 0xff}, Value: []byte("x")}
	if err := r.producer.ProduceSync(r.ctx, unknown).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.commit(5, "g/t/0", 1)
	r.wantOffset("g/t/0", 1)
	r.awaitStatus("one unknown", func(s Status) bool { return s.Unknown == 1 && s.State == Following })
	if r.gaps != 1 {
		t.Errorf("%d gaps", r.gaps)
	}
}

func TestFollowWaitsForTheTopic(t *testing.T) {
	r := newRig(t, "another")
	r.follow(Options{})
	r.awaitState(Unavailable, state.TopicMissing)
	if err := r.cluster.CreateTopic(Topic, offsetsPartitions, nil); err != nil {
		t.Fatal(err)
	}
	r.until("a gap", func() bool { return r.gaps == 1 })
	r.commit(0, "g/t/0", 1)
	r.wantOffset("g/t/0", 1)
	r.awaitState(Following, "")
}

func TestFollowWaitsForTheRight(t *testing.T) {
	r := newRig(t, Topic)
	denied := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.follow(Options{})
	// Brokers answer one after the other, each for its partitions.
	s := r.awaitStatus("nothing to be followed", func(s Status) bool {
		return s.State == Unavailable && s.Reason == state.NoPermission && s.Following == 0
	})
	if !strings.Contains(s.Detail, "Read on topic "+Topic) {
		t.Errorf("%+v", s)
	}
	r.commit(0, "g/t/0", 1)
	denied.Remove()
	r.wantOffset("g/t/0", 1) // from its place on
	r.awaitState(Following, "")
}

// A topic that was made anew begins anew, with a gap.
func TestFollowTopicMadeAnew(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{})
	r.commit(0, "g/t/0", 1)
	r.wantOffset("g/t/0", 1)
	if err := r.cluster.DeleteTopic(Topic); err != nil {
		t.Fatal(err)
	}
	r.awaitState(Unavailable, state.TopicMissing)
	if err := r.cluster.CreateTopic(Topic, offsetsPartitions, nil); err != nil {
		t.Fatal(err)
	}
	r.until("a gap", func() bool { return r.gaps >= 2 })
	r.producer = r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.commit(0, "g/t/0", 2)
	r.wantOffset("g/t/0", 2)
	r.awaitState(Following, "")
}

// O5: who does not take batches is then told the newest, not the past.
func TestFollowASlowConsumer(t *testing.T) {
	r := newRig(t, Topic)
	r.begin(Options{})
	const n = 2000
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = record(0, "g/t/0", int64(i))
	}
	for part := range slices.Chunk(records, 10) {
		if err := r.producer.ProduceSync(r.ctx, part...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	batches := 0
	r.until("the newest", func() bool { batches++; return r.now["g/t/0"] == n-1 })
	if batches > 20 {
		t.Errorf("%d batches", batches)
	}
}

// Run ends while nobody takes what it has to tell.
func TestFollowStops(t *testing.T) {
	r := newRig(t, Topic)
	r.follow(Options{})
	<-r.f.Ready()
	r.stop()
}

// Where a look finds no leader, or could not ask one, it is repeated; whatever has
// its place already keeps it.
func TestPartsAreFound(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	failed := &remote.Fault{Op: "find the ends", Reason: state.Unreachable, Err: io.ErrUnexpectedEOF}
	l := looked{ends: map[int32]ends{1: {stable: 5, end: 9}}, faults: map[int32]error{2: failed}}
	for name, c := range map[string]struct {
		number int32
		leader int32
		placed bool
		noted  bool
		look   bool // needed again
	}{
		"no leader":              {number: 1, leader: -1, look: true},
		"no leader, had a place": {number: 1, leader: -1, placed: true, look: true},
		"placed before":          {number: 1, placed: true},
		"noted":                  {number: 1, noted: true},
		"not answered":           {number: 2, look: true},
		"lost meanwhile":         {number: 3, look: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &part{number: c.number}
			if c.placed {
				p.log = newPartitionLog(c.number, ends{stable: 3, end: 3}, wanted{})
			}
			p.trouble.failed(kerr.NotLeaderForPartition, now)
			noted := p.found(leaders.Leader{Broker: c.leader}, l, wanted{}, now)
			if noted != c.noted || p.trouble.lookAt.IsZero() == c.look || (p.log != nil) != (c.placed || c.noted) {
				t.Errorf("noted %v, look at %v, %+v", noted, p.trouble.lookAt, p.log)
			}
			if c.placed && p.log.next != 3 || c.noted && (p.log.next != 5 || p.log.told != 9) {
				t.Errorf("%+v", p.log)
			}
		})
	}
}

func TestLatest(t *testing.T) {
	at := func(k string, offset int64) Event {
		return Event{Group: k, Topic: "t", Offset: offset}
	}
	got := latest([]Event{at("a", 1), at("b", 1), at("a", 2), at("c", 1), at("b", 2)})
	if d := cmp.Diff([]Event{at("a", 2), at("c", 1), at("b", 2)}, got); d != "" {
		t.Error(d)
	}
	if got := latest(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
