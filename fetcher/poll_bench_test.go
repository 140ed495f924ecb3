package fetcher

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// BenchmarkPoll measures our side of one poll that brings one batch: building
// and encoding the request, decoding the answer, finding and updating the
// partitions. sessionFrom rests on it.
func BenchmarkPoll(b *testing.B) {
	for _, n := range []int{10, 100, 300, 1000, 10000} {
		for _, session := range []bool{false, true} {
			name := fmt.Sprintf("partitions=%d/session=%v", n, session)
			b.Run(name, func(b *testing.B) { benchPoll(b, n, session) })
		}
	}
}

func benchPoll(b *testing.B, n int, session bool) {
	cl, err := kgo.NewClient()
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	m := leaders.New(cl)
	defer m.Close()
	f := New(Options{Client: cl, Admin: cl, Leaders: m, Budget: NewBudget(0)})
	br := &broker{f: f, id: 1, label: f.met.broker(1)}
	br.long, br.short = newLane(br, cl), newLane(br, cl)
	for i := range n {
		s := newReading(feed.Start{Partition: feed.Partition{Topic: "orders", Partition: int32(i)}, ID: feed.TopicID{1}, LastEpoch: feed.NoEpoch})
		s.phase, s.home = assigned, br
		s.toldAt = time.Now().Add(time.Hour) // news are not what is measured
		f.open[s.start.Partition] = s
		br.long.enterLocked(s)
	}
	if session {
		br.long.session.restart()
		br.long.session.id, br.long.session.epoch = 7, 1
	}
	raw := testBatch(1, 100)
	busy := f.open[feed.Partition{Topic: "orders", Partition: 3}]
	wire := 0
	for b.Loop() {
		f.mu.Lock()
		br.long.dirtyLocked(busy)
		req := br.long.requestLocked(1 << 20)
		f.mu.Unlock()
		req.Version = 18
		wire = len(req.AppendTo(nil))

		resp := answerTo(f, session, raw)
		out := kmsg.NewFetchResponse()
		out.Version = 18
		encoded := resp.AppendTo(nil)
		wire += len(encoded)
		if err := out.ReadFrom(encoded); err != nil {
			b.Fatal(err)
		}
		granted, _ := f.budget.reserve(context.Background(), 1<<20, 1)
		if err := br.long.answered(context.Background(), exchange{resp: &out, sent: time.Now(), reserved: granted}); err != nil {
			b.Fatal(err)
		}
		(<-busy.events).Chunk.Release()
		f.mu.Lock()
		busy.next = 0
		br.takeReadyLocked(br.long)
		f.mu.Unlock()
	}
	b.ReportMetric(float64(wire), "wire-B/op")
}

func answerTo(f *Fetcher, session bool, raw []byte) *kmsg.FetchResponse {
	resp := kmsg.NewFetchResponse()
	resp.Version = 18
	if session {
		resp.SessionID = 7
	}
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = "orders", [16]byte{1}
	for i := range len(f.open) {
		if session && i != 3 {
			continue
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = int32(i)
		p.RecordBatches = []byte{}
		if i == 3 {
			p.RecordBatches = raw
		}
		t.Partitions = append(t.Partitions, p)
	}
	resp.Topics = append(resp.Topics, t)
	return &resp
}
