package fetcher

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an embedded cluster on a network of pipes, with a fetcher on it.
type world struct {
	t       *testing.T
	c       *kfake.Cluster
	net     *kfake.VirtualNetwork
	dead    deadPorts
	cl      *kgo.Client
	leaders *leaders.Map
	budget  *Budget
	f       *Fetcher
	stop    func()
}

type setup struct {
	brokers    int
	topics     map[string]int32
	budget     int64
	partBytes  int32
	clientOpts []kgo.Opt
	opts       []kfake.Opt
	change     func(*Options)
}

// inWorld runs fn in virtual time.
func inWorld(t *testing.T, s setup, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		defer w.close()
		fn(w)
	})
}

func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{t: t, net: &kfake.VirtualNetwork{}}
	ports := make([]int, max(1, s.brokers))
	for i := range ports {
		ports[i] = 9000 + i
	}
	opts := append([]kfake.Opt{kfake.ListenFn(w.net.Listen), kfake.Ports(ports...)}, s.opts...)
	for topic, n := range s.topics {
		opts = append(opts, kfake.SeedTopics(n, topic))
	}
	var err error
	if w.c, err = kfake.NewCluster(opts...); err != nil {
		t.Fatal(err)
	}
	w.cl = w.client(s.clientOpts...)
	w.leaders = leaders.New(w.cl)
	w.budget = NewBudget(s.budget)
	short := w.client(s.clientOpts...)
	o := Options{Client: w.client(s.clientOpts...), Short: short, Admin: w.cl, Leaders: w.leaders, Budget: w.budget,
		PartitionBytes: s.partBytes, Link: "test"}
	if s.change != nil {
		s.change(&o)
	}
	w.f = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // the result waits for close
	go func() { done <- w.f.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		o.Client.Close()
		short.Close()
	})
	return w
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.c.ListenAddrs()...), kgo.Dialer(w.dial),
		kgo.DisableClientMetrics(), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return cl
}

func (w *world) close() {
	w.stop()
	w.leaders.Close()
	w.cl.Close()
	w.c.Close()
	if u := w.budget.Usage(); u.Reserved != 0 {
		w.t.Errorf("%d bytes still reserved", u.Reserved)
	}
}

func (w *world) start(topic string, p int32) feed.Start {
	w.t.Helper()
	info := w.c.TopicInfo(topic)
	if info == nil {
		w.t.Fatalf("no topic %s", topic)
	}
	return feed.Start{Partition: feed.Partition{Topic: topic, Partition: p}, ID: info.TopicID, LastEpoch: feed.NoEpoch}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// testBatch returns a v2 batch of n records with values of size bytes.
func testBatch(n, size int) []byte {
	var recs []byte
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Value: bytes.Repeat([]byte{'v'}, size)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		body := r.AppendTo(nil)
		// The length is a varint of its own size: encode until it fits.
		for {
			prefix := len(binary.AppendVarint(nil, int64(r.Length)))
			if int(r.Length) == len(body)-prefix {
				break
			}
			r.Length = int32(len(body) - prefix)
			body = r.AppendTo(nil)
		}
		recs = append(recs, body...)
	}
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), ProducerID: -1,
		ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: recs,
		FirstTimestamp: 1, MaxTimestamp: 1}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// produce appends a batch raw and fails the test unless it is accepted.
func (w *world) produce(topic string, p int32, b []byte) {
	w.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, w.c.TopicInfo(topic).TopicID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = p, b
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := w.cl.Broker(int(w.c.LeaderFor(topic, p))).Request(context.Background(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
		w.t.Fatal(err)
	}
}

// deadPorts are brokers that are down: dials fail and connections are cut.
type deadPorts struct {
	mu     sync.Mutex
	down   map[string]bool
	silent map[string]bool
	conns  map[string][]net.Conn
	muted  []net.Conn // silent one by one
}

func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.dead.mu.Lock()
	down := w.dead.down[addr]
	w.dead.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c, err := w.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.dead.mu.Lock()
	defer w.dead.mu.Unlock()
	if w.dead.conns == nil {
		w.dead.conns = make(map[string][]net.Conn)
	}
	w.dead.conns[addr] = append(w.dead.conns[addr], c)
	return &silentConn{c, w, addr}, nil
}

// kill takes a broker down; revive brings it back.
func (w *world) kill(node int32) {
	w.dead.mu.Lock()
	defer w.dead.mu.Unlock()
	addr := w.c.ListenAddrs()[node]
	if w.dead.down == nil {
		w.dead.down = make(map[string]bool)
	}
	w.dead.down[addr] = true
	for _, c := range w.dead.conns[addr] {
		c.Close()
	}
	delete(w.dead.conns, addr)
}

func (w *world) revive(node int32) {
	w.dead.mu.Lock()
	defer w.dead.mu.Unlock()
	delete(w.dead.down, w.c.ListenAddrs()[node])
}

// patience is virtual time.
const testPatience = 2 * time.Minute

func (w *world) event(st feed.Stream) (feed.Event, bool) {
	w.t.Helper()
	select {
	case e, ok := <-st.Events:
		return e, ok
	case <-time.After(testPatience):
		w.t.Fatal("no event")
		return feed.Event{}, false
	}
}

// fault returns the next fault and drops chunks before it.
func (w *world) fault(st feed.Stream) *feed.Fault {
	w.t.Helper()
	for {
		e, ok := w.event(st)
		if !ok {
			w.t.Fatal("closed without a fault")
		}
		if e.Fault != nil {
			return e.Fault
		}
		e.Chunk.Release()
	}
}

// final returns the next fault, which must end the stream (F2).
func (w *world) final(st feed.Stream, kind feed.Kind) *feed.Fault {
	w.t.Helper()
	f := w.fault(st)
	for f.Kind.Temporary() {
		f = w.fault(st)
	}
	if f.Kind != kind {
		w.t.Fatalf("got %v, want %v", f, kind)
	}
	if e, ok := w.event(st); ok {
		w.t.Fatalf("event after a final fault: %+v", e)
	}
	return f
}

// follower checks F1 and the order of a stream's chunks.
type follower struct {
	t    testing.TB
	next int64
}

func (r *follower) take(c *feed.Chunk) {
	r.t.Helper()
	if c.Bytes == 0 {
		return
	}
	if c.Next != r.next {
		r.t.Errorf("chunk asked for at %d follows %d", c.Next, r.next)
	}
	bytes := 0
	for i, b := range c.Batches {
		h, err := batch.ParseHeader(b)
		if err != nil {
			r.t.Fatal(err)
		}
		if h.BaseOffset > r.next || h.LastOffset() < r.next || i > 0 && h.BaseOffset != r.next {
			r.t.Errorf("batch %d to %d where %d is next", h.BaseOffset, h.LastOffset(), r.next)
		}
		if err := batch.CheckCRC(b); err != nil {
			r.t.Error(err)
		}
		bytes += len(b)
		r.next = h.NextOffset()
	}
	if bytes != c.Bytes {
		r.t.Errorf("chunk of %d bytes says %d", bytes, c.Bytes)
	}
}

// readTo receives until the stream has brought everything below end.
func (w *world) readTo(st feed.Stream, from, end int64) {
	w.t.Helper()
	r := &follower{t: w.t, next: from}
	for r.next < end {
		e, ok := w.event(st)
		switch {
		case !ok:
			w.t.Fatalf("closed at %d of %d", r.next, end)
		case e.Fault != nil && !e.Fault.Kind.Temporary():
			w.t.Fatalf("at %d of %d: %v", r.next, end, e.Fault)
		case e.Chunk != nil:
			r.take(e.Chunk)
			e.Chunk.Release()
		}
	}
	if r.next != end {
		w.t.Fatalf("read to %d, want %d", r.next, end)
	}
}

func testLimit(bytesPerSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(bytesPerSecond), bytesPerSecond/4)
}

func mustMetrics(t testing.TB) *metrics {
	t.Helper()
	m, err := newMetrics(nil, "test")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fakePart is a partition's share of an answer with one batch.
func fakePart(b []byte) part {
	resp := kmsg.NewFetchResponseTopicPartition()
	return part{s: newReading(feed.Start{}), resp: &resp, slice: slice{batches: [][]byte{b}, bytes: len(b), next: 1}}
}
