package survey

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/appender"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is an embedded cluster with what klink asks clusters by.
type cluster struct {
	*kfake.Cluster
	admin *kgo.Client
	a     *appender.Appender
	read  Reader
}

// plainReader gives fetcher.LogReader the shape of the port.
type plainReader struct{ *fetcher.LogReader }

func (r plainReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	return r.LogReader.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: from, MaxBytes: maxBytes, ReadCommitted: true})
}

func startCluster(t testing.TB, opts ...kfake.Opt) *cluster {
	t.Helper()
	network := &kfake.VirtualNetwork{}
	k, err := kfake.NewCluster(append([]kfake.Opt{kfake.ListenFn(network.Listen), kfake.Ports(9092)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	client := func() *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.DisableIdempotentWrite(),
			kgo.Dialer(func(ctx context.Context, netw, addr string) (net.Conn, error) {
				return network.DialContext(ctx, netw, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	admin, lane, slow := client(), client(), client()
	m := leaders.New(admin)
	c := &cluster{Cluster: k, admin: admin, read: plainReader{fetcher.NewLogReader(admin, m, fetcher.NewBudget(0))},
		a: appender.New(appender.Options{Lanes: []*kgo.Client{lane}, Slow: slow, Admin: admin, Leaders: m})}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.a.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		m.Close()
		for _, cl := range []*kgo.Client{admin, lane, slow} {
			cl.Close()
		}
		k.Close()
	})
	return c
}
