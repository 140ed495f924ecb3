package e2e

import (
	"context"
	enc "encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/proxy"
	"klink/fetcher/batch"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/state"
)

// newMarkerRig is an appender with clients, marker clients above all, as klink
// run makes them.
func newMarkerRig(t testing.TB, k *lab.Kafka, topics ...string) *appenderRig {
	t.Helper()
	link := config.DefaultLink()
	link.Name, link.Target.Brokers = "markers", k.Bootstrap()
	dst, err := kafka.OpenTarget(kafka.Options{Link: link})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	m := leaders.New(dst.Admin)
	t.Cleanup(m.Close)
	a := appender.New(appender.Options{Lanes: dst.Lanes, Slow: dst.Slow, Admin: dst.Admin, Leaders: m,
		Markers: dst.Markers, MarkerBulks: dst.MarkerBulks})
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

// sequenced is numberedBatch with a sequence that is not the offset, as behind
// markers.
func sequenced(first int64, n int, sequence int32) []byte {
	b := numberedBatch(appenderPID, first, n)
	enc.BigEndian.PutUint32(b[53:], uint32(sequence))
	enc.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// mark writes count markers with coordinator epochs from first on.
func (r *appenderRig) mark(t appender.Target, first int32, count int) appender.MarkerResult {
	m := appender.Markers{Identity: batch.Identity{ProducerID: appenderPID + int64(t.Partition)}, LeaderEpoch: appender.AnyLeader}
	for i := range int32(count) {
		m.CoordinatorEpochs = append(m.CoordinatorEpochs, first+i)
	}
	return r.a.WriteMarkers(context.Background(), t, m)
}

func (r *appenderRig) marked(res appender.MarkerResult, want appender.MarkerOutcome) {
	r.t.Helper()
	if res.Outcome != want {
		r.t.Fatalf("markers: %v, reason %q, err %v; want %v", res.Outcome, res.Reason, res.Err, want)
	}
}

// ends waits until all of the log is replicated and requires it to end there.
func (r *appenderRig) ends(t appender.Target, want int64) {
	r.t.Helper()
	ctx := within(r.t, patience)
	for {
		e := r.a.Ends(ctx, []appender.Target{t})[t]
		if e.Err != nil {
			r.t.Fatalf("ends: %v", e.Err)
		}
		if e.HighWatermark == e.LogEnd {
			if e.LogEnd != want {
				r.t.Fatalf("log end %d, want %d", e.LogEnd, want)
			}
			return
		}
	}
}

// Broker 15.0, 15.1: what the appender says of markers holds on both versions.
func TestMarkersOnRealKafka(t *testing.T) {
	t.Parallel()
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			k := startOne(t, lab.KafkaOptions{Version: version, Proxy: true})
			create(t, k, lab.TopicSpec{Name: "between"}, lab.TopicSpec{Name: "wide", Partitions: 8}, lab.TopicSpec{Name: "fenced"},
				lab.TopicSpec{Name: "doubt"}, lab.TopicSpec{Name: "again"}, lab.TopicSpec{Name: "trim"},
				lab.TopicSpec{Name: "compact", Configs: map[string]string{"cleanup.policy": "compact"}},
				lab.TopicSpec{Name: "both", Configs: map[string]string{"cleanup.policy": "compact,delete"}})
			for name, f := range map[string]func(*testing.T, *lab.Kafka){
				"between data": markersBetweenData, "gathered": markersGathered, "fenced": markersFenced,
				"doubt": markersInDoubt, "recreated": markersRecreated, "trim": trimOnRealKafka,
			} {
				t.Run(name, func(t *testing.T) { f(t, k) })
			}
		})
	}
}

// Data, one marker, a full bulk, data: the sequences go on, and a consumer sees
// the data at their offsets and nothing else.
func markersBetweenData(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "between")
	target := r.target("between")
	ctx := within(t, patience)
	r.require(r.append(target, 0, 10), appender.Appended, "")
	r.marked(r.mark(target, 5, 1), appender.MarkersDone)
	r.ends(target, 11)
	r.require(r.a.Append(ctx, target, sequenced(11, 10, 10), 11), appender.Appended, "")
	r.marked(r.mark(target, 6, appender.MaxMarkers), appender.MarkersDone)
	r.ends(target, 21+appender.MaxMarkers)
	s, err := r.a.ProducerState(ctx, target, appenderPID)
	if err != nil || !s.Known || s.Epoch != 0 || s.CoordinatorEpoch != 5+appender.MaxMarkers || s.Next() != 20 {
		t.Fatalf("producer state %+v, %v", s, err)
	}
	r.require(r.a.Append(ctx, target, sequenced(21+appender.MaxMarkers, 5, 20), 21+appender.MaxMarkers), appender.Appended, "")

	var want []int64
	for o := range int64(26 + appender.MaxMarkers) {
		if o < 10 || o >= 11 && o < 21 || o >= 21+appender.MaxMarkers {
			want = append(want, o)
		}
	}
	for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
		if got := offsetsOf(t, k, "between", len(want), isolation); !slices.Equal(got, want) {
			t.Errorf("a consumer sees %v", got)
		}
	}
}

// offsetsOf consumes n records.
func offsetsOf(t testing.TB, k *lab.Kafka, topic string, n int, isolation kgo.IsolationLevel) []int64 {
	t.Helper()
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	var got []int64
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, r.Offset) })
	}
	return got
}

// Eight partitions write single markers as fast as they are answered, beside
// bulks: they share requests, and every log has exactly its own.
func markersGathered(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "wide")
	const rounds = 40
	before := k.Brokers()[0].Proxy().Count(int16(kmsg.WriteTxnMarkers))
	var wg sync.WaitGroup
	want := make([]int64, 8)
	for p := range int32(8) {
		target := r.target("wide")
		target.Partition = p
		wg.Go(func() {
			for next := int32(0); want[p] < rounds; {
				count := 1
				if p >= 6 {
					count = 1 + rand.IntN(5)
				}
				if res := r.mark(target, next, count); res.Outcome != appender.MarkersDone {
					t.Errorf("partition %d: %v %v", p, res.Outcome, res.Err)
					return
				}
				next += int32(count)
				want[p] += int64(count)
			}
		})
	}
	wg.Wait()
	sent := k.Brokers()[0].Proxy().Count(int16(kmsg.WriteTxnMarkers)) - before
	for p := range int32(8) {
		target := r.target("wide")
		target.Partition = p
		r.ends(target, want[p])
	}
	if sent > 6*rounds/2 {
		t.Errorf("%d requests for %d single markers", sent, 6*rounds)
	}
	t.Logf("%d requests for markers of 8 partitions, %d each", sent, rounds)
}

// Coordinator epochs and producer epochs that are too low, and what an equal one
// does.
func markersFenced(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "fenced")
	target := r.target("fenced")
	r.marked(r.mark(target, 100, 1), appender.MarkersDone)
	res := r.mark(target, 99, 1)
	r.marked(res, appender.MarkersCoordinatorFenced)
	if !errors.Is(res.Err, kerr.TransactionCoordinatorFenced) {
		t.Error(res.Err)
	}
	r.ends(target, 1)
	r.marked(r.mark(target, 100, 1), appender.MarkersDone) // equal: written again
	r.ends(target, 2)
	// The very request again: only its last marker is not below what was seen.
	r.marked(r.mark(target, 101, 10), appender.MarkersDone)
	r.ends(target, 12)
	if res := r.mark(target, 101, 10); res.Outcome == appender.MarkersRefused || res.Outcome == appender.MarkersNotSent {
		t.Errorf("a bulk that was half refused: %v", res.Outcome)
	}
	r.ends(target, 13)

	// A marker of the next epoch fences data and markers of this one.
	fence := appender.Markers{Identity: batch.Identity{ProducerID: appenderPID, ProducerEpoch: 1}, CoordinatorEpochs: []int32{200}, LeaderEpoch: appender.AnyLeader}
	r.marked(r.a.WriteMarkers(context.Background(), target, fence), appender.MarkersDone)
	res = r.mark(target, 201, 1)
	r.marked(res, appender.MarkersProducerFenced)
	if res.Reason != state.Fenced {
		t.Errorf("reason %q", res.Reason)
	}
	r.require(r.a.Append(context.Background(), target, sequenced(14, 1, 0), 14), appender.Fenced, state.Fenced)
	r.ends(target, 14)
}

// The answer to a single marker is lost, and the connection of a bulk is cut
// when the broker has the request. After settling, and for the bulk one higher
// marker behind it, the log end is final.
func markersInDoubt(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "doubt")
	target := r.target("doubt")
	ctx := within(t, patience)
	p := k.Brokers()[0].Proxy()
	remove := p.On(int16(kmsg.WriteTxnMarkers), proxy.Once(proxy.DropAnswer))
	r.marked(r.mark(target, 0, 1), appender.MarkersUnknown)
	remove()
	if err := r.a.SettleMarkers(ctx, target); err != nil {
		t.Fatal(err)
	}
	r.ends(target, 1)

	remove = p.On(int16(kmsg.WriteTxnMarkers), proxy.Once(proxy.CutSent))
	res := r.mark(target, 1, appender.MaxMarkers)
	r.marked(res, appender.MarkersUnknown)
	remove()
	if !res.Sent || res.Reason != state.Unreachable {
		t.Errorf("%+v", res)
	}
	if err := r.a.SettleMarkers(ctx, target); err != nil {
		t.Fatal(err)
	}
	r.marked(r.mark(target, 10_000, 1), appender.MarkersDone)
	end := r.end(target)
	if end < 2 || end > 2+appender.MaxMarkers {
		t.Errorf("log end %d", end)
	}
	for i := range int32(5) { // nothing of the bulk comes after it
		r.marked(r.mark(target, 10_001+i, 1), appender.MarkersDone)
	}
	r.ends(target, end+5)
}

// A leader map that is behind lets neither markers nor trims into a recreated
// topic.
func markersRecreated(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "again")
	target := r.target("again")
	r.marked(r.mark(target, 0, 5), appender.MarkersDone)
	other := newMarkerRig(t, k, "again") // its map stays as it is now

	cl, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopic(within(t, patience), "again"); err != nil {
		t.Fatal(err)
	}
	create(t, k, lab.TopicSpec{Name: "again"})

	res := other.mark(target, 5, 1)
	other.marked(res, appender.MarkersNotSent)
	if res.Reason != state.TargetRecreated || !errors.Is(res.Err, appender.ErrTopicID) {
		t.Errorf("reason %q, %v", res.Reason, res.Err)
	}
	trimmed := other.a.Trim(within(t, patience), map[appender.Target]int64{target: 0})[target]
	if trimmed.Reason != state.TargetRecreated || !errors.Is(trimmed.Err, appender.ErrTopicID) {
		t.Errorf("trim: %+v", trimmed)
	}
	fresh := newMarkerRig(t, k, "again")
	fresh.ends(fresh.target("again"), 0)
}

func trimOnRealKafka(t *testing.T, k *lab.Kafka) {
	r := newMarkerRig(t, k, "trim", "compact", "both")
	ctx := within(t, patience)
	trim := func(topic string, to int64) appender.Trimmed {
		target := r.target(topic)
		return r.a.Trim(ctx, map[appender.Target]int64{target: to})[target]
	}
	for _, topic := range []string{"trim", "compact", "both"} {
		r.marked(r.mark(r.target(topic), 0, 20), appender.MarkersDone)
	}
	for _, topic := range []string{"trim", "both"} {
		for _, to := range []int64{7, 3, 20} { // below the start: nothing happens
			want := max(to, 7)
			if g := trim(topic, to); g.Err != nil || g.LogStart != want {
				t.Errorf("%s to %d: %+v", topic, to, g)
			}
		}
		if g := trim(topic, 21); !errors.Is(g.Err, kerr.OffsetOutOfRange) || g.Reason != state.NotEnoughReplicas {
			t.Errorf("%s above the end: %+v", topic, g)
		}
		e := r.a.Ends(ctx, []appender.Target{r.target(topic)})[r.target(topic)]
		if e.LogStart != 20 || e.HighWatermark != 20 || e.LogEnd != 20 || e.Err != nil {
			t.Errorf("%s: %+v", topic, e)
		}
	}
	if g := trim("compact", 7); !errors.Is(g.Err, appender.ErrCompactOnly) || g.Reason != state.TopicRefused {
		t.Errorf("compact: %+v", g)
	}
	var f *appender.Fault
	if g := trim("compact", -1); !errors.As(g.Err, &f) || !errors.Is(g.Err, appender.ErrBadTrim) {
		t.Errorf("to -1: %+v", g)
	}
}
