package fetcher

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

func TestJudge(t *testing.T) {
	now := time.Unix(1000, 0)
	id, other := feed.TopicID{1}, [16]byte{2}
	fine := leaders.Sight{ID: id, Exists: true}
	log := func(start, end int64) *feed.Bounds {
		return &feed.Bounds{LogStart: start, HighWatermark: end, LogEnd: end}
	}
	seen := func(k feed.Kind, ago time.Duration) doubt { return doubt{seen: k, at: now.Add(-ago)} }
	none := testimony{sight: fine, epoch: feed.NoEpoch, epochEnd: feed.Unknown}
	with := func(change func(*testimony)) testimony {
		t := none
		change(&t)
		return t
	}
	missing := with(func(t *testimony) { t.sight.Err, t.sight.Exists = kerr.UnknownTopicOrPartition, false })
	newID := with(func(t *testimony) { t.sight.ID = other })
	bounded := func(start, end int64) testimony { return with(func(t *testimony) { t.bounds = log(start, end) }) }
	epochs := func(epoch int32, end int64) testimony {
		return with(func(t *testimony) { t.bounds, t.epoch, t.epochEnd = log(0, 999), epoch, end })
	}

	for _, c := range []struct {
		name   string
		d      doubt
		t      testimony
		doubts int
		kind   feed.Kind
		want   finding
	}{
		{name: "missing once", t: missing, kind: feed.Gone, want: unsure},
		{name: "missing twice at once", d: seen(feed.Gone, apart/2), t: missing, kind: feed.Gone, want: unsure},
		{name: "missing twice", d: seen(feed.Gone, apart), t: missing, kind: feed.Gone, want: believed},
		{name: "no such partition", d: seen(feed.Gone, apart), t: with(func(t *testimony) { t.sight.Exists = false }), kind: feed.Gone, want: believed},
		{name: "another id once", t: newID, kind: feed.Recreated, want: unsure},
		{name: "missing, then another id", d: seen(feed.Gone, apart), t: newID, kind: feed.Recreated, want: unsure},
		{name: "another id twice", d: seen(feed.Recreated, apart), t: newID, kind: feed.Recreated, want: believed},
		{name: "metadata does not tell ids", t: with(func(t *testimony) { t.sight.ID = [16]byte{} }), want: spurious},
		{name: "all is well", t: none, want: spurious},
		{name: "below the start", t: bounded(51, 99), kind: feed.Overrun, want: believed},
		{name: "at the start (C065)", t: bounded(50, 99), want: spurious},
		{name: "at the end (C065)", t: bounded(0, 50), want: spurious},
		{name: "above the end once (C063)", t: bounded(0, 49), kind: feed.Diverged, want: unsure},
		{name: "above the end twice", d: seen(feed.Diverged, apart), t: bounded(0, 49), kind: feed.Diverged, want: believed},
		{name: "diverging, epoch ends below", d: doubt{diverging: true}, t: epochs(3, 49), kind: feed.Diverged, want: believed},
		{name: "diverging, epoch is missing", d: doubt{diverging: true}, t: epochs(2, 50), kind: feed.Diverged, want: believed},
		{name: "diverging, not confirmed", d: doubt{diverging: true}, t: epochs(3, 50), want: spurious},
		{name: "diverging, nothing known", d: doubt{diverging: true}, t: epochs(feed.NoEpoch, feed.Unknown), want: spurious},
		{name: "diverging, never confirmed", d: doubt{diverging: true}, t: epochs(3, 50), doubts: retries, kind: feed.Diverged, want: believed},
	} {
		kind, got := c.d.judge(position{id: id, next: 50, lastEpoch: 3, doubts: c.doubts}, c.t, now)
		if kind != c.kind || got != c.want {
			t.Errorf("%s: got %v, %d; want %v, %d", c.name, kind, got, c.kind, c.want)
		}
	}
}

func TestRetentionOverrun(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		w.produce("orders", 0, testBatch(10, 10))
		if err := w.c.DeleteRecords("orders", 0, 15); err != nil {
			t.Fatal(err)
		}
		start := w.start("orders", 0)
		start.Next = 4
		f := w.final(w.f.Open(start), feed.Overrun)
		if f.Next != 4 || f.LogStart != 15 || f.LogEnd != 20 || f.Broker < 0 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestAnEndBelowThePositionIsADivergence(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		start := w.start("orders", 0)
		start.Next, start.LastEpoch = 25, 0
		began := time.Now()
		f := w.final(w.f.Open(start), feed.Diverged)
		if f.Next != 25 || f.LogStart != 0 || f.LogEnd != 10 || f.DivergingEnd != 10 {
			t.Errorf("got %+v", f)
		}
		if time.Since(began) < apart {
			t.Error("believed at once")
		}
	})
}

// C065: believed once, it would read again from the start.
func TestASpuriousOutOfRangeIsNotBelieved(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		st := w.f.Open(w.start("orders", 0))
		w.readTo(st, 0, 10)
		h := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: kerr.OffsetOutOfRange, Count: 3})
		time.Sleep(time.Second)
		if h.Hits() != 3 {
			t.Fatalf("%d hits", h.Hits())
		}
		w.produce("orders", 0, testBatch(10, 10))
		w.readTo(st, 10, 20)
	})
}

// diverge has every Fetch that names a last epoch answered with DivergingEpoch.
func (w *world) diverge(epoch int32, end int64) {
	w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.FetchRequest)
		w.c.KeepControl()
		if len(req.Topics) == 0 || req.Topics[0].Partitions[0].LastFetchedEpoch < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = []byte{}
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 120, 120, 0
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = epoch, end
		t.Partitions = append(t.Partitions, p)
		resp.Topics = append(resp.Topics, t)
		return resp, nil, true
	})
}

func TestDivergingEpoch(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(100, 10))
		w.diverge(0, 30)
		w.c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.c.KeepControl()
			req := r.(*kmsg.OffsetForLeaderEpochRequest)
			resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
			t := kmsg.NewOffsetForLeaderEpochResponseTopic()
			t.Topic = req.Topics[0].Topic
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.LeaderEpoch, p.EndOffset = 0, 30
			t.Partitions = append(t.Partitions, p)
			resp.Topics = append(resp.Topics, t)
			return resp, nil, true
		})
		start := w.start("orders", 0)
		start.Next, start.LastEpoch = 80, 0
		f := w.final(w.f.Open(start), feed.Diverged)
		if f.Next != 80 || f.DivergingEpoch != 0 || f.DivergingEnd != 30 || f.LogStart != 0 || f.LogEnd < 100 {
			t.Errorf("got %+v", f)
		}
	})
}

// The leader says two things: we do not go on, but not at the first word.
func TestADivergenceThatIsNeverConfirmedStopsTheStream(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(100, 10))
		w.diverge(0, 30)
		start := w.start("orders", 0)
		start.Next, start.LastEpoch = 80, 0
		f := w.final(w.f.Open(start), feed.Diverged)
		if f.DivergingEpoch != 0 || f.DivergingEnd != 30 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestTheLastEpochIsSent(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		st := w.f.Open(w.start("orders", 0))
		w.readTo(st, 0, 10)
		if err := w.c.MoveTopicPartition("orders", 0, 1-w.c.LeaderFor("orders", 0)); err != nil {
			t.Fatal(err)
		}
		w.produce("orders", 0, testBatch(10, 10))
		w.readTo(st, 10, 20)
		sent := make(chan kmsg.FetchRequestTopicPartition, 1)
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			sent <- r.(*kmsg.FetchRequest).Topics[0].Partitions[0]
			return nil, nil, false
		})
		got := <-sent
		epoch := w.c.PartitionInfo("orders", 0).Epoch
		if got.FetchOffset != 20 || got.LastFetchedEpoch != epoch || got.CurrentLeaderEpoch != epoch || epoch == 0 {
			t.Errorf("asked %+v in epoch %d", got, epoch)
		}
	})
}

func TestDeletedAndRecreatedTopics(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		n := int32(2)
		if sessions {
			n = sessionFrom + 20
		}
		inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": n, "other": 1}}, func(w *world) {
			w.produce("orders", 0, testBatch(10, 10))
			streams := make([]feed.Stream, n)
			for p := range n {
				streams[p] = w.f.Open(w.start("orders", p))
			}
			other := w.f.Open(w.start("other", 0))
			w.readTo(streams[0], 0, 10)
			if err := w.c.DeleteTopic("orders"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for _, st := range streams {
				w.final(st, feed.Gone)
			}
			if d := time.Since(began); d < apart || d > 20*time.Second {
				t.Errorf("gone after %v", d)
			}
			w.produce("other", 0, testBatch(10, 10))
			w.readTo(other, 0, 10)
		})
		inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": n}}, func(w *world) {
			w.produce("orders", 0, testBatch(10, 10))
			streams := make([]feed.Stream, n)
			for p := range n {
				streams[p] = w.f.Open(w.start("orders", p))
			}
			w.readTo(streams[0], 0, 10)
			if err := w.c.DeleteTopic("orders"); err != nil {
				t.Fatal(err)
			}
			if err := w.c.CreateTopic("orders", n, nil); err != nil {
				t.Fatal(err)
			}
			w.produce("orders", 0, testBatch(90, 10))
			for _, st := range streams {
				w.final(st, feed.Recreated)
			}
		})
	}
}

// Right after creation not every broker knows a topic.
func TestAnUnknownTopicIDIsNotBelievedAlone(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.UnknownTopicID, kerr.UnknownTopicOrPartition, kerr.InconsistentTopicID} {
		inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
			w.produce("orders", 0, testBatch(10, 10))
			w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: err, Count: 4})
			w.readTo(w.f.Open(w.start("orders", 0)), 0, 10)
		})
	}
}

func TestMetadataThatLagIsNotBelievedOnce(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.produce("orders", 0, testBatch(10, 10))
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Err: kerr.UnknownTopicOrPartition, Count: 2})
		w.readTo(w.f.Open(w.start("orders", 0)), 0, 10)
	})
}
