package fetcher

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// BenchmarkFetch reads canned batches of 16 KiB over real sockets. The embedded
// broker shares the machine and is most of the work: compare runs, quote none.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int32{1, 8, 200} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) { benchFetch(b, n) })
	}
}

func benchFetch(b *testing.B, n int32) {
	raw := testBatch(16, 1024)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(n, "orders"), kfake.SyntheticFetch(kfake.SyntheticBatch{Batch: raw}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var cls [3]*kgo.Client
	for i := range cls {
		if cls[i], err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics()); err != nil {
			b.Fatal(err)
		}
		defer cls[i].Close()
	}
	m := leaders.New(cls[2])
	defer m.Close()
	f := New(Options{Client: cls[0], Short: cls[1], Admin: cls[2], Leaders: m, Budget: NewBudget(0), Link: "bench"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	got := make(chan int)
	for p := range n {
		st := f.Open(feed.Start{Partition: feed.Partition{Topic: "orders", Partition: p}, ID: c.TopicInfo("orders").TopicID, LastEpoch: feed.NoEpoch})
		go func() {
			for e := range st.Events {
				if e.Chunk == nil {
					continue
				}
				select {
				case got <- e.Chunk.Bytes:
				case <-ctx.Done():
				}
				e.Chunk.Release()
			}
		}()
	}
	b.SetBytes(1 << 20)
	b.ResetTimer()
	for left := b.N << 20; left > 0; {
		left -= <-got
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(f.budget.Usage().Peak), "peak-B")
}
