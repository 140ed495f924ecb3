package leaders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// virtual runs fn on a cluster without real sockets, in virtual time.
func virtual(t *testing.T, fn func(t *testing.T, c *kfake.Cluster, m *Map), opts ...kfake.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var net kfake.VirtualNetwork
		c, err := kfake.NewCluster(append([]kfake.Opt{
			kfake.ListenFn(net.Listen), kfake.Ports(9001, 9002, 9003), kfake.SeedTopics(3, "orders"),
		}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(net.DialContext), kgo.DisableClientMetrics())
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		m := New(cl)
		defer m.Close()
		fn(t, c, m)
	})
}

func refresh(t *testing.T, m *Map, topics ...string) {
	t.Helper()
	if err := m.Refresh(context.Background(), topics...); err != nil {
		t.Fatal(err)
	}
}

func TestRefreshLearnsLeadersEpochsAndIDs(t *testing.T) {
	virtual(t, func(t *testing.T, c *kfake.Cluster, m *Map) {
		if _, ok := m.Leader("orders", 0); ok {
			t.Fatal("a leader is known before anything was asked")
		}
		refresh(t, m, "orders", "nothing")
		for p := range int32(3) {
			l, ok := m.Leader("orders", p)
			if want := c.LeaderFor("orders", p); !ok || l.Broker != want || l.Epoch < 0 {
				t.Fatalf("partition %d: got %+v, %v; want broker %d", p, l, ok, want)
			}
		}
		topic, _ := m.Topic("orders")
		if topic.ID != c.TopicInfo("orders").TopicID || topic.Err != nil {
			t.Fatalf("got %+v", topic)
		}
		if n, ok := m.Name(topic.ID); !ok || n != "orders" {
			t.Fatalf("name of the id: %q, %v", n, ok)
		}
		gone, ok := m.Topic("nothing")
		if !ok || !errors.Is(gone.Err, kerr.UnknownTopicOrPartition) {
			t.Fatalf("unknown topic: %+v, %v", gone, ok)
		}
		if got := m.Brokers(); len(got) != 3 || m.ClusterID() == "" {
			t.Fatalf("brokers %v, cluster id %q", got, m.ClusterID())
		}
	})
}

func TestHintsNeverGoBack(t *testing.T) { // L1
	virtual(t, func(t *testing.T, _ *kfake.Cluster, m *Map) {
		refresh(t, m, "orders")
		was, _ := m.Leader("orders", 0)
		other := (was.Broker + 1) % 3
		for _, c := range []struct {
			name string
			hint Leader
			want Leader
		}{
			{"same epoch", Leader{other, was.Epoch}, was},
			{"no leader", Leader{-1, was.Epoch + 5}, was},
			{"no epoch", Leader{other, -1}, was},
			{"newer", Leader{other, was.Epoch + 2}, Leader{other, was.Epoch + 2}},
			{"older than the newer", Leader{was.Broker, was.Epoch + 1}, Leader{other, was.Epoch + 2}},
		} {
			m.Hint("orders", 0, c.hint)
			if got, _ := m.Leader("orders", 0); got != c.want {
				t.Fatalf("%s: got %+v, want %+v", c.name, got, c.want)
			}
		}
		refresh(t, m, "orders") // the cluster's answer is older than the hint
		if got, _ := m.Leader("orders", 0); got.Epoch != was.Epoch+2 {
			t.Fatalf("an older answer took the partition back: %+v", got)
		}
	})
}

func TestMoveIsSeen(t *testing.T) {
	virtual(t, func(t *testing.T, c *kfake.Cluster, m *Map) {
		refresh(t, m, "orders")
		was, _ := m.Leader("orders", 1)
		to := (was.Broker + 1) % 3
		if err := c.MoveTopicPartition("orders", 1, to); err != nil {
			t.Fatal(err)
		}
		refresh(t, m, "orders")
		if got, _ := m.Leader("orders", 1); got.Broker != to || got.Epoch <= was.Epoch {
			t.Fatalf("got %+v after %+v", got, was)
		}
	})
}

func TestRecreatedTopicResetsEpochs(t *testing.T) {
	virtual(t, func(t *testing.T, c *kfake.Cluster, m *Map) {
		if err := c.MoveTopicPartition("orders", 0, (c.LeaderFor("orders", 0)+1)%3); err != nil {
			t.Fatal(err)
		}
		refresh(t, m, "orders")
		old, _ := m.Topic("orders")
		if err := c.DeleteTopic("orders"); err != nil {
			t.Fatal(err)
		}
		refresh(t, m, "orders")
		gone, _ := m.Topic("orders")
		if !errors.Is(gone.Err, kerr.UnknownTopicOrPartition) || gone.ID != old.ID {
			t.Fatalf("after deletion: %+v", gone)
		}
		if n, ok := m.Name(old.ID); ok {
			t.Fatalf("the dead id still names %q", n)
		}
		if err := c.CreateTopic("orders", 1, nil); err != nil {
			t.Fatal(err)
		}
		refresh(t, m, "orders")
		now, _ := m.Topic("orders")
		if now.Err != nil || now.ID == old.ID || len(now.Leaders) != 1 || now.Leaders[0].Epoch >= old.Leaders[0].Epoch {
			t.Fatalf("after re-creation: %+v, before %+v", now, old)
		}
		if n, _ := m.Name(now.ID); n != "orders" {
			t.Fatalf("the new id names %q", n)
		}
	})
}

func TestNoLeader(t *testing.T) {
	virtual(t, func(t *testing.T, c *kfake.Cluster, m *Map) {
		c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
			req := r.(*kmsg.MetadataRequest)
			if len(req.Topics) == 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = req.Topics[0].Topic
			p := kmsg.NewMetadataResponseTopicPartition()
			p.ErrorCode, p.Leader, p.LeaderEpoch = kerr.LeaderNotAvailable.Code, -1, 7
			p.OfflineReplicas = []int32{2}
			topic.Partitions = append(topic.Partitions, p)
			p.Partition, p.OfflineReplicas = 1, []int32{2, 1}
			topic.Partitions = append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID = 1
			resp.Brokers = append(resp.Brokers, b)
			return resp, nil, true
		})
		refresh(t, m, "elections")
		if l, ok := m.Leader("elections", 0); ok || l.Broker != -1 || l.Epoch != 7 {
			t.Fatalf("got %+v, %v", l, ok)
		}
		// A broker that is away explains it; one that runs has lost its log folder.
		if s, _ := m.Look("elections", 0); !errors.Is(s.Absence(), kerr.LeaderNotAvailable) {
			t.Errorf("broker 2 is away: %v", s.Absence())
		}
		if s, _ := m.Look("elections", 1); !errors.Is(s.Absence(), ErrBroken) || !errors.Is(s.Absence(), kerr.KafkaStorageError) {
			t.Errorf("broker 1 runs: %v", s.Absence())
		}
	})
}

func TestRefreshesShareRequestsAndKeepApart(t *testing.T) { // L2
	virtual(t, func(t *testing.T, c *kfake.Cluster, m *Map) {
		var times []time.Time
		var mu sync.Mutex
		c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if len(r.(*kmsg.MetadataRequest).Topics) > 0 {
				mu.Lock()
				times = append(times, time.Now())
				mu.Unlock()
			}
			return nil, nil, false
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _ = m.Refresh(context.Background(), fmt.Sprintf("t%d", i%7)) })
			if i%25 == 24 {
				time.Sleep(MinInterval / 2) // virtual time
			}
		}
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(times) < 2 || len(times) > 4 {
			t.Fatalf("%d requests for 100 refreshes in two intervals", len(times))
		}
		for i := 1; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d < MinInterval {
				t.Fatalf("requests %v apart", d)
			}
		}
	})
}

func TestASilentBrokerDoesNotHoldTheNextRefresh(t *testing.T) { // L2
	virtual(t, func(t *testing.T, _ *kfake.Cluster, m *Map) {
		m.last = &flight{done: make(chan struct{})} // sent, and never answered
		began := time.Now()
		refresh(t, m, "orders")
		if d := time.Since(began); d < patience || d > patience+time.Second {
			t.Fatalf("waited %v for a request without an answer", d)
		}
	})
}

func TestTheReasonOfATimeoutIsFound(t *testing.T) {
	refused := errors.New("nobody listens")
	synctest.Test(t, func(t *testing.T) {
		cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:1", "localhost:2", "localhost:3"), kgo.DisableClientMetrics(),
			kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: refused}
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		m := New(cl)
		defer m.Close()
		if err := m.Refresh(context.Background(), "orders"); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRefreshEnds(t *testing.T) {
	virtual(t, func(t *testing.T, _ *kfake.Cluster, m *Map) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := m.Refresh(ctx, "orders"); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		m.Close()
		if err := m.Refresh(context.Background(), "orders"); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
	})
}
