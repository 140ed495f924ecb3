package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
	"klink/cmd/lab/proxy"
)

const produce = int16(0)

// bench is an embedded broker behind a proxy with a topic t of one partition.
type bench struct {
	cluster *lab.Embedded
	proxy   *proxy.Proxy
	client  *kgo.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	e := labtest.StartEmbedded(t, lab.EmbeddedOptions{Proxy: true, Opts: []kfake.Opt{kfake.SeedTopics(1, "t")}})
	b := &bench{cluster: e, proxy: e.Proxies()[0]}
	b.connect(t)
	return b
}

// connect makes a new client. A connection that was cut shows it only to who
// reads it: the old client may still send on it, and fail.
func (b *bench) connect(t *testing.T) {
	t.Helper()
	// No retries and no idempotence: each produce is one request, once.
	c, err := kgo.NewClient(append(b.cluster.ClientOpts(), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.RequestRetries(0),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.client = c
}

func (b *bench) produce(ctx context.Context) error {
	return b.client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
}

func (b *bench) end() int64 { return b.cluster.Cluster().PartitionInfo("t", 0).HighWatermark }

// awaitEnd returns when the log end is want.
func (b *bench) awaitEnd(t *testing.T, want int64) {
	t.Helper()
	for b.end() != want {
		if t.Context().Err() != nil {
			t.Fatalf("the log ends at %d, want %d", b.end(), want)
		}
	}
}

func TestX2X3EachActionHasItsOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		action  proxy.Action
		fails   bool
		written bool
	}{
		{"forward", proxy.Forward, false, true},
		{"cut before", proxy.CutBefore, true, false},
		{"cut sent", proxy.CutSent, true, true},
		{"drop answer", proxy.DropAnswer, true, true},
		{"cut after", proxy.CutAfter, false, true},
		{"mute", proxy.Mute, true, true},
		{"swallow", proxy.Swallow, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			ctx := within(t, 20*time.Second)
			if err := b.produce(ctx); err != nil {
				t.Fatal(err)
			}
			remove := b.proxy.On(produce, proxy.Once(c.action))
			if err := b.produce(ctx); (err != nil) != c.fails {
				t.Errorf("the producer got %v, want an error: %t", err, c.fails)
			}
			want := int64(1)
			if c.written {
				want = 2
			}
			b.awaitEnd(t, want)
			remove()
			b.connect(t)
			if err := b.produce(ctx); err != nil {
				t.Errorf("after the fault: %v", err)
			}
			b.awaitEnd(t, want+1)
		})
	}
}

func TestAnAnswerHookDecidesWhenTheBrokerHasAnswered(t *testing.T) {
	b := newBench(t)
	ctx := within(t, 20*time.Second)
	for i, c := range []struct {
		action proxy.Action
		fails  bool
	}{{proxy.Forward, false}, {proxy.DropAnswer, true}, {proxy.CutAfter, false}} {
		ends := make(chan int64, 1)
		remove := b.proxy.OnAnswer(produce, func(f proxy.Frame) proxy.Action {
			ends <- b.end()
			return c.action
		})
		if err := b.produce(ctx); (err != nil) != c.fails {
			t.Errorf("action %d: the producer got %v, want an error: %t", c.action, err, c.fails)
		}
		remove()
		if end := <-ends; end != int64(i+1) {
			t.Errorf("in the hook the log ends at %d, want %d", end, i+1)
		}
	}
}

func TestAHookSeesTheRequest(t *testing.T) {
	b := newBench(t)
	frames := make(chan proxy.Frame, 1)
	defer b.proxy.On(produce, func(f proxy.Frame) proxy.Action {
		frames <- f
		return proxy.Forward
	})()
	if err := b.produce(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	f := <-frames
	if f.Key != produce || f.Nth != 1 || f.ClientID != "kgo" || f.Conn == 0 {
		t.Errorf("frame %+v", f)
	}
	req, err := f.Request()
	if err != nil {
		t.Fatal(err)
	}
	if p := req.(*kmsg.ProduceRequest); len(p.Topics) != 1 || len(p.Topics[0].Partitions) != 1 || p.Acks != -1 {
		t.Errorf("request %+v", p)
	}
	if n := b.proxy.Count(produce); n != 1 {
		t.Errorf("%d produce requests counted", n)
	}
	if err := b.proxy.Await(within(t, time.Second), produce, 1); err != nil {
		t.Error(err)
	}
	if err := b.proxy.Await(within(t, time.Millisecond), produce, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await of more than there were: %v", err)
	}
}

func TestAHookSeesTheAnswer(t *testing.T) {
	b := newBench(t)
	answers := make(chan proxy.Frame, 2)
	defer b.proxy.OnAnswer(proxy.AnyKey, func(f proxy.Frame) proxy.Action {
		if f.Key == produce {
			answers <- f
		}
		return proxy.Forward
	})()
	ctx := within(t, 10*time.Second)
	for want := range int64(2) {
		if err := b.produce(ctx); err != nil {
			t.Fatal(err)
		}
		f := <-answers
		resp, err := f.Answer()
		if err != nil {
			t.Fatal(err)
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != want {
			t.Errorf("answer %+v, want offset %d", p, want)
		}
		if _, err := f.Request(); err == nil {
			t.Error("the request is not to be had with the answer")
		}
		if host, _, err := net.SplitHostPort(f.Client); err != nil || host != "127.0.0.1" {
			t.Errorf("the client is at %q", f.Client)
		}
	}
}

func TestAProduceWithoutAnswerDoesNotShiftTheAnswers(t *testing.T) {
	b := newBench(t)
	ctx := within(t, 10*time.Second)
	c, err := kgo.NewClient(append(b.cluster.ClientOpts(), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitEnd(t, 3)
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
}

func TestRefuseAndBlackholeAndBack(t *testing.T) {
	b := newBench(t)
	mustSet := func(m proxy.Mode) {
		t.Helper()
		if err := b.proxy.SetMode(m); err != nil {
			t.Fatal(err)
		}
	}
	mustSet(proxy.Refuse)
	if _, err := net.Dial("tcp", b.proxy.Addr()); err == nil {
		t.Error("refuse: a connection was taken")
	}
	mustSet(proxy.Blackhole)
	conn, err := net.Dial("tcp", b.proxy.Addr())
	if err != nil {
		t.Fatalf("blackhole: %v", err)
	}
	conn.Close()
	done := make(chan error)
	go func() { done <- b.client.Ping(within(t, 20*time.Second)) }()
	if err := b.proxy.Await(within(t, 50*time.Millisecond), proxy.AnyKey, 1); err == nil {
		t.Error("blackhole: a request came through")
	}
	mustSet(proxy.Pass)
	if err := <-done; err != nil {
		t.Errorf("what was sent into the black hole did not go on: %v", err)
	}
}

func TestCutAllResets(t *testing.T) {
	b := newBench(t)
	conn, err := net.Dial("tcp", b.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for b.proxy.CutAll() == 0 { // until the proxy has taken it
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read gave %v, want a reset", err)
	}
	if err := b.client.Ping(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}

func TestTheRoundTripTakesItsTime(t *testing.T) {
	b := newBench(t)
	ctx := within(t, 20*time.Second)
	if err := b.client.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	const rtt = 60 * time.Millisecond
	b.proxy.SetRTT(rtt)
	start := time.Now()
	if err := b.client.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < rtt {
		t.Errorf("a request took %v, want at least %v", took, rtt)
	}
}

func TestBandwidthIsBounded(t *testing.T) {
	b := newBench(t)
	const perSecond, size, burst = 4 << 20, 512 << 10, 64 << 10
	b.proxy.SetBandwidth(perSecond)
	start := time.Now()
	if err := b.client.ProduceSync(within(t, 20*time.Second), &kgo.Record{Topic: "t", Value: make([]byte, size)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(start), time.Second*(size-burst)/perSecond; took < least {
		t.Errorf("%d bytes took %v, want at least %v", size, took, least)
	}
}

func TestX1BytesPassUnchanged(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		upstream := echo(t)
		p, err := proxy.Listen(proxy.Options{Listen: "127.0.0.1:0", Upstream: upstream, Opaque: opaque})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// A frame of 300 KiB that the echo sends back: its first bytes are a
		// length, and as an answer its correlation id matches no request.
		sent := make([]byte, 300<<10)
		for i := range sent {
			sent[i] = byte(i * 7)
		}
		n := len(sent) - 4
		copy(sent, []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		go conn.Write(sent)
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(conn, got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sent, got) {
			t.Errorf("opaque %t: other bytes came back", opaque)
		}
	}
}

func TestABrokerThatIsDownIsAReset(t *testing.T) {
	p, err := proxy.Listen(proxy.Options{Listen: "127.0.0.1:0", Upstream: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // reset before the dial was through
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection to a broker that is down lives")
	}
}

func TestX4CloseLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p, err := proxy.Listen(proxy.Options{Listen: "127.0.0.1:0", Upstream: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetMode(proxy.Blackhole); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.SetMode(proxy.Pass); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// echo listens and sends everything back, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
