package lab_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

func TestEmbeddedClientsGoThroughTheProxiesAndAdminsPastThem(t *testing.T) {
	e := labtest.StartEmbedded(t, lab.EmbeddedOptions{Brokers: 2, Proxy: true, Opts: []kfake.Opt{kfake.SeedTopics(2, "t")}})
	counts := func() (n int) {
		for _, p := range e.Proxies() {
			n += p.Count(int16(kmsg.Produce))
		}
		return n
	}
	for _, c := range []struct {
		opts []kgo.Opt
		want int
	}{{e.AdminOpts(), 0}, {e.ClientOpts(), 1}} {
		cl := client(t, c.opts)
		if err := cl.ProduceSync(within(t, 10*time.Second), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := counts(); got != c.want {
			t.Errorf("%d produce requests passed the proxies, want %d", got, c.want)
		}
	}
}

func TestADurableEmbeddedClusterKeepsDataAndAddress(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e, err := lab.StartEmbedded(t.Context(), lab.EmbeddedOptions{Durable: true, Opts: []kfake.Opt{kfake.SeedTopics(1, "t")}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	addr := e.Bootstrap()[0]
	cl, err := kgo.NewClient(e.ClientOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(within(t, 10*time.Second), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	e.Stop()
	if err := cl.Ping(within(t, 200*time.Millisecond)); err == nil {
		t.Error("a stopped cluster answered")
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	if e.Bootstrap()[0] != addr {
		t.Errorf("the address moved from %s to %s", addr, e.Bootstrap()[0])
	}
	if end := e.Cluster().PartitionInfo("t", 0).HighWatermark; end != 1 {
		t.Errorf("after a restart the log ends at %d, want 1", end)
	}
}

func TestEmbeddedInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := lab.StartEmbedded(t.Context(), lab.EmbeddedOptions{Brokers: 2, Network: new(kfake.VirtualNetwork), Opts: []kfake.Opt{kfake.SeedTopics(1, "t")}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		cl, err := kgo.NewClient(e.ClientOpts()...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if v := e.Violations(); len(v) > 0 {
			t.Error(v)
		}
	})
}
