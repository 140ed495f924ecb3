package workers

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	session = DefaultSessionTimeout
	length  = DefaultSessionTimeout - DefaultMargin
	step    = 10 * time.Millisecond
)

// rig is an embedded cluster and the members of one group on it. It lives in a
// synctest bubble: waiting takes no time.
type rig struct {
	t       testing.TB
	cluster *kfake.Cluster
	net     *kfake.VirtualNetwork
	topics  map[string]int32
	workers []*worker
	// reads counts what must never be sent (W8).
	reads *kfake.FaultHandle
}

func newRig(t testing.TB, topics map[string]int32, opts ...kfake.Opt) *rig {
	t.Helper()
	r := &rig{t: t, net: &kfake.VirtualNetwork{}, topics: topics}
	opts = append(opts, kfake.ListenFn(r.net.Listen), kfake.Ports(9092, 9093))
	for name, n := range topics {
		opts = append(opts, kfake.SeedTopics(n, name))
	}
	var err error
	if r.cluster, err = kfake.NewCluster(opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cluster.Close)
	r.reads = r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetCommit}, Count: -1, Observe: true})
	t.Cleanup(func() {
		if n := r.reads.Hits(); n > 0 {
			t.Errorf("%d Fetch, ListOffsets or OffsetCommit requests", n)
		}
	})
	return r
}

// worker is one process.
type worker struct {
	*Members
	wire wire
	stop func()
}

func (r *rig) start(topics ...string) *worker {
	r.t.Helper()
	w := &worker{wire: wire{net: r.net, conns: make(map[net.Conn]bool)}}
	w.Members = New(Options{Group: "test-klink", Link: "test", NewClient: func(more ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.Dialer(w.wire.dial),
			kgo.DisableClientMetrics(), kgo.MetadataMinAge(100 * time.Millisecond)}, more...)...)
	}})
	w.Watch(topics)
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	w.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	r.t.Cleanup(w.stop)
	r.workers = append(r.workers, w)
	return w
}

// holds counts the partitions a worker holds.
func (r *rig) holds(w *worker) (n int) {
	for topic, ps := range r.topics {
		for p := range ps {
			if _, ok := w.Held(topic, p); ok {
				n++
			}
		}
	}
	return n
}

// pass lets time go by until is, and fails where that takes longer than d or two
// workers hold one partition at any time. It returns how long it took.
func (r *rig) pass(d time.Duration, what string, is func() bool) time.Duration {
	r.t.Helper()
	for begin := time.Now(); ; time.Sleep(step) {
		r.exclusive()
		took := time.Since(begin)
		if is != nil && is() {
			return took
		}
		if took >= d {
			if is != nil {
				r.t.Fatalf("waited %v in vain for %s%s", d, what, r.show())
			}
			return took
		}
	}
}

func (r *rig) exclusive() {
	r.t.Helper()
	for topic, ps := range r.topics {
		for p := range ps {
			holders := 0
			for _, w := range r.workers {
				if _, ok := w.Held(topic, p); ok {
					holders++
				}
			}
			if holders > 1 {
				r.t.Fatalf("%d workers hold %s[%d]", holders, topic, p)
			}
		}
	}
}

func (r *rig) show() (s string) {
	for i, w := range r.workers {
		s += fmt.Sprintf("\nworker %d holds %d, trouble %v", i, r.holds(w), w.Trouble())
	}
	return s
}

// wire is one process's way to the cluster.
type wire struct {
	net *kfake.VirtualNetwork

	mu     sync.Mutex // guards below
	cut    bool
	thawed chan struct{} // not nil: nothing passes until it is closed
	conns  map[net.Conn]bool
}

var errCut = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := w.pass(); err != nil {
		return nil, err
	}
	c, err := w.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
	return &wired{Conn: c, wire: w}, nil
}

// pass waits while the wire is frozen.
func (w *wire) pass() error {
	w.mu.Lock()
	cut, thawed := w.cut, w.thawed
	w.mu.Unlock()
	if thawed != nil {
		<-thawed
	}
	if cut {
		return errCut
	}
	return nil
}

// sever ends all connections and lets no new one be made.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// freeze holds up whatever is sent until the returned function is called, as if
// the process had been stopped.
func (w *wire) freeze() (thaw func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thawed = make(chan struct{})
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		close(w.thawed)
		w.thawed = nil
	})
}

type wired struct {
	net.Conn
	wire *wire
}

func (c *wired) Write(b []byte) (int, error) {
	if err := c.wire.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
