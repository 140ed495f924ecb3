package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/state"
)

// moments are clusters for what may come at a bad one.
type moments struct {
	pair
	guarded *lab.Kafka // a target on which who has no right may do nothing
	srcDoor *doorman
	dstDoor *doorman
}

// TestG4_BadMoments: commands that meet an outage, each other, a kill or a missing
// right. Each either does all it says or says what it did not do, and running it
// again does the rest.
func TestG4_BadMoments(t *testing.T) {
	t.Parallel()
	all := startAll(t, lab.KafkaOptions{Proxy: true}, lab.KafkaOptions{Proxy: true}, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	m := &moments{pair: pair{src: all[0], dst: all[1]}, guarded: all[2]}
	m.srcDoor, m.dstDoor = newDoorman(t, m.src.Broker(1).Proxy()), newDoorman(t, m.dst.Broker(1).Proxy())
	t.Run("side by side", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *moments){"source outage": promoteInAnOutage, "failover while a promote waits": failoverDuringPromote,
			"two operators": oppositeCommands, "kills": killedCommands, "rights": rightsAtTheWrongTime} {
			t.Run(name, func(t *testing.T) { t.Parallel(); run(t, m) })
		}
	})
}

// keptBytes are the source's own retention.bytes of topics whose records all stay.
const keptBytes = "1000000000000"

// link starts a klink on a link of its own with topics that hold records, and
// returns when all of them are ACTIVE.
func (m *moments) link(t *testing.T, name string, topics ...string) (k *klink, file string, records int64) {
	t.Helper()
	var specs []lab.TopicSpec
	for _, topic := range topics {
		spec := lab.TopicSpec{Name: topic, Partitions: 2, Configs: lab.KeepEverything()}
		spec.Configs["retention.bytes"] = keptBytes
		specs = append(specs, spec)
	}
	records = fill(t, m.src, 1, int64(200*len(topics)), specs...)
	file = configFile(t, openLink(name, m.src.Bootstrap()[0], m.dst.Bootstrap()[0], topics...))
	k = startKlink(t, "-c", file)
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}
	return k, file, records
}

// more writes records to a topic.
func (m *moments) more(t *testing.T, topic string) int64 {
	return produce(t, m.src, lab.LoadOptions{Topics: []string{topic}, Seed: 2, MaxBatch: 20, Total: 200}).Acked
}

// promoteInAnOutage: a promotion cannot know that all is mirrored while the source
// does not answer; it times out, and nothing has changed.
func promoteInAnOutage(t *testing.T, m *moments) {
	const topic = "outage"
	k, file, records := m.link(t, topic, topic)
	var down atomic.Bool
	m.src.Broker(1).Proxy().On(proxy.AnyKey, func(f proxy.Frame) proxy.Action {
		if down.Load() && strings.HasPrefix(f.ClientID, topic+"-") {
			return proxy.Swallow
		}
		return proxy.Forward
	})
	down.Store(true)
	r := switchover(t, 4, "promote", topic, "-c", file, "--yes", "--timeout", "3s")
	if s := r.topic(topic); s.OK || s.State == "STOPPED" || s.Detail == "" {
		t.Errorf("a promotion without a source: %+v", s)
	}
	down.Store(false)
	k.awaitTopic(t, topic, state.Active, "")
	records += m.more(t, topic)
	requireMirrored(t, m.pair, records, topic)
	requireStopped(t, switchover(t, 0, "promote", topic, "-c", file, "--yes"), topic)
	k.awaitStopped(t, topic)
	k.stop(t)
}

// failoverDuringPromote: a promotion that waits for a transaction to end is
// overtaken by a failover, and is told.
func failoverDuringPromote(t *testing.T, m *moments) {
	const topic = "waits"
	k, file, _ := m.link(t, topic, topic)
	cl, err := kgo.NewClient(append(m.src.AdminOpts(), kgo.TransactionalID("waits"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(within(t, patience), &kgo.Record{Topic: topic, Value: []byte("open")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64
	promote := m.srcDoor.command(t, func(_ *running, o *door) {
		o.step = func(f proxy.Frame) proxy.Action {
			if f.Key == int16(kmsg.ListOffsets) {
				looks.Add(1)
			}
			return proxy.Forward
		}
	}, "promote", "-o", "json", topic, "-c", file, "--yes", "--timeout", "2m")
	waitFor(t, "the promotion to look and wait", func() bool { return looks.Load() > 3 })
	requireStopped(t, switchover(t, 0, "failover", topic, "-c", file, "--yes"), topic)
	o := promote.wait(t)
	if o.code == 0 || !strings.Contains(o.out+o.errOut, "failover") {
		t.Errorf("the promotion ended with %d and is not told of the failover:\n%s%s", o.code, o.out, o.errOut)
	}
	if err := cl.EndTransaction(within(t, patience), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	k.awaitStopped(t, topic)
	k.stop(t)
}

// oppositeCommands: of two commands that are given at once the first in the log
// wins; the other one does nothing and says who was first.
func oppositeCommands(t *testing.T, m *moments) {
	topics := []string{"opposed-1", "opposed-2"}
	k, file, _ := m.link(t, "opposed", topics...)
	if o := command(t, "pause", topics[0], "-c", file, "--yes"); o.code != 0 {
		t.Fatalf("pause: exit code %d: %s%s", o.code, o.out, o.errOut)
	}
	k.awaitTopic(t, topics[0], state.Paused, "")
	verbs := []string{"pause", "resume"}
	var both []*running
	for _, verb := range verbs {
		both = append(both, m.dstDoor.command(t, func(_ *running, o *door) { o.shut = append(o.shut, controlWrites) },
			append([]string{verb, "-c", file, "--yes"}, topics...)...))
	}
	for i, r := range both {
		waitFor(t, verbs[i]+" to be on its way", func() bool { return m.dstDoor.held(r.proc, produceKey) > 0 })
	}
	for _, r := range both {
		m.dstDoor.open(r.proc)
	}
	won := -1
	var told outcome
	for i, r := range both {
		if o := r.wait(t); o.code == 0 {
			won = i
		} else {
			told = o
		}
	}
	if won < 0 || told.code != 1 || !strings.Contains(told.out+told.errOut, verbs[won]) {
		t.Fatalf("one of %v is to win; the winner is number %d, and the other was told with code %d: %s%s", verbs, won, told.code, told.out, told.errOut)
	}
	for _, topic := range topics {
		k.awaitTopic(t, topic, map[string]state.State{"pause": state.Paused, "resume": state.Active}[verbs[won]], "")
	}
	k.stop(t)
}

// writing are the requests by which a command changes something.
var writing = []int16{produceKey, markersKey, int16(kmsg.IncrementalAlterConfigs), int16(kmsg.OffsetCommit)}

// killedCommands kills promote and failover at each request that changes something,
// before it reaches the target, and at some on its way, which is on record like a kill
// before the next one. The status says where it stands, also where no klink is asked,
// and giving the command again completes it.
func killedCommands(t *testing.T, m *moments) {
	verbs := []string{"promote", "failover"}
	var topics []string
	for _, verb := range verbs {
		for nth := range CommandKills.N() {
			topics = append(topics, fmt.Sprintf("%s-%d-before", verb, nth+1))
			if nth%3 == 2 {
				topics = append(topics, fmt.Sprintf("%s-%d-after", verb, nth+1))
			}
		}
	}
	k, file, _ := m.link(t, "killed", topics...)
	awaitConfigs(t, within(t, patience), admin(t, m.dst), topics[0], map[string]string{"retention.bytes": "-1"})
	kills, unsettled := 0, map[string]int{}
	for _, topic := range topics {
		parts := strings.Split(topic, "-")
		verb, after := parts[0], parts[2] == "after"
		var nth int
		if _, err := fmt.Sscan(parts[1], &nth); err != nil {
			t.Fatal(err)
		}
		died, o := m.killedAt(t, nth, after, verb, topic, "-c", file, "--yes", "-o", "json")
		if died {
			kills++
			shown := map[state.State]bool{state.Active: true, state.CatchingUp: true, state.PendingStopped: true, state.Stopped: true,
				state.TargetUnavailable: true} // a broker that has too little of the machine
			r, _ := statusOf(t, "-c", file, "--http", k.addr)
			s := topicOf(linkOf(r, "killed"), topic).State
			if !shown[s] {
				t.Errorf("%s killed at its write %d shows %s", verb, nth, s)
			}
			told := m.requireTold(t, verb, topic, file)
			if strings.Contains(told, state.Unsettled) {
				unsettled[verb]++
			}
			t.Logf("%s killed at its write %d (after: %t): %s, on record %s", verb, nth, after, s, told)
			requireStopped(t, m.again(t, verb, topic, "-c", file, "--yes"), topic)
		} else if o.code != 0 {
			// The clusters have too little of the machine for the command's own limits.
			t.Logf("%s: exit code %d: %s%s", topic, o.code, o.out, o.errOut)
			requireStopped(t, m.again(t, verb, topic, "-c", file, "--yes"), topic)
		}
		k.awaitStopped(t, topic)
		k.await(t, topic+" without a flag", func(l state.Link) bool { return len(switchFlags(topicOf(l, topic))) == 0 })
		if told := m.requireTold(t, verb, topic, file); told != string(state.Stopped) {
			t.Errorf("%s of %s came to its end, and the record shows %s", verb, topic, told)
		}
	}
	if kills < 2*len(verbs) || unsettled["promote"] == 0 || unsettled["failover"] == 0 {
		t.Errorf("only %d commands were killed, and were shown as unsettled: %v", kills, unsettled)
	}
	k.stop(t)
	for _, topic := range topics {
		requireEqualRecords(t, m.pair, topic)
	}
}

// requireTold returns what the record says of a topic where nobody is asked, its state
// and the flags of a switch. It holds that a topic is STOPPED with the source's settings in
// force, or flagged, and that its hint names the command to give again.
func (m *moments) requireTold(t *testing.T, verb, topic, file string) string {
	t.Helper()
	r, _ := statusOf(t, "-c", file, "--http", "127.0.0.1:1")
	top := topicOf(linkOf(r, "killed"), topic)
	flags := switchFlags(top)
	switch unsettled := slices.Contains(flags, state.Unsettled); {
	case unsettled && (top.State != state.Stopped || !strings.HasSuffix(top.Hint, "give klink "+verb+" again")):
		t.Errorf("%s %v has the hint %q", top.State, flags, top.Hint)
	case top.State == state.Stopped && !unsettled:
		awaitConfigs(t, within(t, patience), admin(t, m.dst), topic, map[string]string{"retention.bytes": keptBytes})
	}
	return strings.Join(append([]string{string(top.State)}, flags...), " ")
}

// switchFlags are the flags of a topic's partitions that tell how its switch stands.
func switchFlags(top state.Topic) (out []string) {
	for _, flag := range []string{state.Unfenced, state.Unsettled} {
		if slices.ContainsFunc(top.Partitions, func(p state.Partition) bool { return slices.Contains(p.Flags, flag) }) {
			out = append(out, flag)
		}
	}
	return out
}

// killedAt runs a command and kills it by SIGKILL at its nth request that changes
// something on the target. It returns whether there were so many.
func (m *moments) killedAt(t *testing.T, nth int, after bool, args ...string) (died bool, o outcome) {
	t.Helper()
	var writes int
	var killed atomic.Bool
	r := m.dstDoor.command(t, func(r *running, o *door) {
		o.step = func(f proxy.Frame) proxy.Action {
			if !slices.Contains(writing, f.Key) {
				return proxy.Forward
			}
			if writes++; writes != nth {
				return proxy.Forward
			}
			killed.Store(true)
			if err := r.proc.Kill(); err != nil {
				t.Errorf("kill: %v", err)
			}
			if after {
				return proxy.Forward
			}
			return proxy.CutBefore
		}
	}, args...)
	select {
	case <-r.proc.Done():
	case <-within(t, 2*patience).Done():
		t.Fatalf("klink %s does not end", r.args)
	}
	if killed.Load() {
		return true, outcome{}
	}
	return false, r.wait(t)
}

// again gives a command until it does all that it says. What stands in its way at
// first may be what the one before has left on its way.
func (m *moments) again(t *testing.T, verb string, args ...string) (r switchReport) {
	t.Helper()
	eventually(t, 2*patience, verb+" to do the rest", func() bool {
		c := startCommand(t, append([]string{verb, "-o", "json"}, args...)...)
		o := c.wait(t)
		if o.code != 0 {
			t.Logf("klink %s: exit code %d: %s", c.args, o.code, o.errOut)
			return false
		}
		r = c.report(t, 0)
		return true
	})
	return r
}

// requireEqualRecords compares what consumers see; a fence may lie behind it.
func requireEqualRecords(t testing.TB, p pair, topics ...string) {
	t.Helper()
	c, err := lab.CompareClusters(within(t, patience), p.src, p.dst, lab.CompareOptions{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Equal() || c.Records() == 0 {
		t.Errorf("not equal: %s", c)
	}
}

// rightsAtTheWrongTime: what a failover would need is told from the start, and
// one that lacks it does what it can, says what it could not, and does the rest
// when it is given again.
func rightsAtTheWrongTime(t *testing.T, m *moments) {
	const link, told, mute = "watchful", "told", "mute"
	topics := []string{told, mute}
	records := fill(t, m.src, 3, 400, lab.TopicSpec{Name: told, Partitions: 2}, lab.TopicSpec{Name: mute, Partitions: 2})
	for _, topic := range append(topics, "__klink") {
		grant(t, m.guarded, writersRights(topic)...)
	}
	group := kadm.NewACLs().Groups(link + "-klink").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
	allow(t, m.guarded, group)
	s := &secured{pair: m.pair}
	file := configFile(t, object{"name": link, "topics": object{"include": topics}, "source": object{"brokers": m.src.Bootstrap()},
		"target": secureSide(m.guarded, password(lab.Plain, s.secretFile(t, m.guarded.Password(principal))))})
	k := startKlink(t, "-c", file)
	guarded := pair{src: m.src, dst: m.guarded}
	requireMirrored(t, guarded, records, topics...)

	const markers = "Alter (or ClusterAction) on the cluster"
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}
	if o := command(t, "forecast", "-c", file, "-o", "json"); o.code != 0 || !strings.Contains(o.out, markers) {
		t.Errorf("a forecast does not tell what a failover would lack, code %d:\n%s%s", o.code, o.out, o.errOut)
	}

	// The control topic cannot be written: the fence alone has to do.
	alter := kadm.NewACLs().Clusters().Operations(kadm.OpAlter)
	allow(t, m.guarded, alter)
	revoke(t, m.guarded, right{"Write", "__klink"})
	o := command(t, "failover", mute, "-c", file, "--yes")
	if o.code != 1 || !strings.Contains(o.out+o.errOut, "__klink") {
		t.Errorf("without a control topic: exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	ends := boundsOf(t, m.guarded, mute)
	m.more(t, mute)
	k.await(t, "the fence to be found", func(l state.Link) bool { return topicOf(l, mute).Reason == string(state.Fenced) })
	if now := boundsOf(t, m.guarded, mute); fmt.Sprint(now) != fmt.Sprint(ends) {
		t.Errorf("behind the fence: %v and then %v", ends, now)
	}
	grant(t, m.guarded, right{"Write", "__klink"})
	requireStopped(t, switchover(t, 0, "failover", mute, "-c", file, "--yes"), mute)
	k.awaitStopped(t, mute)

	// Nobody is there to stop, and the fence is not allowed.
	k.kill(t)
	gone, err := admin(t, m.guarded).DeleteACLs(within(t, patience), alter)
	if err != nil || len(gone) != 1 || gone[0].Err != nil {
		t.Fatalf("revoke: %v, %+v", err, gone)
	}
	r := switchover(t, 1, "failover", told, "-c", file, "--yes")
	if r.Failed == 0 || !strings.Contains(fmt.Sprintf("%+v", r), "UNFENCED") {
		t.Errorf("without the right to fence: %+v", r)
	}
	allow(t, m.guarded, alter)
	requireStopped(t, switchover(t, 0, "failover", told, "-c", file, "--yes"), told)
	requireEqualRecords(t, guarded, told)
}
