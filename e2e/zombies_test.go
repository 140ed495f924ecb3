package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/state"
	"klink/linker/workers"
)

// TestG3_ZombiesAfterAFailover: three workers share a link; one is killed, one is
// frozen for longer than its session while its appends and markers are on their
// way, and one is cut off from the target. After a failover the network delivers
// what it held, and the frozen one wakes: the broker refuses all of it, and
// nothing of what consumers see changes any more.
func TestG3_ZombiesAfterAFailover(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Proxy: true})
	d := newDoorman(t, p.dst.Broker(1).Proxy())
	for round := range ZombieRounds.N() {
		t.Run(fmt.Sprint(round), func(t *testing.T) { oneZombieRound(t, p, d, round) })
	}
}

// zombies are the workers of one link.
type zombies struct {
	pair
	doorman *doorman
	file    string
	plain   string // topic of records
	txn     string // topic of transactions
	load    *lab.Load
}

func oneZombieRound(t *testing.T, p pair, d *doorman, round int) {
	z := &zombies{pair: p, doorman: d, plain: fmt.Sprintf("plain-%d", round), txn: fmt.Sprintf("txn-%d", round)}
	const partitions = 6
	for _, topic := range []string{z.plain, z.txn} {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: partitions, Configs: lab.KeepEverything()})
	}
	z.file = configFile(t, openLink(fmt.Sprintf("shared-%d", round), p.src.Bootstrap()[0], p.dst.Bootstrap()[0], z.plain, z.txn))
	killed, frozen, cut := z.startThree(t)
	// Times of now: the broker forgets the producers of old records soon.
	var err error
	if z.load, err = lab.StartLoad(within(t, patience), p.src, lab.LoadOptions{Topics: []string{z.plain}, Seed: uint64(round), MaxBatch: 20, RecordsPerSecond: 2_000,
		From: time.Now().Add(-time.Minute), To: time.Now()}); err != nil {
		t.Fatal(err)
	}
	defer z.load.Stop()
	defer transactUntil(t, p.src, z.txn, partitions)()
	marked := d.verdicts()[verdict{markersKey, 0}]
	waitFor(t, "markers", func() bool { return d.verdicts()[verdict{markersKey, 0}] > marked+20 })
	killed.kill(t)
	z.freeze(t, frozen)
	asleep := time.Now()
	// The third goes on alone with all that a sequence guards.
	reached := boundsOf(t, p.src, z.plain)
	eventually(t, patience, "the survivor to take over", func() bool {
		for n, b := range boundsOf(t, p.dst, z.plain) {
			if b.End < reached[n].End {
				return false
			}
		}
		return true
	})
	waitFor(t, "the end of the sleeper's session", func() bool { return time.Since(asleep) > workers.DefaultSessionTimeout+workers.DefaultMargin })
	d.shut(cut.proc, everything)
	waitFor(t, "an append of the one that is cut off", func() bool { return d.held(cut.proc, produceKey) > 0 })

	cli := startCommand(t, "failover", "-o", "json", "-c", z.file, "--yes")
	cuts := requireStopped(t, cli.report(t, 0), z.plain, z.txn)
	before, seen := d.verdicts(), z.see(t, cuts)
	t.Logf("until the failover: %v", since(before, nil))

	// What was held reaches the broker now, and everybody wakes.
	d.open(frozen.proc)
	for _, key := range []int16{produceKey, markersKey} {
		waitFor(t, "answers to what the frozen one had sent", func() bool { return d.late(frozen.proc, key) > 0 })
	}
	refused := since(d.verdicts(), before)
	d.open(cut.proc)
	if err := frozen.proc.Thaw(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*klink{frozen, cut} {
		for _, topic := range []string{z.plain, z.txn} {
			k.awaitStopped(t, topic)
		}
	}
	all := since(d.verdicts(), before)
	t.Logf("of what came late: %v; in all after the failover: %v", refused, all)
	for _, key := range []int16{produceKey, markersKey} {
		if ok := (verdict{key, 0}).String(); all[ok] > 0 {
			t.Errorf("%d times %s after the failover", all[ok], ok)
		}
	}
	if v := (verdict{produceKey, kerr.InvalidProducerEpoch.Code}).String(); refused[v] == 0 {
		t.Errorf("nothing was answered %s: %v", v, refused)
	}
	z.requireUnchanged(t, seen)
	for _, k := range []*klink{frozen, cut} {
		k.stop(t)
	}
	z.requireUnchanged(t, seen)
}

// startThree starts three workers and returns when they have shared out the
// partitions, while nothing is in them: there is no gap then of which one that
// takes it over does not know what is on its way. The second one holds some of
// both topics.
func (z *zombies) startThree(t testing.TB) (killed, frozen, cut *klink) {
	t.Helper()
	var all []*klink
	for range 3 {
		k := startKlink(t, "-c", z.file)
		z.doorman.know(k.proc)
		all = append(all, k)
	}
	var both int
	for _, k := range all {
		k.await(t, "shares for all", func(l state.Link) bool {
			both = -1
			for i, other := range all {
				plain, txn := z.share(l, z.plain, other), z.share(l, z.txn, other)
				if plain+txn == 0 {
					return false
				}
				if plain > 0 && txn > 0 {
					both = i
				}
			}
			return both >= 0
		})
	}
	all[1], all[both] = all[both], all[1]
	return all[0], all[1], all[2]
}

// share counts the partitions of a topic that a worker mirrors.
func (z *zombies) share(l state.Link, topic string, k *klink) (n int) {
	for _, s := range topicOf(l, topic).Partitions {
		if s.State == state.Active && strings.Contains(s.Worker, fmt.Sprintf("-%d-", k.proc.PID())) {
			n++
		}
	}
	return n
}

// freeze stops a worker when it has decided to append and to write markers, and
// nothing of it has reached the broker.
func (z *zombies) freeze(t testing.TB, k *klink) {
	z.doorman.shut(k.proc, markerWrites)
	waitFor(t, "markers on their way", func() bool { return z.doorman.held(k.proc, markersKey) > 0 })
	z.doorman.shut(k.proc, appends)
	waitFor(t, "an append on its way", func() bool { return z.doorman.held(k.proc, produceKey) > 0 })
	if err := k.proc.Freeze(); err != nil {
		t.Fatal(err)
	}
}

// sight is what consumers of the target see.
type sight struct {
	bounds  map[lab.Partition]lab.Bounds
	digests map[lab.Partition]lab.Digest
}

// see reads the target at both isolations, and requires that up to the cut it is
// the source.
func (z *zombies) see(t testing.TB, cuts map[string]map[int32]int64) map[lab.Isolation]sight {
	t.Helper()
	out := map[lab.Isolation]sight{}
	for _, isolation := range []lab.Isolation{lab.ReadCommitted, lab.ReadUncommitted} {
		s := sight{digests: map[lab.Partition]lab.Digest{}}
		var err error
		if s.bounds, err = lab.ReadBounds(within(t, patience), z.dst, isolation, z.plain, z.txn); err != nil {
			t.Fatal(err)
		}
		for n := range s.bounds {
			s.digests[n] = z.digest(t, z.dst, n, lab.ReadOptions{Isolation: isolation})
			if cut := cuts[n.Topic][n.Number]; cut > 0 {
				upTo := lab.ReadOptions{Isolation: lab.ReadCommitted, To: cut}
				if src := z.digest(t, z.src, n, upTo); src.Hex != s.digests[n].Hex || src.Records != s.digests[n].Records {
					t.Errorf("%s up to the cut at %d: %d records and %s on the source, on the target %d and %s",
						n, cut, src.Records, src.Hex, s.digests[n].Records, s.digests[n].Hex)
				}
			}
		}
		out[isolation] = s
	}
	return out
}

func (z *zombies) digest(t testing.TB, c lab.Cluster, n lab.Partition, o lab.ReadOptions) lab.Digest {
	t.Helper()
	g, err := lab.DigestPartition(within(t, patience), c, n, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// requireUnchanged reads the target again.
func (z *zombies) requireUnchanged(t testing.TB, before map[lab.Isolation]sight) {
	t.Helper()
	for isolation, now := range z.see(t, nil) {
		for n, b := range now.bounds {
			if was := before[isolation].bounds[n]; was != b {
				t.Errorf("%s, %s: %+v after the failover, and then %+v", n, isolation, was, b)
			}
			if was := before[isolation].digests[n]; was != now.digests[n] {
				t.Errorf("%s, %s: %+v after the failover, and then %+v", n, isolation, was, now.digests[n])
			}
		}
	}
}

// transactUntil writes small transactions to all partitions of a topic, every
// fifth aborted, until the function returned is called.
func transactUntil(t testing.TB, c lab.Cluster, topic string, partitions int32) (stop func()) {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.TransactionalID("steady-"+topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cl.Close()
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if err := transactOnce(cl, topic, partitions, i%5 != 0); err != nil {
				t.Errorf("transaction %d: %v", i, err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// transactOnce writes one transaction with a record for each partition.
func transactOnce(cl *kgo.Client, topic string, partitions int32, commit bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for n := range partitions {
		records = append(records, &kgo.Record{Topic: topic, Partition: n, Value: []byte("v")})
	}
	err := cl.ProduceSync(ctx, records...).FirstErr()
	return errors.Join(err, cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
}
