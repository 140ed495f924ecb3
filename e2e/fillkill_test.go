package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// markersKey is the API key of WriteTxnMarkers.
const markersKey = int16(kmsg.WriteTxnMarkers)

// markerDoor lets the marker requests of one link pass, and holds one of them,
// or its answer, so that its process dies with a marker in flight.
type markerDoor struct {
	link     string
	answers  bool // it holds an answer: the markers are written
	requests atomic.Int64

	mu   sync.Mutex // guards all below
	left int        // until one is held; 0 holds nothing
	held *heldMarkers
}

// heldMarkers is a request on its way.
type heldMarkers struct {
	came  chan struct{} // closed when it is held
	open  chan struct{} // closed to let it go on
	letGo func()        // closes open
	// count of markers by partition; of a held answer it is not known.
	count map[int32]int64
}

// hold makes the door hold the nth request from now on.
func (d *markerDoor) hold(t testing.TB, nth int) *heldMarkers {
	h := &heldMarkers{came: make(chan struct{}), open: make(chan struct{}), count: map[int32]int64{}}
	h.letGo = sync.OnceFunc(func() { close(h.open) })
	t.Cleanup(h.letGo)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.held = nth, h
	return h
}

func (d *markerDoor) pass(f proxy.Frame, answer bool) proxy.Action {
	if !strings.HasPrefix(f.ClientID, d.link+"-markers") {
		return proxy.Forward
	}
	if !answer {
		d.requests.Add(1)
	}
	if h := d.holds(answer); h != nil {
		if req, err := f.Request(); err == nil {
			for _, m := range req.(*kmsg.WriteTxnMarkersRequest).Markers {
				h.count[m.Topics[0].Partitions[0]]++
			}
		}
		close(h.came)
		<-h.open
	}
	return proxy.Forward
}

// holds tells whether this is the one to be held.
func (d *markerDoor) holds(answer bool) *heldMarkers {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 || d.answers != answer {
		return nil
	}
	if d.left--; d.left > 0 {
		return nil
	}
	return d.held
}

// fillKill is a link over a topic of many small transactions whose process is
// killed while it fills gaps.
type fillKill struct {
	name string // of link and topic
	door *markerDoor
	// again kills the next process as well, while it waits for the doubt to settle.
	again bool

	kills, inFlight int
}

// TestG1_FillsOutliveKills kills klink by SIGKILL while markers are in flight,
// at least at half of the kills. A marker that reaches the broker only when the
// next process is at work neither is one too many nor takes another's place; that
// process shows that it waits. A process that ended in an orderly way leaves
// nothing to wait for. Of two processes that share a link, the one that lives takes
// over in doubt.
func TestG1_FillsOutliveKills(t *testing.T) {
	t.Parallel()
	// The records are older than a day, after which brokers forget producers.
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Proxy: true, Props: map[string]string{"producer.id.expiration.ms": "864000000"}})
	all := []*fillKill{
		{name: "answered", door: &markerDoor{answers: true}},
		{name: "late", door: &markerDoor{}},
		{name: "twice", door: &markerDoor{}, again: true},
		{name: "twins", door: &markerDoor{}},
	}
	wire := p.dst.Broker(1).Proxy()
	for _, v := range all {
		v.door.link = v.name
		wire.On(markersKey, func(f proxy.Frame) proxy.Action { return v.door.pass(f, false) })
		wire.OnAnswer(markersKey, func(f proxy.Frame) proxy.Action { return v.door.pass(f, true) })
	}
	var side sync.WaitGroup
	for _, v := range all {
		side.Go(func() {
			if v.name == "twins" {
				v.runTwins(t, p)
			} else {
				v.run(t, p)
			}
		})
	}
	side.Wait()
	var kills, inFlight int
	for _, v := range all {
		kills, inFlight = kills+v.kills, inFlight+v.inFlight
	}
	t.Logf("%d of %d kills with a marker in flight", inFlight, kills)
	if 2*inFlight < kills {
		t.Errorf("only %d of %d kills had a marker in flight", inFlight, kills)
	}
}

// smallLoad writes small transactions to a new topic, until the function
// returned has been called and returns.
func smallLoad(t testing.TB, c lab.Cluster, topic string, partitions int32, transactions int) (wait func()) {
	done := make(chan error, 1)
	ctx := within(t, 10*patience)
	go func() {
		done <- shapes.Small(ctx, c, shapes.Place{Topic: topic, Partitions: partitions, Seed: 9}, transactions)
	}()
	return func() {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// run kills and restarts, and compares at the end.
func (v *fillKill) run(t *testing.T, p pair) {
	wait := smallLoad(t, p.src, v.name, 2, 600+200*FillKills.N())
	file := configFile(t, openLink(v.name, p.src.Bootstrap()[0], p.dst.Bootstrap()[0], v.name))
	k := startKlink(t, "-c", file)
	eventually(t, patience, v.name+": markers", func() bool { return v.door.requests.Load() > 20 })
	k.stop(t)

	k = startKlink(t, "-c", file)
	for round := range FillKills.N() {
		h := v.door.hold(t, 10+7*round%20)
		v.await(t, h.came, "a marker in flight")
		if text, _ := k.log.read(); round == 0 && strings.Contains(text, string(state.FillUnknown)) {
			t.Errorf("%s: after an orderly end nothing is in doubt", v.name)
		}
		k = v.killHeld(t, p, k, file, h)
	}
	wait()
	requireSameView(t, p, v.name)
	k.awaitTopic(t, v.name, state.Active, "")
	k.stop(t)
}

func (v *fillKill) await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(2 * patience):
		t.Fatalf("%s: waited in vain for %s", v.name, what)
	}
}

// killHeld kills a process whose markers are held, and returns the one that goes
// on.
func (v *fillKill) killHeld(t *testing.T, p pair, k *klink, file string, h *heldMarkers) *klink {
	kill := func() {
		k.kill(t)
		v.kills++
		v.inFlight++
		k = startKlink(t, "-c", file)
	}
	kill()
	if v.door.answers {
		h.letGo()
		return k
	}
	v.awaitDoubt(t, k, h)
	if v.again {
		kill()
		v.inFlight-- // that one had none
		v.awaitDoubt(t, k, h)
	}
	v.arriveLate(t, p, h)
	return k
}

// arriveLate lets held markers go on to the broker.
func (v *fillKill) arriveLate(t *testing.T, p pair, h *heldMarkers) {
	before := boundsOf(t, p.dst, v.name)
	h.letGo()
	eventually(t, patience, v.name+": the markers to come late", func() bool {
		now := boundsOf(t, p.dst, v.name)
		for n, count := range h.count {
			if now[n].End != before[n].End+count {
				return false
			}
		}
		return true
	})
}

// awaitDoubt waits until the partitions of held markers show that they wait.
func (v *fillKill) awaitDoubt(t *testing.T, k *klink, h *heldMarkers) {
	k.await(t, fmt.Sprintf("FILL_UNKNOWN of %s in partitions %v", v.name, slices.Collect(maps.Keys(h.count))), func(l state.Link) bool {
		return v.shows(l, h, state.FillUnknown)
	})
}

// shows tells whether all partitions of held markers wait for a reason.
func (v *fillKill) shows(l state.Link, h *heldMarkers, why state.Reason) bool {
	for n := range h.count {
		s, ok := partition(l, v.name, n)
		if !ok || s.State != state.TargetUnavailable || s.Reason != string(why) {
			return false
		}
	}
	return true
}

// requireSameView waits until topics are mirrored and requires consumers at both
// isolations to see the same, and the logs to end alike.
func requireSameView(t testing.TB, p pair, topics ...string) {
	t.Helper()
	if err := lab.AwaitMirrored(within(t, 4*patience), p.src, p.dst, lab.CompareOptions{Topics: topics}); err != nil {
		t.Fatal(err)
	}
	v, err := lab.CompareVisible(within(t, 4*patience), p.src, p.dst, lab.VisibleOptions{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	if !v.Equal() || !v.SameBounds() || v.Records() == 0 {
		t.Fatal(v)
	}
}

// runTwins lets two processes of one link share a topic of transactions, which they
// do without a gap that one leaves to the other. Then one dies with a marker in
// flight, and the other one has its partitions with the doubt that it leaves.
func (v *fillKill) runTwins(t *testing.T, p pair) {
	wait := smallLoad(t, p.src, v.name, 4, 300)
	file := configFile(t, openLink(v.name, p.src.Bootstrap()[0], p.dst.Bootstrap()[0], v.name))
	both := []*klink{startKlink(t, "-c", file), startKlink(t, "-c", file)}
	wait()
	requireSameView(t, p, v.name)
	shares := func(l state.Link) (owners []string) {
		for _, s := range topicOf(l, v.name).Partitions {
			if s.State == state.Active && !slices.Contains(owners, s.Worker) {
				owners = append(owners, s.Worker)
			}
		}
		return owners
	}
	for _, k := range both {
		k.await(t, "two workers", func(l state.Link) bool { return len(shares(l)) == len(both) })
	}
	h := v.door.hold(t, 1)
	transact(t, p.src, v.name, 4)
	v.await(t, h.came, "a marker in flight")
	heir := 1
	r, err := both[1].report(within(t, patience))
	for n := range h.count {
		s, ok := partition(r.Links[0], v.name, n)
		if err != nil || !ok {
			t.Fatalf("partition %d in %+v: %v", n, r, err)
		}
		if strings.Contains(s.Worker, fmt.Sprintf("-%d-", both[1].proc.PID())) {
			heir = 0
		}
	}
	both[1-heir].kill(t)
	v.kills++
	v.inFlight++
	v.awaitDoubt(t, both[heir], h)
	v.arriveLate(t, p, h)
	requireSameView(t, p, v.name)
	both[heir].awaitTopic(t, v.name, state.Active, "")
	both[heir].stop(t)
}

// transact writes a transaction with a record in each partition.
func transact(t testing.TB, c lab.Cluster, topic string, partitions int32) {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.TransactionalID("one-more-"+topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for n := range partitions {
		records = append(records, &kgo.Record{Topic: topic, Partition: n, Key: []byte("k"), Value: []byte("v")})
	}
	ctx := within(t, patience)
	err = cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, records...).FirstErr()
	}
	if err == nil {
		err = cl.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		t.Fatal(err)
	}
}
