package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
)

// side is one of the two clusters of a link.
type side string

const (
	onSource side = "src"
	onTarget side = "dst"
)

// kind is a request that klink sends: where to, on whose connection, which.
type kind struct {
	side side
	role string // the end of the client id
	key  kmsg.Key
}

func (k kind) String() string { return fmt.Sprintf("%s-%s-%s", k.side, k.role, k.key.Name()) }

// kinds are all requests of a link. TestG3_CutsAtEveryStep fails when klink
// sends one that is not here.
var kinds = []kind{
	{onSource, "fetch", kmsg.ApiVersions},
	{onSource, "fetch", kmsg.Metadata},
	{onSource, "fetch", kmsg.Fetch},
	{onSource, "ping", kmsg.ApiVersions},
	{onSource, "ping", kmsg.Metadata},
	{onSource, "source-admin", kmsg.ApiVersions},
	{onSource, "source-admin", kmsg.Metadata},
	{onSource, "source-admin", kmsg.DescribeConfigs},
	{onSource, "source-admin", kmsg.ListOffsets},
	{onSource, "source-admin", kmsg.OffsetForLeaderEpoch},
	{onSource, "source-admin", kmsg.Fetch},
	{onTarget, "ping", kmsg.ApiVersions},
	{onTarget, "ping", kmsg.Metadata},
	{onTarget, "produce", kmsg.ApiVersions},
	{onTarget, "produce", kmsg.Metadata},
	{onTarget, "produce", kmsg.Produce},
	{onTarget, "target-admin", kmsg.ApiVersions},
	{onTarget, "target-admin", kmsg.Metadata},
	{onTarget, "target-admin", kmsg.CreateTopics},
	{onTarget, "target-admin", kmsg.DescribeConfigs},
	{onTarget, "target-admin", kmsg.ListOffsets},
	{onTarget, "target-admin", kmsg.OffsetForLeaderEpoch},
	{onTarget, "target-admin", kmsg.DescribeProducers},
	{onTarget, "target-admin", kmsg.Fetch},
	{onTarget, "target-admin", kmsg.DescribeCluster},
	{onTarget, "control", kmsg.ApiVersions},
	{onTarget, "control", kmsg.Metadata},
	{onTarget, "control", kmsg.DescribeConfigs},
	{onTarget, "control", kmsg.Fetch},
	{onTarget, "control", kmsg.InitProducerID},
	{onTarget, "control", kmsg.Produce},
	{onTarget, "group", kmsg.ApiVersions},
	{onTarget, "group", kmsg.Metadata},
	{onTarget, "group", kmsg.FindCoordinator},
	{onTarget, "group", kmsg.JoinGroup},
	{onTarget, "group", kmsg.SyncGroup},
	{onTarget, "group", kmsg.OffsetFetch},
	{onTarget, "group", kmsg.Heartbeat},
}

// creation of the control topic comes once on a cluster: whoever asks for it is
// hit while the table's links start for the first time. A link whose request was
// lost asks again, so the first two steps come for certain.
var (
	creation      = kind{onTarget, "control", kmsg.CreateTopics}
	creationSteps = []step{{"before", proxy.CutBefore}, {"answer", proxy.DropAnswer}, {"sent", proxy.CutSent}, {"after", proxy.CutAfter}}
)

// farewell comes once, as klink ends; if it is lost the group waits for the
// session to end.
var farewell = kind{onTarget, "group", kmsg.LeaveGroup}

// growth comes only where a topic was given a partition to have requests sent
// again (awaitMade).
var growth = kind{onTarget, "target-admin", kmsg.CreatePartitions}

// step is where a request is hit.
type step struct {
	name   string
	action proxy.Action
}

// rows are hit one after the other on the requests of one link. CutAfter comes
// last, since some requests are not sent again once they were answered. The
// other rows leave the connection open and never answer.
var rows = []struct {
	name  string
	steps []step
}{
	{"cuts", []step{{"before", proxy.CutBefore}, {"sent", proxy.CutSent}, {"answer", proxy.DropAnswer}, {"after", proxy.CutAfter}}},
	{"mute", []step{{"mute", proxy.Mute}}},
	{"swallow", []step{{"swallow", proxy.Swallow}}},
}

// cut is one row for one kind, carried out on one link.
type cut struct {
	kind  kind
	steps []step
	made  atomic.Int32 // how many of them
}

// next takes the step for one more request.
func (c *cut) next() proxy.Action {
	if n := int(c.made.Add(1)); n <= len(c.steps) {
		return c.steps[n-1].action
	}
	return proxy.Forward
}

// victim is a link with a cut on either side. Its old topic has been mirrored
// before, its fresh one has not. Every partition sends some of the requests once,
// so the old topic has as many as there are steps.
type victim struct {
	link string
	cuts []*cut
}

func (v *victim) old() string            { return "old-" + v.link }
func (v *victim) fresh(round int) string { return fmt.Sprintf("new-%d-%s", round, v.link) }

// victims spreads the table over links.
func victims() (all []*victim) {
	for _, r := range rows {
		first := len(all)
		n := map[side]int{}
		for _, k := range kinds {
			i := first + n[k.side]
			n[k.side]++
			if i == len(all) {
				all = append(all, &victim{link: fmt.Sprintf("v%d-%s", i-first, r.name)})
			}
			all[i].cuts = append(all[i].cuts, &cut{kind: k, steps: r.steps})
		}
	}
	return all
}

// board makes the cuts and sees all requests.
type board struct {
	byLink map[string]*victim
	armed  atomic.Bool
	births cut // of the control topic

	mu   sync.Mutex // guards seen
	seen map[kind]int
}

func newBoard(all []*victim) *board {
	b := &board{byLink: map[string]*victim{}, seen: map[kind]int{}, births: cut{kind: creation, steps: creationSteps}}
	for _, v := range all {
		b.byLink[v.link] = v
	}
	return b
}

// hook decides for one side.
func (b *board) hook(on side) proxy.Hook {
	return func(f proxy.Frame) proxy.Action {
		parts := strings.SplitN(f.ClientID, "-", 3) // v<number>-<row>-<role>
		if len(parts) < 3 {
			return proxy.Forward
		}
		k := kind{on, role(parts[2]), kmsg.Key(f.Key)}
		b.note(k)
		if k == creation {
			return b.births.next()
		}
		v := b.byLink[parts[0]+"-"+parts[1]]
		if v == nil || !b.armed.Load() {
			return proxy.Forward
		}
		for _, c := range v.cuts {
			if c.kind == k {
				return c.next()
			}
		}
		return proxy.Forward
	}
}

// role drops what tells two connections of one job apart: produce-slow is
// produce, fetch-short is fetch.
func role(name string) string {
	for _, more := range []string{"-slow", "-short"} {
		name = strings.TrimSuffix(name, more)
	}
	return name
}

func (b *board) note(k kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[k]++
}

// unlisted are the kinds that were seen and are not in the table.
func (b *board) unlisted() (out []kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.seen {
		if !slices.Contains(kinds, k) && k != creation && k != farewell && k != growth {
			out = append(out, k)
		}
	}
	return out
}

// linksFile writes a configuration with all links.
func linksFile(t testing.TB, p pair, all []*victim, topics func(*victim) []string) string {
	t.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "limits: {fetch_memory: 1GiB}\nlinks:\n")
	for _, v := range all {
		fmt.Fprintf(&y, "  - name: %s\n    source: {brokers: [%q]}\n    target: {brokers: [%q]}\n    topics: {include: [%s]}\n",
			v.link, p.src.Bootstrap()[0], p.dst.Bootstrap()[0], strings.Join(topics(v), ", "))
	}
	path := filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(path, []byte(y.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// createAll makes topics in one request and returns when their leaders serve.
func createAll(t testing.TB, c lab.Cluster, partitions int32, names ...string) {
	t.Helper()
	adm := admin(t, c)
	resp, err := adm.CreateTopics(within(t, patience), partitions, 1, nil, names...)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the new topics to be served", func() bool {
		ends, err := adm.ListEndOffsets(within(t, patience), names...)
		return err == nil && ends.Error() == nil
	})
}

// eventually polls a condition that costs a request or more.
func eventually(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", d, what)
		}
	}
}

// admin is a client past the proxies that ends with the test. It keeps no
// metadata: kgo's answers may be five seconds old otherwise.
func admin(t testing.TB, c lab.Cluster) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.MetadataMinAge(10*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// TestG3_BrokenConnections: what a network does to requests neither loses nor
// doubles a record, and klink goes on by itself.
func TestG3_BrokenConnections(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{Proxy: true}, lab.KafkaOptions{Proxy: true})
	t.Run("every step", func(t *testing.T) { cutEveryStep(t, p) })
	t.Run("lost answers", func(t *testing.T) { loseAnswers(t, p) })
}

// loseAnswers has appends written and their answers lost, under load.
func loseAnswers(t *testing.T, p pair) {
	create(t, p.src, lab.TopicSpec{Name: "lost", Partitions: 4, Configs: lab.KeepEverything()})
	running, err := lab.StartLoad(within(t, patience), p.src, lab.LoadOptions{Topics: []string{"lost"}, Seed: 1, MaxBatch: 50, RecordsPerSecond: 4000})
	if err != nil {
		t.Fatal(err)
	}
	var asked, lost atomic.Int64
	remove := p.dst.Broker(1).Proxy().On(produceKey, func(f proxy.Frame) proxy.Action {
		if strings.HasSuffix(f.ClientID, "-control") || asked.Add(1)%3 != 0 || lost.Load() >= int64(LostAnswers.N()) {
			return proxy.Forward
		}
		lost.Add(1)
		return proxy.DropAnswer
	})
	defer remove()
	k := startKlink(t, p.plain("lost")...)
	eventually(t, patience+time.Duration(LostAnswers.N())*time.Second/2, "enough answers to be lost", func() bool { return lost.Load() >= int64(LostAnswers.N()) })
	r := running.Stop()
	requireMirrored(t, p, r.Acked, "lost")
	k.stop(t)
	t.Logf("%d answers lost of %d appends", lost.Load(), asked.Load())
}

// cutEveryStep hits every kind of request that klink sends at every step:
// before the broker got it, while it is carried out, when its answer is ready,
// after the answer; and leaves connections half open, so that only klink's own
// deadlines end the wait. Every cut must be made, and its link go on by itself
// and end up equal.
func cutEveryStep(t *testing.T, p pair) {
	all := victims()
	b := newBoard(all)
	defer p.src.Broker(1).Proxy().On(proxy.AnyKey, b.hook(onSource))()
	defer p.dst.Broker(1).Proxy().On(proxy.AnyKey, b.hook(onTarget))()
	begun := time.Now()
	load := lab.LoadOptions{Seed: 1, MaxBatch: 10, From: begun, To: begun, Total: int64(20 * len(all))}
	byPartitions := map[int32][]string{}
	for _, v := range all {
		n := int32(len(v.cuts[0].steps))
		byPartitions[n] = append(byPartitions[n], v.old())
		load.Topics = append(load.Topics, v.old())
	}
	for n, names := range byPartitions {
		createAll(t, p.src, n, names...)
	}
	total := produce(t, p.src, load).Acked
	k := startKlink(t, "-c", linksFile(t, p, all, func(v *victim) []string { return []string{v.old()} }))
	requireMirrored(t, p, total, load.Topics...)
	k.stop(t)
	if n := b.births.made.Load(); n < 2 {
		t.Errorf("the control topic's creation was hit %d times only", n)
	}
	t.Logf("ready after %v", time.Since(begun).Round(time.Millisecond))
	for round := range CutRounds.N() {
		cutRound(t, p, b, all, round, load)
	}
}

// cutRound makes all cuts once and compares.
func cutRound(t testing.TB, p pair, b *board, all []*victim, round int, load lab.LoadOptions) {
	t.Helper()
	begun := time.Now()
	var fresh []string
	for _, v := range all {
		fresh = append(fresh, v.fresh(round))
		for _, c := range v.cuts {
			c.made.Store(0)
		}
	}
	createAll(t, p.src, 1, fresh...)
	load.Topics, load.Seed, load.Total, load.RecordsPerSecond = append(fresh, load.Topics...), uint64(round)+2, 0, 20*len(all)
	running, err := lab.StartLoad(within(t, patience), p.src, load)
	if err != nil {
		t.Fatal(err)
	}
	b.armed.Store(true)
	k := startKlink(t, "-c", linksFile(t, p, all, func(v *victim) []string { return []string{v.old(), v.fresh(round)} }))
	partitions := make(map[*victim]int)
	awaitMade(t, all, func(v *victim) {
		partitions[v]++
		addPartitions(t, p.src, v.fresh(round), 1+partitions[v])
	})
	made := time.Since(begun)
	b.armed.Store(false)
	r := running.Stop()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	requireMirrored(t, p, r.Acked, load.Topics...)
	k.stop(t)
	t.Logf("round %d: all cuts made after %v, mirrored after %v", round, made.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	if extra := b.unlisted(); len(extra) > 0 {
		t.Fatalf("klink sends requests that the table lacks: %v", extra)
	}
}

// awaitMade waits until every cut was made, and names those that never were. A
// request that dies with its neighbour's connection, before the proxy sees it,
// is not sent again by all parts of klink; so a link that lacks a cut for long
// is given a new partition, which sends each kind once more.
func awaitMade(t testing.TB, all []*victim, again func(*victim)) {
	t.Helper()
	left := []string{"all"}
	defer func() {
		if len(left) > 0 {
			t.Logf("these requests never came: %s", strings.Join(left, ", "))
		}
	}()
	nudge := time.Now().Add(patience / 3)
	eventually(t, 4*patience, "all cuts", func() bool {
		left = left[:0]
		late := time.Now().After(nudge)
		if late {
			nudge = time.Now().Add(patience / 3)
		}
		for _, v := range all {
			if late && slices.ContainsFunc(v.cuts, func(c *cut) bool { return int(c.made.Load()) < len(c.steps) }) {
				again(v)
			}
			for _, c := range v.cuts {
				if n := int(c.made.Load()); n < len(c.steps) {
					left = append(left, fmt.Sprintf("%s %s on %s", c.kind, c.steps[n].name, v.link))
				}
			}
		}
		return len(left) == 0
	})
}
