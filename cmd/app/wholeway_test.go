package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/linker/reverse"
	"klink/linker/state"
	"klink/linker/switchover"
)

// pairOfClusters is a source with a topic of some records and an empty target.
func pairOfClusters(t testing.TB) (src, dst *kfake.Cluster) {
	t.Helper()
	src = cluster(t, kfake.NumBrokers(1), kfake.ClusterID("SRC"), kfake.SeedTopics(2, "orders", "payments"))
	dst = cluster(t, kfake.NumBrokers(1), kfake.ClusterID("DST"))
	for _, topic := range []string{"orders", "payments"} {
		produce(t, src, topic, 50)
	}
	return src, dst
}

func cluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(t testing.TB, c *kfake.Cluster, topic string, records int) {
	t.Helper()
	produceValue(t, c, topic, records, "v")
}

// produceValue writes records with one value and keys that count.
func produceValue(t testing.TB, c *kfake.Cluster, topic string, records int, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range records {
		cl.Produce(t.Context(), &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte(value)}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// running is a klink on a file of one link.
type running struct {
	file string
	// stop ends it and returns its log.
	stop func() (log string)
}

// mirrorBoth starts a klink that mirrors all of src to dst.
func mirrorBoth(t testing.TB, src, dst *kfake.Cluster) running {
	t.Helper()
	return mirrorWith(t, src, dst, "")
}

// writeLink writes a configuration of one link.
func writeLink(t testing.TB, src, dst *kfake.Cluster, keys string) (file string) {
	t.Helper()
	text := fmt.Sprintf("http: {listen: %q}\nlinks:\n  - name: east\n    source: {brokers: [%q]}\n    target: {brokers: [%q]}\n    topics: {include: [orders, payments]}\n%s",
		freeAddress(t), src.ListenAddrs()[0], dst.ListenAddrs()[0], keys)
	file = filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// mirrorWith is mirrorBoth with more keys of the link.
func mirrorWith(t testing.TB, src, dst *kfake.Cluster, keys string) running {
	t.Helper()
	return mirrorFile(t, writeLink(t, src, dst, keys))
}

// mirrorFile runs klink on a file.
func mirrorFile(t testing.TB, file string) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	parts, parsed := production(), make(chan struct{})
	wire := parts.Wire
	parts.Wire = func(ctx context.Context, cfg *config.Config, d Deps) (Daemon, error) {
		close(parsed)
		return wire(ctx, cfg, d)
	}
	go func() { ended <- execute(ctx, parts, "run", "-c", file, "--log-level", "error") }()
	<-parsed // all command lines of a process share the library's help flag
	stop := func() (log string) {
		cancel()
		r := <-ended
		if r.code != 0 {
			t.Errorf("klink ended with %+v", r)
		}
		return r.err
	}
	return running{file: file, stop: stop}
}

// ask runs a command on the file.
func (k running) ask(t testing.TB, args ...string) result {
	t.Helper()
	return execute(t.Context(), production(), append(args, "-c", k.file, "-o", "json")...)
}

// await asks for the state of a topic until it is as wanted.
func (k running) await(t testing.TB, topic string, want state.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var r state.Report
		got := k.ask(t, "status")
		if json.Unmarshal([]byte(got.out), &r) == nil && len(r.Links) == 1 {
			if now, ok := topicOf(r.Links[0], topic); ok && now.State == want {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is not %s: %s %s", topic, want, got.out, got.err)
		}
	}
}

// What people order of a klink that runs is obeyed, confirmed and final: paused and
// resumed, promoted, turned around.
func TestTheWholeWay(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorBoth(t, src, dst)
	defer k.stop()
	k.await(t, "orders", state.Active)
	k.await(t, "payments", state.Active)

	if a := decodeOrder(t, k.ask(t, "pause", "orders", "--yes")); a.Failed != 0 || a.Topics[0].State != state.Paused || a.Topics[0].Detail != "" {
		t.Errorf("%+v", a)
	}
	k.await(t, "orders", state.Paused)
	produce(t, src, "orders", 10)
	// What is paused cannot catch up, so the promotion of both changes nothing.
	if r := k.ask(t, "promote", "--yes", "--timeout", "300ms"); r.code == 0 {
		t.Errorf("%+v", r)
	}
	if a := decodeOrder(t, k.ask(t, "resume", "orders", "--yes")); a.Failed != 0 || a.Topics[0].Reason != "" {
		t.Errorf("%+v", a)
	}

	var done switchover.Result
	r := k.ask(t, "promote", "--yes", "--timeout", "20s")
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.code != 0 || len(done.Topics) != 2 || done.Failed != 0 || *done.RecordsLost != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	k.await(t, "orders", state.Stopped)

	var back reverse.Result
	home := filepath.Join(t.TempDir(), "home.yaml")
	r = k.ask(t, "reverse", "--yes", "--write", home)
	if err := json.Unmarshal([]byte(r.out), &back); err != nil || r.code != 0 || back.Next != "east-back" || back.Failed != 0 || back.Topics[0].Verdict != reverse.InPlace {
		t.Fatalf("%v: %+v", err, r)
	}
	// The new link is on record, and nobody has mirrored it yet.
	if r := execute(t.Context(), production(), "forecast", "-c", home); r.code != 0 || !strings.Contains(r.out, "would be lost: unknown in all") {
		t.Errorf("%+v", r)
	}
}
