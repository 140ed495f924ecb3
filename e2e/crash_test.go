package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/state"
)

// produceKey is the API key of Produce.
var produceKey = kmsg.NewPtrProduceRequest().Key()

// TestG3_KillsUnderLoad kills klink by SIGKILL again and again while a load
// runs. At least half of the kills fall while an append is in flight: the proxy
// of the target counts requests that reached the broker and answers that left it.
func TestG3_KillsUnderLoad(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Proxy: true})
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 4, Configs: lab.KeepEverything()})
	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"orders"}, Seed: 7,
		MaxBatch: 50, RecordsPerSecond: 5_000,
		// Old records wait for the dead process's session to end: a round would take
		// ten seconds.
		From: time.Now(), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	dst := p.dst.Brokers()[0].Proxy()
	var asked, answered atomic.Int64
	dst.On(produceKey, counting(&asked))
	dst.OnAnswer(produceKey, counting(&answered))
	dst.SetRTT(4 * time.Millisecond) // so that there is time to die in

	dice := rand.New(rand.NewPCG(1, 2))
	inFlight := 0
	for i := range Kills.N() {
		k := startKlink(t, p.plain("orders")...)
		began := answered.Load()
		k.await(t, "something was appended", func(l state.Link) bool { return answered.Load() > began })
		time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond) // the moment is the test's input
		if i%4 != 3 {
			waitFor(t, "an append in flight", func() bool { return asked.Load() > answered.Load() })
		}
		if asked.Load() > answered.Load() {
			inFlight++
		}
		k.kill(t)
		waitFor(t, "the killed process's connections to end", func() bool { return dst.Connections() == 0 })
		asked.Store(answered.Load()) // what it asked last is answered to nobody
	}
	if inFlight*2 < Kills.N() {
		t.Errorf("only %d of %d kills had an append in flight", inFlight, Kills.N())
	}
	t.Logf("%d of %d kills with an append in flight", inFlight, Kills.N())
	k := startKlink(t, p.plain("orders")...)
	r := load.Stop()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	// What piled up during the kills takes its time.
	catchUp := patience + time.Duration(Kills.N())*3*time.Second
	if err := lab.AwaitMirrored(within(t, catchUp), p.src, p.dst, lab.CompareOptions{Topics: []string{"orders"}}); err != nil {
		t.Fatal(err)
	}
	requireMirrored(t, p, r.Acked, "orders")
	k.stop(t)
}

// counting counts the appends of the mirror, not those to its control topic.
func counting(n *atomic.Int64) proxy.Hook {
	return func(f proxy.Frame) proxy.Action {
		if !strings.HasSuffix(f.ClientID, "-control") {
			n.Add(1)
		}
		return proxy.Forward
	}
}

// waitFor polls a condition that needs no I/O.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// TestStopDrains: SIGTERM under load ends with exit code 0 within ten seconds
// and leaves nothing in doubt.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 2, Configs: lab.KeepEverything()})
	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"orders"}, Seed: 3, RecordsPerSecond: 4_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		k := startKlink(t, p.plain("orders")...)
		k.await(t, fmt.Sprintf("progress in round %d", i), func(l state.Link) bool {
			s, ok := partition(l, "orders", 0)
			return ok && s.TargetEnd != nil && *s.TargetEnd > 0
		})
		k.stop(t)
	}
	k := startKlink(t, p.plain("orders")...)
	r := load.Stop()
	requireMirrored(t, p, r.Acked, "orders")
	k.stop(t)
}
