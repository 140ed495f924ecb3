package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/readers"
	"klink/linker/state"
)

const (
	moverRate       = 5_000 // records per second
	moverPartitions = 4
	// moverGrace is what may be read again beyond what lay behind the last commit.
	moverGrace = moverRate / 4
)

// mover is an application: a consumer group of one member by some maker's
// client, first at the source and then at the target.
type mover struct {
	group  string
	topic  string
	maker  readers.Maker
	before lab.Deliveries // at the source
	after  lab.Deliveries // at the target

	running *readers.Follower

	mu        sync.Mutex      // guards all below
	next      map[int32]int64 // offset after the last one delivered at the source
	committed map[int32]int64 // by the last commit that was acknowledged there
	commits   int             // in which new records were committed
	at        time.Time       // of the last commit
	carried   map[int32]int64 // committed at the source and found at the target
	arrived   map[int32]int64 // offset after the last one delivered at the target
}

func newMover(maker readers.Maker, topic string) *mover {
	return &mover{group: topic + "-" + string(maker), topic: topic, maker: maker,
		next: map[int32]int64{}, committed: map[int32]int64{},
		carried: map[int32]int64{}, arrived: map[int32]int64{}}
}

// newMovers makes one of each maker, all at one topic or at two in turn.
func newMovers(topics ...string) (all []*mover) {
	for i, maker := range readers.Makers {
		all = append(all, newMover(maker, topics[i%len(topics)]))
	}
	return all
}

// seed commits the start of the log: auto.offset.reset is none.
func (m *mover) seed(t testing.TB, c lab.Cluster) {
	t.Helper()
	var offsets kadm.Offsets
	for n := range int32(moverPartitions) {
		offsets.AddOffset(m.topic, n, 0, -1)
	}
	done, err := admin(t, c).CommitOffsets(within(t, patience), m.group, offsets)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start goes on from the group's commits at one of the clusters.
func (m *mover) start(t testing.TB, c *lab.Kafka, delivered func(readers.Run), committed func(readers.Commit)) {
	t.Helper()
	f, err := readers.Follow(within(t, 2*patience), readers.FollowOptions{Maker: m.maker, Bootstrap: c.Bootstrap(), Group: m.group,
		Topics: []string{m.topic}, Delivered: delivered, Committed: committed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Kill() }) // gone already, as a rule
	m.running = f
}

func (m *mover) startAtSource(t testing.TB, c *lab.Kafka) {
	m.start(t, c, func(r readers.Run) {
		noteRun(&m.before, r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.next[r.Partition] = r.Next
	}, func(c readers.Commit) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c.Offset > m.committed[c.Partition] {
			m.commits++
		}
		m.committed[c.Partition], m.at = c.Offset, time.Now()
	})
}

func (m *mover) startAtTarget(t testing.TB, c *lab.Kafka) {
	m.start(t, c, func(r readers.Run) {
		noteRun(&m.after, r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.arrived[r.Partition] = r.Next
	}, nil)
}

func noteRun(d *lab.Deliveries, r readers.Run) {
	for offset := r.First; offset < r.Next; offset++ {
		d.Note(lab.Partition{Topic: r.Topic, Number: r.Partition}, offset)
	}
}

// awaitSource waits until all records up to ends were delivered at the source.
func (m *mover) awaitSource(t testing.TB, ends map[lab.Partition]int64) { m.await(t, m.next, ends) }

// awaitTarget waits until all records up to ends were delivered at the target.
func (m *mover) awaitTarget(t testing.TB, ends map[lab.Partition]int64) { m.await(t, m.arrived, ends) }

func (m *mover) await(t testing.TB, reached map[int32]int64, ends map[lab.Partition]int64) {
	t.Helper()
	deadline := time.Now().Add(2 * patience)
	for !m.has(reached, ends) {
		if err := m.running.Err(); err != nil {
			t.Fatalf("%s: %v\n%s", m.group, err, m.running.Log())
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was delivered up to %v of %v\n%s", m.group, reached, ends, m.running.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (m *mover) has(reached map[int32]int64, ends map[lab.Partition]int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, end := range ends {
		if p.Topic == m.topic && reached[p.Number] < end {
			return false
		}
	}
	return true
}

// lastCommit tells how many commits there were of something new, and when the
// last one was.
func (m *mover) lastCommit() (commits int, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits, m.at
}

// behind is what lay behind the last commit at the source.
func (m *mover) behind() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.behindLocked(m.committed)
}

// behindCarried is what lay behind the last commit that was carried for certain:
// the last one, but for one that came in the moment before the source was killed.
func (m *mover) behindCarried() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.behindLocked(m.carried)
}

func (m *mover) behindLocked(commits map[int32]int64) (n int64) {
	for partition, next := range m.next {
		n += max(0, next-commits[partition])
	}
	return n
}

// isCarried tells whether the target has the last commit, and notes it.
func (m *mover) isCarried(t testing.TB, dst *kadm.Client) bool {
	t.Helper()
	there, err := dst.FetchOffsets(within(t, patience), m.group)
	if err != nil {
		t.Fatalf("offsets of %s: %v", m.group, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for partition, offset := range m.committed {
		if o, ok := there.Lookup(m.topic, partition); !ok || o.At != offset {
			return false
		}
	}
	m.carried = maps.Clone(m.committed)
	return true
}

// again counts the records before the cut that were delivered at both clusters,
// first those at the target alone.
func (m *mover) again(cut map[int32]int64) (atTarget, twice int64) {
	for n, end := range cut {
		p := lab.Partition{Topic: m.topic, Number: n}
		for _, r := range m.after.Ranges(p) {
			to := min(r.To, end)
			atTarget += max(0, to-r.From)
			for _, b := range m.before.Ranges(p) {
				twice += max(0, min(to, b.To)-max(r.From, b.From))
			}
		}
	}
	return atTarget, twice
}

// requireAllDelivered reads the target and requires that each of its records was
// delivered, before the cut at either cluster and from there on at the target.
func (m *mover) requireAllDelivered(t testing.TB, dst lab.Cluster, cut map[int32]int64) {
	t.Helper()
	for n, end := range cut {
		p := lab.Partition{Topic: m.topic, Number: n}
		var all lab.Deliveries
		for _, r := range m.before.Ranges(p) {
			noteRun(&all, readers.Run{Topic: p.Topic, Partition: n, First: r.From, Next: min(r.To, end)})
		}
		for _, r := range m.after.Ranges(p) {
			noteRun(&all, readers.Run{Topic: p.Topic, Partition: n, First: r.From, Next: r.To})
		}
		lost, first, err := all.Lost(within(t, 2*patience), dst, p, lab.ReadOptions{Isolation: lab.ReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		if lost > 0 {
			t.Errorf("%s: %d records of %s were delivered nowhere, the first at %d", m.group, lost, p, first)
		}
	}
	for p, n := range m.after.Twice() {
		t.Errorf("%s: %d records of %s twice at the target alone", m.group, n, p)
	}
}

// each does something for all of them at once.
func each(movers []*mover, do func(*mover) error) error {
	var g errgroup.Group
	for _, m := range movers {
		g.Go(func() error { return do(m) })
	}
	return g.Wait()
}

// TestG6_ConsumersMoveOver: applications by clients of four makers go on at the
// target where they stopped at the source, with auto.offset.reset=none and
// nothing translated: after a promotion without reading anything again, after a
// failover with what lay behind their last commit.
func TestG6_ConsumersMoveOver(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	l := openLink("moving", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "planned", "alive", "dead")
	l["groups"] = object{"include": []string{"*"}}
	file := configFile(t, l)
	for _, topic := range []string{"planned", "alive", "dead"} {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: moverPartitions, Configs: lab.KeepEverything()})
	}
	k := startKlink(t, "-c", file)
	t.Run("promote", func(t *testing.T) { movePlanned(t, p, file) })
	t.Run("failover", func(t *testing.T) { moveForced(t, p, k, file) })
}

// movePlanned moves applications whose producers have stopped and that have
// committed all that they read.
func movePlanned(t *testing.T, p pair, file string) {
	const topic = "planned"
	all := newMovers(topic)
	for _, m := range all {
		m.seed(t, p.src)
		m.startAtSource(t, p.src)
	}
	ends := produce(t, p.src, lab.LoadOptions{Topics: []string{topic}, Seed: 1, MaxBatch: 50, Total: int64(MovedRecords.N())}).Ends
	for _, m := range all {
		m.awaitSource(t, ends)
	}
	if err := each(all, func(m *mover) error { return m.running.Stop(within(t, patience)) }); err != nil {
		t.Fatal(err)
	}
	r := switchover(t, 0, "promote", topic, "-c", file, "--yes")
	cuts := requireStopped(t, r, topic)
	if r.RecordsLost == nil || *r.RecordsLost != 0 {
		t.Errorf("a promotion loses %v records", r.RecordsLost)
	}
	for p, end := range ends {
		if cuts[topic][p.Number] != end {
			t.Errorf("%s was cut at %d, and ended at %d", p, cuts[topic][p.Number], end)
		}
	}
	for _, m := range all {
		if n, ok := r.toRead(m.group, topic); !ok || n != 0 {
			t.Errorf("%s is to read %d records again (known: %t)", m.group, n, ok)
		}
	}
	goOnAtTarget(t, p, all, cuts)
	for _, m := range all {
		if atTarget, _ := m.again(cuts[topic]); atTarget != 0 {
			t.Errorf("%s was given %d records again", m.group, atTarget)
		}
		m.requireAllDelivered(t, p.dst, cuts[topic])
	}
}

// goOnAtTarget starts all applications at the target, where producers go on as well, and
// stops them when all was delivered.
func goOnAtTarget(t *testing.T, p pair, all []*mover, cuts map[string]map[int32]int64) {
	t.Helper()
	ends := map[lab.Partition]int64{}
	for topic := range cuts {
		for part, end := range produce(t, p.dst, lab.LoadOptions{Topics: []string{topic}, Seed: 2, MinBatch: 5, MaxBatch: 50, Total: 2_000}).Ends {
			ends[part] = end
		}
	}
	for _, m := range all {
		m.startAtTarget(t, p.dst)
	}
	for _, m := range all {
		m.awaitTarget(t, ends)
	}
	if err := each(all, func(m *mover) error { return m.running.Stop(within(t, patience)) }); err != nil {
		t.Fatal(err)
	}
}

// moveForced kills the source under load, fails over with the daemon alive and
// with it dead, and moves all applications.
func moveForced(t *testing.T, p pair, k *klink, file string) {
	topics := []string{"alive", "dead"}
	all := newMovers(topics...)
	for _, m := range all {
		m.seed(t, p.src)
		m.startAtSource(t, p.src)
	}
	var loads []*lab.Load
	for i, topic := range topics {
		load, err := lab.StartLoad(within(t, patience), p.src, lab.LoadOptions{Topics: []string{topic}, Seed: uint64(3 + i), Codecs: []string{"lz4"},
			MaxBatch: 50, RecordsPerSecond: moverRate})
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, load)
	}
	awaitMoment(t, p, k, all)
	if err := p.src.Broker(1).Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	acked := map[lab.Partition]int64{}
	for _, load := range loads {
		for part, end := range load.Crash().Ends {
			acked[part] = end
		}
	}
	if err := each(all, func(m *mover) error { return m.running.Kill() }); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := m.running.Err(); errors.Is(err, readers.ErrReset) {
			t.Errorf("%s at the source: %v", m.group, err)
		}
	}

	reports := map[string]switchReport{}
	cuts := map[string]map[int32]int64{}
	for _, topic := range topics {
		if topic == "dead" {
			k.kill(t)
		}
		began := time.Now()
		reports[topic] = switchover(t, 0, "failover", topic, "-c", file, "--yes")
		t.Logf("%s: failover took %v, %v after the source died", topic, time.Since(began).Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
		cuts[topic] = requireStopped(t, reports[topic], topic)[topic]
		requireForetold(t, reports[topic], topic, acked)
	}
	goOnAtTarget(t, p, all, cuts)
	for _, m := range all {
		atTarget, twice := m.again(cuts[m.topic])
		behind := m.behindCarried()
		t.Logf("%s: %d records lay behind its last commit, %d were read again, %d at the target before the cut", m.group, behind, twice, atTarget)
		if twice > behind+moverGrace {
			t.Errorf("%s was given %d records again, and %d lay behind its last commit", m.group, twice, behind)
		}
		if n, ok := reports[m.topic].toRead(m.group, m.topic); !ok || n != atTarget {
			t.Errorf("%s was given %d records before the cut, foretold were %d (known: %t)", m.group, atTarget, n, ok)
		}
		m.requireAllDelivered(t, p.dst, cuts[m.topic])
	}
}

// awaitMoment returns when all applications have kept up for some seconds, have
// read on since their last commit, and no commit is on its way: one that the
// source took and nobody could carry would cost what lay between it and the one
// before.
func awaitMoment(t *testing.T, p pair, k *klink, all []*mover) {
	t.Helper()
	dst := admin(t, p.dst)
	for _, m := range all {
		eventually(t, 2*patience, m.group+" to commit", func() bool {
			n, _ := m.lastCommit()
			if err := m.running.Err(); err != nil {
				t.Fatalf("%s: %v\n%s", m.group, err, m.running.Log())
			}
			return n > moverPartitions
		})
	}
	k.await(t, "mirrors that keep up", func(l state.Link) bool {
		for _, topic := range []string{"alive", "dead"} {
			for n := range int32(moverPartitions) {
				if s, ok := partition(l, topic, n); !ok || s.State != state.Active {
					return false
				}
			}
		}
		return true
	})
	time.Sleep(time.Duration(MoveSeconds.N()) * time.Second) // the load's time is the test's input
	// All commit when the clock's second changes.
	between := func(m *mover) bool {
		_, at := m.lastCommit()
		age, behind := time.Since(at), m.behind()
		return age > 300*time.Millisecond && age < 900*time.Millisecond && behind > moverRate/20 && behind < 2*moverRate
	}
	eventually(t, 2*patience, "a moment between commits", func() bool {
		for _, is := range []func(*mover) bool{between, func(m *mover) bool { return m.isCarried(t, dst) }, between} {
			if slices.ContainsFunc(all, func(m *mover) bool { return !is(m) }) {
				return false
			}
		}
		return true
	})
}

// requireForetold holds what a failover says is lost against what is: what the
// source had acknowledged and the target does not have.
func requireForetold(t *testing.T, r switchReport, topic string, acked map[lab.Partition]int64) {
	t.Helper()
	var lost int64
	for _, p := range r.topic(topic).Partitions {
		mirrored := int64(0)
		if p.LastMirrored != nil {
			mirrored = *p.LastMirrored + 1
		}
		lost += max(0, acked[lab.Partition{Topic: topic, Number: p.Partition}]-mirrored)
	}
	if r.RecordsLost == nil || r.UnseenSeconds == nil {
		t.Fatalf("%s: lost %v records, unseen for %v s", topic, r.RecordsLost, r.UnseenSeconds)
	}
	// Loads come in rounds of a twentieth of a second.
	most := *r.RecordsLost + int64(*r.UnseenSeconds*moverRate) + moverRate/10
	text := fmt.Sprintf("%s: %d records are lost; foretold were %d and what came in the last %.2f s", topic, lost, *r.RecordsLost, *r.UnseenSeconds)
	if t.Log(text); lost > most {
		t.Error(text)
	}
}
