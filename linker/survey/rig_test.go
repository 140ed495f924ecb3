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
	// client makes clients that are closed with the test.
	client func(...kgo.Opt) *kgo.Client
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
	t.Cleanup(k.Close)
	client := func(opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.ListenAddrs()...), kgo.DisableClientMetrics(),
			kgo.Dialer(func(ctx context.Context, netw, addr string) (net.Conn, error) {
				return network.DialContext(ctx, netw, addr)
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	admin, lane, slow := client(), client(kgo.DisableIdempotentWrite()), client(kgo.DisableIdempotentWrite())
	m := leaders.New(admin)
	c := &cluster{Cluster: k, admin: admin, client: client, read: plainReader{fetcher.NewLogReader(admin, m, fetcher.NewBudget(0))},
		a: appender.New(appender.Options{Lanes: []*kgo.Client{lane}, Slow: slow, Admin: admin, Leaders: m, Markers: client(), MarkerBulks: client()})}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.a.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		m.Close()
	})
	return c
}

func partitionZero(topic string) appender.Target { return appender.Target{Topic: topic} }
