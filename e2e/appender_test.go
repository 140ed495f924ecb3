package e2e

import (
	"bytes"
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/proxy"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/state"
)

// appenderRig is an appender on a real cluster.
type appenderRig struct {
	t       testing.TB
	a       *appender.Appender
	leaders *leaders.Map
}

// newAppenderRig makes clients, map and appender as klink run does; only a
// silent broker is given up sooner.
func newAppenderRig(t testing.TB, k *lab.Kafka, topics ...string) *appenderRig {
	t.Helper()
	client := func() *kgo.Client {
		cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.DisableClientMetrics(), kgo.RequestTimeoutOverhead(2*time.Second))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	admin := client()
	m := leaders.New(admin)
	t.Cleanup(m.Close)
	a := appender.New(appender.Options{Lanes: []*kgo.Client{client(), client()}, Slow: client(), Admin: admin, Leaders: m, FastTimeout: time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("appender: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	if err := m.Refresh(within(t, patience), topics...); err != nil {
		t.Fatal(err)
	}
	return &appenderRig{t: t, a: a, leaders: m}
}

func (r *appenderRig) target(topic string) appender.Target {
	r.t.Helper()
	s, ok := r.leaders.Look(topic, 0)
	if !ok || s.Err != nil {
		r.t.Fatalf("topic %s: %+v", topic, s)
	}
	return appender.Target{Topic: topic, ID: s.ID}
}

// append sends n records that are to stand at expect and the offsets after it,
// with the sequence of the same number.
func (r *appenderRig) append(t appender.Target, expect int64, n int) appender.Result {
	return r.a.Append(context.Background(), t, numberedBatch(appenderPID, expect, n), expect)
}

func (r *appenderRig) end(t appender.Target) int64 {
	r.t.Helper()
	e := r.a.LogEnds(within(r.t, patience), []appender.Target{t})[t]
	if e.Err != nil {
		r.t.Fatalf("log end: %v", e.Err)
	}
	return e.End
}

func (r *appenderRig) require(res appender.Result, want appender.Outcome, reason state.Reason) {
	r.t.Helper()
	if res.Outcome != want || res.Reason != reason {
		r.t.Fatalf("got %v, reason %q, base %d, err %v; want %v, reason %q", res.Outcome, res.Reason, res.Base, res.Err, want, reason)
	}
}

const appenderPID = int64(1)<<62 + 12345

// numberedBatch makes a batch whose records hold their own offsets, so that a
// reader sees each one that stands elsewhere.
func numberedBatch(pid, first int64, n int) []byte {
	var records []byte
	for i := range int64(n) {
		rec := kmsg.Record{OffsetDelta: int32(i), Value: fmt.Appendf(nil, "%d", first+i)}
		rec.Length = int32(len(rec.AppendTo(nil)) - 1) // a length of 0 takes one byte
		records = rec.AppendTo(records)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: pid, FirstSequence: int32(first), NumRecords: int32(n), Records: records}
	raw := b.AppendTo(nil)
	enc.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	enc.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// requireNumbered reads the partition with an ordinary consumer: exactly the
// records 0 to n-1, each at its own offset.
func requireNumbered(t testing.TB, k *lab.Kafka, topic string, n int64) {
	t.Helper()
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	next := int64(0)
	for next < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s at %d: %v", topic, next, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next || !bytes.Equal(r.Value, fmt.Appendf(nil, "%d", next)) {
				t.Errorf("%s: record %q at offset %d, want %d", topic, r.Value, r.Offset, next)
			}
			next++
		})
		if t.Failed() {
			return
		}
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if end, _ := ends.Lookup(topic, 0); err != nil || end.Offset != n {
		t.Errorf("%s ends at %d (%v), want %d", topic, end.Offset, err, n)
	}
}

// G3 and the compare-and-set of design §3, on one broker of each version.
func TestAppenderOnRealKafka(t *testing.T) {
	t.Parallel()
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			k := startOne(t, lab.KafkaOptions{Version: version, Proxy: true})
			create(t, k, lab.TopicSpec{Name: "race"}, lab.TopicSpec{Name: "answers"}, lab.TopicSpec{Name: "lost"}, lab.TopicSpec{Name: "again"})
			t.Run("race", func(t *testing.T) { appenderRace(t, k) })
			t.Run("answers", func(t *testing.T) { appenderAnswers(t, k) })
			t.Run("lost answer", func(t *testing.T) { appenderLostAnswer(t, k) })
			t.Run("recreated", func(t *testing.T) { appenderRecreated(t, k, version == install.Newest) })
		})
	}
}

// Four writers with one identity race from the very first append on. Each one
// believes to be alone and looks again after every surprise.
func appenderRace(t *testing.T, k *lab.Kafka) {
	const writers, records = 4, 400
	var surprises atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range writers {
		r := newAppenderRig(t, k, "race")
		target := r.target("race")
		wg.Go(func() {
			<-start
			for next := int64(0); next < records; {
				res := r.append(target, next, 1)
				switch res.Outcome {
				case appender.Appended:
					next++
				case appender.Duplicate, appender.OutOfOrder, appender.Unknown:
					surprises.Add(1)
					e := r.a.LogEnds(context.Background(), []appender.Target{target})[target]
					if e.Err != nil {
						t.Errorf("log end: %v", e.Err)
						return
					}
					next = e.End
				default:
					t.Errorf("append at %d: %v, base %d, %v", next, res.Outcome, res.Base, res.Err)
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if surprises.Load() == 0 {
		t.Error("the writers never met")
	}
	requireNumbered(t, k, "race", records)
}

func appenderAnswers(t *testing.T, k *lab.Kafka) {
	r := newAppenderRig(t, k, "answers")
	target := r.target("answers")
	ctx := within(t, patience)
	if s, err := r.a.ProducerState(ctx, target, appenderPID); err != nil || s.Known {
		t.Fatalf("before the first append: %+v, %v", s, err)
	}
	for base := int64(0); base < 30; base += 10 {
		r.require(r.append(target, base, 10), appender.Appended, "")
	}
	s, err := r.a.ProducerState(ctx, target, appenderPID)
	if err != nil || !s.Known || s.Epoch != 0 || s.LastSequence != 29 || s.Next() != 30 {
		t.Fatalf("producer state %+v, %v", s, err)
	}
	// The very batch of offset 10 again, by a writer that expects the log's end.
	res := r.a.Append(ctx, target, numberedBatch(appenderPID, 10, 10), 30)
	r.require(res, appender.Duplicate, "")
	if res.Base != 10 {
		t.Errorf("duplicate of the batch at 10 answered with %d", res.Base)
	}
	r.require(r.a.Append(ctx, target, numberedBatch(appenderPID, 31, 10), 30), appender.OutOfOrder, "") // a gap
	r.require(r.a.Append(ctx, target, numberedBatch(appenderPID, 25, 10), 30), appender.OutOfOrder, "") // an overlap
	holed := numberedBatch(appenderPID, 30, 10)
	enc.BigEndian.PutUint32(holed[23:], 19)
	enc.BigEndian.PutUint32(holed[17:], crc32.Checksum(holed[21:], crc32.MakeTable(crc32.Castagnoli)))
	r.require(r.a.Append(ctx, target, holed, 30), appender.Refused, state.Unfillable)
	broken := numberedBatch(appenderPID, 30, 10)
	broken[len(broken)-3] ^= 1
	r.require(r.a.Append(ctx, target, broken, 30), appender.Refused, state.Corrupt)

	b := r.a.Bounds(ctx, []appender.Target{target})[target]
	if b.Err != nil || b.Start != 0 || b.HighWatermark != 30 {
		t.Errorf("bounds %+v", b)
	}
	requireNumbered(t, k, "answers", 30)

	// Sequences do not see a foreign writer; base offsets do.
	r.require(r.a.Append(ctx, target, numberedBatch(77, 0, 1), 30), appender.Appended, "")
	res = r.append(target, 30, 1)
	r.require(res, appender.Misplaced, state.ForeignWrite)
	if res.Base != 31 {
		t.Errorf("behind the foreign record: %d", res.Base)
	}
}

// C098: the answer is lost after the write; the log end tells, and the batch
// sent again changes nothing.
func appenderLostAnswer(t *testing.T, k *lab.Kafka) {
	r := newAppenderRig(t, k, "lost")
	target := r.target("lost")
	r.require(r.append(target, 0, 5), appender.Appended, "")
	for base := int64(5); base < 20; base += 5 {
		remove := k.Brokers()[0].Proxy().On(int16(kmsg.Produce), proxy.Once(proxy.DropAnswer))
		r.require(r.append(target, base, 5), appender.Unknown, state.Unreachable)
		remove()
		if end := r.end(target); end != base+5 {
			t.Fatalf("log end %d, want %d", end, base+5)
		}
		r.require(r.append(target, base, 5), appender.Appended, "")
	}
	requireNumbered(t, k, "lost", 20)
}

// A recreated topic gets nothing where requests go by id, and is told apart in
// any case.
func appenderRecreated(t *testing.T, k *lab.Kafka, byID bool) {
	r := newAppenderRig(t, k, "again")
	target := r.target("again")
	r.require(r.append(target, 0, 5), appender.Appended, "")
	other := newAppenderRig(t, k, "again") // its map stays as it is now

	cl, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopic(within(t, patience), "again"); err != nil {
		t.Fatal(err)
	}
	create(t, k, lab.TopicSpec{Name: "again"})

	res := other.append(target, 5, 5)
	if byID {
		other.require(res, appender.Refused, state.TargetRecreated)
	} else if res.Outcome != appender.Duplicate && res.Outcome != appender.Unknown || res.Base > 0 {
		t.Fatalf("by name: %+v", res)
	}
	e := other.a.LogEnds(within(t, patience), []appender.Target{target})[target]
	if e.Reason != state.TargetRecreated || !errors.Is(e.Err, appender.ErrTopicID) {
		t.Fatalf("log end %+v", e)
	}
	other.require(other.append(target, 5, 5), appender.NotSent, state.TargetRecreated)
}

// The high watermark is not enough to settle a doubt: with frozen followers an
// append is in the leader's log, and only the true log end shows it.
func TestAppenderTrueLogEndWithFrozenFollowers(t *testing.T) {
	t.Parallel()
	k := startOne(t, lab.KafkaOptions{Brokers: 3})
	create(t, k, lab.TopicSpec{Name: "frozen", Replicas: 3, Configs: map[string]string{"min.insync.replicas": "2"}})
	r := newAppenderRig(t, k, "frozen")
	target := r.target("frozen")
	r.require(r.append(target, 0, 50), appender.Appended, "")
	requireHighWatermark(t, r, target, 50)

	leader, _ := r.leaders.Leader("frozen", 0)
	for _, b := range k.Brokers() {
		if b.ID() != leader.Broker {
			if err := b.Freeze(); err != nil {
				t.Fatal(err)
			}
		}
	}
	res := r.append(target, 50, 50)
	for res.Outcome == appender.NotSent { // a lane that asks a frozen broker for the others' addresses
		res = r.append(target, 50, 50)
	}
	r.require(res, appender.Unknown, state.NotEnoughReplicas)
	if !errors.Is(res.Err, kerr.RequestTimedOut) {
		t.Fatalf("append with frozen followers: %v", res.Err)
	}
	if end := r.end(target); end != 100 {
		t.Fatalf("true log end %d, want 100: REQUEST_TIMED_OUT had appended", end)
	}
	if b := r.a.Bounds(within(t, patience), []appender.Target{target})[target]; b.Err != nil || b.HighWatermark != 50 {
		t.Fatalf("bounds %+v: the high watermark should stay at 50", b)
	}

	for _, b := range k.Brokers() {
		if b.ID() != leader.Broker {
			if err := b.Thaw(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx := within(t, patience)
	for {
		res = r.append(target, 50, 50) // the same again: a duplicate of the same place
		if res.Outcome == appender.Appended {
			break
		}
		if res.Outcome == appender.Misplaced || res.Outcome == appender.Fenced || ctx.Err() != nil {
			t.Fatalf("after thawing: %+v", res)
		}
		r.a.LogEnds(ctx, []appender.Target{target}) // looks for the leader, as after any doubt
	}
	requireHighWatermark(t, r, target, 100)
	requireNumbered(t, k, "frozen", 100)
}

// requireHighWatermark waits for it: followers confirm with their next fetch.
func requireHighWatermark(t testing.TB, r *appenderRig, target appender.Target, want int64) {
	t.Helper()
	ctx := within(t, patience)
	for {
		b := r.a.Bounds(ctx, []appender.Target{target})[target]
		if b.Err == nil && b.HighWatermark == want {
			return
		}
		if ctx.Err() != nil || b.HighWatermark > want {
			t.Fatalf("high watermark %+v, want %d", b, want)
		}
	}
}
