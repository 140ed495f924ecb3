package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/state"
)

// TestObstacles puts everything in klink's way that can stand between it and
// two open clusters. Each obstacle is a state with a reason and a hint, holds up
// nothing else, and is gone by itself once its cause is. What status and metrics
// say is checked beside it.
func TestObstacles(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{LogDirs: 2, Props: map[string]string{"replica.high.watermark.checkpoint.interval.ms": "500"}})
	t.Run("side by side", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, pair){"addresses": addresses, "topics": topicsAsTheyAre, "same cluster": sameCluster,
			"status": whatIsShown, "lag": lagging, "sights": unseenSinceTheKill} {
			t.Run(name, func(t *testing.T) { t.Parallel(); run(t, p) })
		}
	})
	t.Run("storage error", func(t *testing.T) { storageError(t, p) })
}

// detour is an address whose far end is chosen while klink runs.
func detour(t testing.TB, upstream string, mode proxy.Mode) *proxy.Proxy {
	t.Helper()
	addr, release, err := lab.ReservePort() // in mode Refuse nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	d, err := proxy.Listen(proxy.Options{Listen: addr, Upstream: upstream, Opaque: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.SetMode(mode); err != nil {
		t.Fatal(err)
	}
	return d
}

// addresses: two ways for a cluster to be out of reach, and three for a port to
// be the wrong one, on either side, in one process.
func addresses(t *testing.T, p pair) {
	var asked atomic.Int64
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			asked.Add(1)
		}
	}
	secure := tlsPort(t)
	src, dst := p.src.Bootstrap()[0], p.dst.Bootstrap()[0]
	cases := []struct {
		name     string
		upstream string
		mode     proxy.Mode
		reason   state.Reason
		word     string
	}{
		{"down", "", proxy.Refuse, state.Unreachable, "nothing listens on that port"},
		{"silent", "", proxy.Blackhole, state.Unreachable, "no answer in time"},
		{"web", web.Listener.Addr().String(), proxy.Pass, state.Unreachable, "no answer in time"}, // it waits for the end of a line
		{"shell", greeter(t), proxy.Pass, state.Unreachable, "the answer is not Kafka's"},
		{"tls", secure, proxy.Pass, state.Authentication, "the port wants TLS"},
	}
	var links []object
	var topics []string
	mend := map[string]func() error{}
	for _, c := range cases {
		for side, real := range map[string]string{"source": src, "target": dst} {
			name := c.name + "-" + side
			upstream := c.upstream
			if upstream == "" {
				upstream = real
			}
			d := detour(t, upstream, c.mode)
			mend[name] = func() error { d.SetUpstream(real); return d.SetMode(proxy.Pass) }
			l := openLink(name, src, dst, name)
			l[side] = object{"brokers": []string{d.Addr()}}
			links, topics = append(links, l), append(topics, name)
			create(t, p.src, lab.TopicSpec{Name: name, Partitions: 2, Configs: lab.KeepEverything()})
		}
	}
	const well = "well"
	create(t, p.src, lab.TopicSpec{Name: well, Partitions: 2, Configs: lab.KeepEverything()})
	links, topics = append(links, openLink(well, src, dst, well)), append(topics, well)
	total := produce(t, p.src, lab.LoadOptions{Topics: topics, Seed: 11, Total: 4_000, MaxBatch: 50}).Acked

	file := configFile(t, links...)
	k := startKlink(t, "-c", file)
	for _, c := range cases {
		for _, side := range []string{"source", "target"} {
			name := c.name + "-" + side
			k.awaitLink(t, name, state.Failed, c.reason, side, c.word)
			k.requireUnready(t, name, string(c.reason), c.word)
			k.requireSaid(t, "link FAILED", "link="+name, string(c.reason))
		}
	}
	k.awaitLink(t, well, state.Active, "")
	k.awaitTopic(t, well, state.Active, "")
	// Not in a loop, however often it is tried.
	waitFor(t, "klink to try again and again", func() bool { return asked.Load() > 8 })
	k.requireSaidOnce(t)
	r, _ := statusOf(t, "-c", file, "--http", k.addr)
	for _, l := range r.Links {
		if (l.State == state.Failed) != (l.Name != well) {
			t.Errorf("klink status shows %s as %s", l.Name, l.State)
		}
	}
	for name, f := range mend {
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	requireMirrored(t, p, total, topics...)
	for name := range mend {
		k.awaitLink(t, name, state.Active, "")
	}
	k.awaitReady(t)
	k.requireSaidOnce(t)
	k.stop(t)
}

// tlsPort is a port that speaks TLS and nothing else.
func tlsPort(t testing.TB) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// httpPort is a port on which another program serves.
func httpPort(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// greeter is a port that speaks first, as SSH and mail servers do.
func greeter(t testing.TB) string {
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
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n")
			go func() { defer conn.Close(); _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return l.Addr().String()
}

// topicsAsTheyAre: target topics that were there before klink, or that somebody
// changes behind its back. One link, one topic for each; the others go on.
func topicsAsTheyAre(t *testing.T, p pair) {
	keep := lab.KeepEverything()
	with := func(kv ...string) map[string]string {
		m := maps.Clone(keep)
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	specs := []lab.TopicSpec{{Name: "fine", Partitions: 2}, {Name: "fewer", Partitions: 4}, {Name: "more", Partitions: 2},
		{Name: "cleaned", Partitions: 2}, {Name: "keyless", Partitions: 1, Configs: with("min.compaction.lag.ms", "9223372036854775807")}, {Name: "sized", Partitions: 3}, {Name: "stamped", Partitions: 2},
		{Name: "wide", Partitions: 2}}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	total := fill(t, p.src, 21, 8_000, specs...)
	create(t, p.dst, lab.TopicSpec{Name: "fewer", Partitions: 2}, lab.TopicSpec{Name: "more", Partitions: 3},
		lab.TopicSpec{Name: "cleaned", Partitions: 2, Configs: map[string]string{"cleanup.policy": "compact"}})
	setConfig(t, p.src, "keyless", "cleanup.policy", "compact") // its records have null keys among them, and its cleaner leaves them

	link := openLink("as-they-are", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], append(names, "later")...)
	link["topics"].(object)["exclude"] = []string{"wide"}
	wide := openLink("wide", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "wide")
	wide["topics"].(object)["replication_factor"] = 3
	k := startKlink(t, "-c", configFile(t, link, wide))
	load, err := lab.StartLoad(t.Context(), p.src, lab.LoadOptions{Topics: []string{"fine"}, Seed: 22, MaxBatch: 20, RecordsPerSecond: 500})
	if err != nil {
		t.Fatal(err)
	}

	k.awaitTopic(t, "later", state.Pending, state.TopicMissing, "no topic of this name")
	k.awaitTopic(t, "fewer", state.Active, "")
	k.awaitTopic(t, "more", state.TargetUnavailable, state.TopicRefused, "3 partitions", "source topic 2")
	k.awaitTopic(t, "cleaned", state.TargetUnavailable, state.TopicRefused, `"compact"`, "cleanup.policy=delete on topic cleaned")
	k.awaitTopic(t, "keyless", state.Halted, state.Unfillable, "without key")
	k.awaitTopic(t, "wide", state.TargetUnavailable, state.TooFewBrokers, "3 replicas")
	k.requireUnready(t, "more/0: TARGET_UNAVAILABLE (TOPIC_REFUSED", "cleaned/1: TARGET_UNAVAILABLE (TOPIC_REFUSED", "link wide: ", "(TOO_FEW_BROKERS")
	k.awaitTopic(t, "sized", state.Active, "")
	k.awaitTopic(t, "stamped", state.Active, "")

	// Behind its back: klink finds its own settings gone, and sets them again.
	setConfig(t, p.dst, "sized", "max.message.bytes", "20000")
	setConfig(t, p.dst, "stamped", "message.timestamp.before.max.ms", "3600000")
	total += produce(t, p.src, lab.LoadOptions{Topics: []string{"sized", "stamped"}, Seed: 23, Total: 2_000, LargeEvery: 20}).Acked

	// The causes go.
	deleteTopic(t, p.dst, "more")
	setConfig(t, p.dst, "cleaned", "cleanup.policy", "delete")
	create(t, p.dst, lab.TopicSpec{Name: "wide", Partitions: 2})
	total += fill(t, p.src, 24, 500, lab.TopicSpec{Name: "later", Partitions: 2, Configs: with()})
	well := []string{"fine", "fewer", "more", "cleaned", "sized", "stamped", "wide", "later"}
	for _, name := range well {
		k.awaitTopic(t, name, state.Active, "")
	}
	report := load.Stop()
	if report.Err != nil {
		t.Fatal(report.Err)
	}
	requireMirrored(t, p, total+report.Acked-2_000, well...)
	if n := replicasOf(t, p.dst, "wide"); n != 1 {
		t.Errorf("the topic made by hand has %d replicas", n)
	}
	k.awaitReady(t)
	k.requireSaidOnce(t)
	if r := k.awaitTopic(t, "keyless", state.Halted, state.Unfillable); len(r.Partitions) != 1 {
		t.Errorf("%+v", r)
	}
	k.stop(t)

	// What is about data needs a person: here one who lets the target keep records
	// without a key, and starts klink again.
	setConfig(t, p.dst, "keyless", "cleanup.policy", "delete")
	k = startKlink(t, "-c", configFile(t, link))
	requireMirrored(t, p, 1, "keyless")
	k.stop(t)
}

// setConfig sets one config of a topic.
func setConfig(t testing.TB, c lab.Cluster, topic, key, value string) {
	t.Helper()
	resp, err := admin(t, c).AlterTopicConfigs(within(t, patience), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err == nil {
		err = resp[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

func deleteTopic(t testing.TB, c lab.Cluster, topic string) {
	t.Helper()
	if _, err := admin(t, c).DeleteTopic(within(t, patience), topic); err != nil {
		t.Fatal(err)
	}
}

func replicasOf(t testing.TB, c lab.Cluster, topic string) int {
	t.Helper()
	_, replicas, err := lab.Leader(within(t, patience), c, lab.Partition{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	return len(replicas)
}

// sameCluster: a cluster cannot mirror itself, and gets no topic by trying.
func sameCluster(t *testing.T, p pair) {
	addr := p.src.Bootstrap()[0]
	fill(t, p.src, 31, 100, lab.TopicSpec{Name: "itself"})
	if o := command(t, "run", "-c", configFile(t, openLink("itself", addr, addr, "itself"))); o.code != 2 || !strings.Contains(o.errOut, "name two different clusters") {
		t.Errorf("one address on both sides: exit code %d: %s", o.code, o.errOut)
	}
	l := openLink("itself", detour(t, addr, proxy.Pass).Addr(), addr, "itself")
	l["topics"].(object)["rename"] = object{"prefix": "copy-of-"}
	file := configFile(t, l)
	k := startKlink(t, "-c", file)
	s := k.awaitLink(t, "itself", state.Failed, state.ClusterChanged, "the same cluster", p.src.ClusterID())
	if s.Hint != "check the addresses: a cluster cannot mirror itself" {
		t.Errorf("hint %q", s.Hint)
	}
	k.requireUnready(t, "itself", "the same cluster")
	r, _ := statusOf(t, "-c", file, "--http", k.addr)
	if got := linkOf(r, "itself"); got.Reason != string(state.ClusterChanged) || got.Hint != s.Hint {
		t.Errorf("klink status shows %+v", got)
	}
	k.requireSaidOnce(t)
	k.stop(t)
	there, err := admin(t, p.src).ListTopics(within(t, patience), "__klink", "copy-of-itself")
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range there {
		if !errors.Is(made.Err, kerr.UnknownTopicOrPartition) {
			t.Errorf("topic %s is there: %v", made.Topic, made.Err)
		}
	}
}

// storageError makes one of the target's two log folders unusable under load.
// The partitions there are TARGET_UNAVAILABLE and say so; those in the other
// folder go on; when the folder is whole again and the broker started, all do.
func storageError(t *testing.T, p pair) {
	const topic = "disks"
	fill(t, p.src, 51, 500, lab.TopicSpec{Name: topic, Partitions: 6})
	l := openLink(topic, p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topic)
	file := configFile(t, l)
	k := startKlink(t, "-c", file)
	k.awaitTopic(t, topic, state.Active, "")
	load, err := lab.StartLoad(t.Context(), p.src, lab.LoadOptions{Topics: []string{topic}, Seed: 52, MaxBatch: 10, RecordsPerSecond: 500})
	if err != nil {
		t.Fatal(err)
	}
	broker := p.dst.Brokers()[0]
	spare := broker.DataDirs()[1]
	broken := map[int32]bool{}
	for n := range int32(6) {
		if _, err := os.Stat(filepath.Join(spare, fmt.Sprintf("%s-%d", topic, n))); err == nil {
			broken[n] = true
		}
	}
	if len(broken) == 0 || len(broken) == 6 {
		t.Fatalf("of six partitions %v are in the second folder", broken)
	}
	// The broker writes its checkpoints to a file of this name first. What it
	// cannot write makes it give up the folder.
	checkpoints := []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}
	for _, name := range checkpoints {
		if err := os.MkdirAll(filepath.Join(spare, name+".tmp", "in-the-way"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k.await(t, "the partitions in the broken folder to be unavailable", func(l state.Link) bool {
		for n := range broken {
			if s, ok := partition(l, topic, n); !ok || s.State != state.TargetUnavailable || s.Reason != string(state.StorageError) {
				return false
			}
		}
		return true
	})
	before := load.Report()
	for n := range broken {
		k.requireUnready(t, fmt.Sprintf("%s/%d: TARGET_UNAVAILABLE (STORAGE_ERROR", topic, n))
	}
	r, _ := statusOf(t, "-c", file, "--http", k.addr)
	for _, s := range topicOf(linkOf(r, topic), topic).Partitions {
		if broken[s.Partition] {
			requireTold(t, fmt.Sprint(topic, s.Partition), s.Detail, s.Hint, []string{"KAFKA_STORAGE_ERROR"})
		}
	}
	k.await(t, "the other partitions to go on", func(l state.Link) bool {
		for n := range int32(6) {
			s, ok := partition(l, topic, n)
			if !broken[n] && (!ok || s.TargetEnd == nil || *s.TargetEnd < before.Ends[lab.Partition{Topic: topic, Number: n}]+50) {
				return false
			}
		}
		return true
	})
	for _, name := range checkpoints {
		if err := os.RemoveAll(filepath.Join(spare, name+".tmp")); err != nil {
			t.Fatal(err)
		}
	}
	if err := broker.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(within(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	done := load.Stop()
	if done.Err != nil {
		t.Fatal(done.Err)
	}
	requireMirrored(t, p, done.Acked, topic)
	k.awaitTopic(t, topic, state.Active, "")
	k.awaitReady(t)
	k.stop(t)
}
