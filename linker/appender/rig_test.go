package appender

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/fetcher/leaders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testPID = int64(1)<<62 + 7

// rig is an embedded cluster with an appender on it.
type rig struct {
	t       testing.TB
	cluster *kfake.Cluster
	net     *kfake.VirtualNetwork
	leaders *leaders.Map
	a       *Appender
	admin   *kgo.Client
	halt    func() // ends Run
	stop    func() // ends everything
	// loseAnswer makes the next answer on a fast lane vanish after the broker
	// has sent it; the connection then ends.
	loseAnswer atomic.Bool
	// loseMarkers is the same for marker connections.
	loseMarkers atomic.Bool
	// dials counts connections by role.
	dials map[string]*atomic.Int32
	// refuse makes every dial of a produce client fail.
	refuse atomic.Bool
}

type rigOptions struct {
	brokers int
	topics  map[string]int32
	lanes   int
	edit    func(*Options)
	cluster []kfake.Opt
	client  []kgo.Opt
	noRun   bool
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, net: &kfake.VirtualNetwork{}, dials: make(map[string]*atomic.Int32)}
	var ports []int
	opts := []kfake.Opt{kfake.ListenFn(r.net.Listen)}
	for i := range max(1, o.brokers) {
		ports = append(ports, 9092+i)
	}
	opts = append(opts, kfake.Ports(ports...))
	for name, n := range o.topics {
		opts = append(opts, kfake.SeedTopics(n, name))
	}
	cluster, err := kfake.NewCluster(append(opts, o.cluster...)...)
	if err != nil {
		t.Fatal(err)
	}
	r.cluster = cluster
	r.admin = r.client("admin", o.client...)
	r.leaders = leaders.New(r.admin)
	opt := Options{Slow: r.client("slow", o.client...), Admin: r.admin, Leaders: r.leaders, Link: "test",
		Markers: r.client("markers", o.client...), MarkerBulks: r.client("bulks", o.client...)}
	for range max(1, o.lanes) {
		opt.Lanes = append(opt.Lanes, r.client("fast", o.client...))
	}
	clients := append(slices.Clone(opt.Lanes), opt.Slow, opt.Admin, opt.Markers, opt.MarkerBulks)
	if o.edit != nil {
		o.edit(&opt)
	}
	r.a = New(opt)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	if !o.noRun {
		wg.Go(func() {
			if err := r.a.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	r.halt = func() {
		cancel()
		wg.Wait()
	}
	r.stop = sync.OnceFunc(func() {
		r.halt()
		r.leaders.Close()
		for _, cl := range clients {
			cl.Close()
		}
		cluster.Close()
	})
	t.Cleanup(r.stop)
	var names []string
	for name := range o.topics {
		names = append(names, name)
	}
	if err := r.leaders.Refresh(ctx, names...); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) client(role string, more ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	dials := new(atomic.Int32)
	r.dials[role] = dials
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if role != "admin" && r.refuse.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: io.ErrClosedPipe}
		}
		c, err := r.net.DialContext(ctx, network, addr)
		dials.Add(1)
		switch {
		case err == nil && role == "fast":
			c = &forgetful{Conn: c, lose: &r.loseAnswer, key: int16(kmsg.Produce)}
		case err == nil && (role == "markers" || role == "bulks"):
			c = &forgetful{Conn: c, lose: &r.loseMarkers, key: anyRequest}
		}
		return c, err
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.Dialer(dial),
		kgo.ClientID(role), kgo.DisableClientMetrics()}, more...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return cl
}

const anyRequest = -1

// forgetful loses an answer to a kind of request, or the next one: it reads it, so the
// broker has done its work, and then ends the connection. Clients ask for metadata
// whenever they like.
type forgetful struct {
	net.Conn
	lose *atomic.Bool
	key  int16
	sent atomic.Bool // the last request is of that kind
}

func (f *forgetful) Write(b []byte) (int, error) {
	if len(b) >= 6 { // after its size, kgo writes a request at once
		f.sent.Store(f.key == anyRequest || int16(binary.BigEndian.Uint16(b[4:])) == f.key)
	}
	return f.Conn.Write(b)
}

func (f *forgetful) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if err == nil && f.sent.Load() && f.lose.CompareAndSwap(true, false) {
		f.Close()
		return 0, io.EOF
	}
	return n, err
}

func (r *rig) target(topic string, p int32) Target {
	r.t.Helper()
	info := r.cluster.TopicInfo(topic)
	if info == nil {
		r.t.Fatalf("no topic %s", topic)
	}
	return Target{Topic: topic, ID: info.TopicID, Partition: p}
}

func (r *rig) append(t Target, seq int32, n int, expect int64) Result {
	return r.a.Append(r.t.Context(), t, dataBatch(n, testPID, 0, seq), expect)
}

func (r *rig) end(t Target) int64 {
	r.t.Helper()
	e := r.a.LogEnds(r.t.Context(), []Target{t})[t]
	if e.Err != nil {
		r.t.Fatalf("log end: %v", e.Err)
	}
	return e.End
}

// control watches produce requests until the cluster closes. fn runs on the
// cluster's goroutine and may answer as a kfake control function does.
func (r *rig) control(fn func(*kmsg.ProduceRequest) (kmsg.Response, error, bool)) {
	r.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return fn(req.(*kmsg.ProduceRequest))
	})
}

func partitionsOf(req *kmsg.ProduceRequest) (n int, bytes int) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			n++
			bytes += len(p.Records)
		}
	}
	return n, bytes
}

func carries(req *kmsg.ProduceRequest, partition int32) bool {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return true
			}
		}
	}
	return false
}

// dataBatch makes an uncompressed batch of n small records.
func dataBatch(n int, pid int64, epoch int16, seq int32) []byte {
	return paddedBatch(n, pid, epoch, seq, []byte("value"))
}

func paddedBatch(n int, pid int64, epoch int16, seq int32, value []byte) []byte {
	var records []byte
	for i := range n {
		rec := kmsg.Record{OffsetDelta: int32(i), Key: []byte("key"), Value: value}
		body := rec.AppendTo(nil)[1:] // a length of 0 takes one byte
		rec.Length = int32(len(body))
		records = rec.AppendTo(records)
	}
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: 1_700_000_000_000,
		MaxTimestamp: 1_700_000_000_000, ProducerID: pid, ProducerEpoch: epoch, FirstSequence: seq, NumRecords: int32(n), Records: records}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// holder keeps produce requests in the broker's hands until released.
type holder struct {
	arrived chan struct{}
	gate    chan struct{}
	release func()
}

// hold makes the broker sit on matching requests. Others are served meanwhile.
func (r *rig) hold(match func(*kmsg.ProduceRequest) bool) *holder {
	h := &holder{arrived: make(chan struct{}, 1000), gate: make(chan struct{})}
	h.release = sync.OnceFunc(func() {
		close(h.gate)
		synctest.Wait() // kfake must not be closed while it resumes a request
	})
	r.control(func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		if match(req) {
			h.arrived <- struct{}{}
			r.cluster.SleepControl(func() { <-h.gate })
		}
		return nil, nil, false
	})
	return h
}

func (h *holder) wait(n int) {
	for range n {
		<-h.arrived
	}
}

// part returns what is kept for a partition, nil for nothing.
func (r *rig) part(t Target) *part {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	return r.a.parts[t]
}

// parts counts the partitions for which something is kept.
func (r *rig) parts() int {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	return len(r.a.parts)
}
