package appender

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"klink/fetcher/leaders"
)

// BenchmarkAppend compares the appender with the barest loop: per partition
// one goroutine that sends one batch per request on a client of its own lane.
// The broker throws records away, but it checks them, in the same process: the
// figures serve to compare the two, not to say how fast either is.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 1 << 20} {
		for _, partitions := range []int32{8, 32} {
			name := fmt.Sprintf("batch=%d/partitions=%d", size, partitions)
			b.Run("appender/"+name, func(b *testing.B) { benchAppend(b, partitions, size, (*benchRig).appender) })
			b.Run("bare/"+name, func(b *testing.B) { benchAppend(b, partitions, size, (*benchRig).bare) })
		}
	}
}

type benchRig struct {
	a       *Appender
	lanes   []*kgo.Client
	targets []Target
	sent    *kfake.FaultHandle
}

// one is a loop over the batches of one partition; next hands out batch
// numbers until none are left.
type one func(r *benchRig, b *testing.B, p int, batch []byte, next func() bool)

func (r *benchRig) appender(b *testing.B, p int, batch []byte, next func() bool) {
	for off := int64(0); next(); off++ {
		setSequence(batch, int32(off))
		if res := r.a.Append(b.Context(), r.targets[p], batch, off); res.Outcome != Appended {
			b.Errorf("partition %d: %+v", p, res)
			return
		}
	}
}

func (r *benchRig) bare(b *testing.B, p int, batch []byte, next func() bool) {
	cl := r.lanes[p%len(r.lanes)]
	for off := int64(0); next(); off++ {
		setSequence(batch, int32(off))
		req := kmsg.NewPtrProduceRequest()
		req.TimeoutMillis = 10_000
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = r.targets[p].Topic, r.targets[p].ID
		t.Partitions = []kmsg.ProduceRequestTopicPartition{{Partition: r.targets[p].Partition, Records: batch}}
		req.Topics = append(req.Topics, t)
		kresp, err := cl.Broker(0).Request(b.Context(), req)
		if err != nil || kresp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset != off {
			b.Errorf("partition %d: %v %+v", p, err, kresp)
			return
		}
	}
}

func setSequence(batch []byte, seq int32) {
	binary.BigEndian.PutUint32(batch[53:], uint32(seq))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
}

func benchAppend(b *testing.B, partitions int32, size int, loop one) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BlackholeProduce(), kfake.SeedTopics(partitions, "a"),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "4000000"}))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	client := func() *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DisableClientMetrics())
		if err != nil {
			b.Fatal(err)
		}
		return cl
	}
	r := &benchRig{lanes: []*kgo.Client{client(), client()}}
	admin := client()
	clients := append([]*kgo.Client{admin}, r.lanes...)
	defer func() {
		for _, cl := range clients {
			cl.Close()
		}
	}()
	m := leaders.New(admin)
	defer m.Close()
	if err := m.Refresh(b.Context(), "a"); err != nil {
		b.Fatal(err)
	}
	r.a = New(Options{Lanes: r.lanes, Slow: admin, Admin: admin, Leaders: m})
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.a.Run(ctx) })
	defer run.Wait()
	defer cancel()
	r.sent = cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true})
	for p := range partitions {
		r.targets = append(r.targets, Target{Topic: "a", ID: cluster.TopicInfo("a").TopicID, Partition: p})
	}
	// Warm up: connections, and kgo's first metadata.
	batches := make([][]byte, partitions)
	for p := range batches {
		batches[p] = paddedBatch(1, testPID+int64(p), 0, 0, make([]byte, size))
	}

	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(int64(len(batches[0])))
	b.ReportAllocs()
	b.ResetTimer()
	begun := time.Now()
	var wg sync.WaitGroup
	for p := range batches {
		wg.Go(func() { loop(r, b, p, batches[p], func() bool { return left.Add(-1) >= 0 }) })
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "batches/s")
	b.ReportMetric(float64(b.N)/float64(max(1, r.sent.Hits())), "batches/request")
}
