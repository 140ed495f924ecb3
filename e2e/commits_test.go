package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/groups/commits"
)

// ledgerOfCommits is what a Follower's batches, with a poll at each gap, say of
// all committed offsets.
type ledgerOfCommits struct {
	adm *kadm.Client
	f   *commits.Follower

	mu      sync.Mutex        // guards all below
	offsets map[string]string // "offset metadata" by group/topic/partition
	gaps    int
	late    []time.Duration // between an event's time and its receipt
}

// run takes batches until ctx ends.
func (l *ledgerOfCommits) run(ctx context.Context) {
	for {
		select {
		case b := <-l.f.Batches():
			if b.Gap {
				l.poll(ctx)
			}
			l.take(b)
		case <-ctx.Done():
			return
		}
	}
}

// poll asks all coordinators, until all have answered.
func (l *ledgerOfCommits) poll(ctx context.Context) {
	for ctx.Err() == nil {
		if polled, err := allOffsets(ctx, l.adm); err == nil {
			l.mu.Lock()
			l.offsets = polled
			l.gaps++
			l.mu.Unlock()
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

func (l *ledgerOfCommits) take(b commits.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range b.Events {
		k := fmt.Sprintf("%s/%s/%d", e.Group, e.Topic, e.Partition)
		if e.Offset == commits.Deleted {
			delete(l.offsets, k)
		} else {
			l.offsets[k] = fmt.Sprintf("%d %s", e.Offset, e.Metadata)
		}
		l.late = append(l.late, b.Received.Sub(e.At))
	}
}

// allOffsets is what the coordinators say, without what is not decided.
func allOffsets(ctx context.Context, adm *kadm.Client) (map[string]string, error) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, g := range adm.FetchManyOffsets(ctx, listed.Groups()...) {
		if g.Err != nil {
			return nil, g.Err
		}
		g.Fetched.Each(func(o kadm.OffsetResponse) {
			if o.At >= 0 {
				out[fmt.Sprintf("%s/%s/%d", g.Group, o.Topic, o.Partition)] = fmt.Sprintf("%d %s", o.At, o.Metadata)
			}
		})
	}
	return out, nil
}

// TestCommitsAreFollowed: while coordinators are killed and come back, and groups
// commit, delete, and commit in transactions that end either way or hang, what is
// told is what the coordinators hold in the end.
func TestCommitsAreFollowed(t *testing.T) {
	t.Parallel()
	k := startOne(t, lab.KafkaOptions{Brokers: 3})
	create(t, k, lab.TopicSpec{Name: "orders", Partitions: 4, Replicas: 3})
	adm := admin(t, k)
	cl, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	wanted := func(g string) bool { return strings.HasPrefix(g, "g") }
	l := &ledgerOfCommits{adm: adm, offsets: make(map[string]string),
		f: commits.New(commits.Options{Client: cl, Group: wanted, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})}
	hangs := newTxnCommits(t, k, "hangs", beforeKIP890)
	hangs.commit("g-0", kadm.Offset{Topic: "orders", Partition: 3, At: 1})

	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := l.f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() { l.run(ctx) })
	select {
	case <-l.f.Ready():
	case <-time.After(patience):
		t.Fatalf("not ready: %+v", l.f.Status())
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	var committers sync.WaitGroup
	var committed [8]atomic.Int64
	for i := range committed {
		committers.Go(func() { commitAnyhow(load, t, adm, k, i, &committed[i]) })
	}
	for i := range BrokerKills.N() {
		b := k.Broker(int32(i%3 + 1))
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(within(t, 2*patience)); err != nil {
			t.Fatal(err)
		}
	}
	// Every kind of commit, by every group, also after the last kill.
	for i := range committed {
		enough := committed[i].Load() + 20
		eventually(t, patience, fmt.Sprintf("g-%d to commit", i), func() bool { return committed[i].Load() >= enough })
	}
	stop()
	committers.Wait()
	l.requireSame(t)
	hangs.end(kgo.TryCommit)
	l.requireSame(t)
	eventually(t, patience, "no transaction to be awaited any more", func() bool { return l.f.Status().Open == 0 })
	l.report(t)
}

// commitAnyhow commits as one group, and as one that is not wanted, until ctx
// ends: plainly, in transactions, and by deleting, and counts how often it did.
// What fails because a broker is away is let be.
func commitAnyhow(ctx context.Context, t *testing.T, adm *kadm.Client, c lab.Cluster, i int, rounds *atomic.Int64) {
	group := fmt.Sprintf("g-%d", i)
	x := newTxnCommits(t, c, "txn-"+group, transactions(i%2))
	for n := int64(1); ctx.Err() == nil; n++ {
		at := kadm.Offset{Topic: "orders", Partition: int32(n % 3), At: n, LeaderEpoch: -1, Metadata: group}
		switch {
		case n%10 == 0:
			x.commit(group, at)
			at.Partition = (at.Partition + 1) % 3
			x.commit(group, at)
			x.end(kgo.TransactionEndTry(n%20 == 0))
		case n%17 == 0:
			del := make(kadm.TopicsSet)
			del.Add("orders", at.Partition)
			_, _ = adm.DeleteOffsets(ctx, group, del)
		default:
			offsets := make(kadm.Offsets)
			offsets.Add(at)
			if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
				continue
			}
			_ = adm.CommitAllOffsets(ctx, "unwanted", offsets)
		}
		rounds.Add(1)
	}
}

// requireSame waits until what was told is what the coordinators hold.
func (l *ledgerOfCommits) requireSame(t *testing.T) {
	t.Helper()
	var diff string
	defer func() {
		if t.Failed() {
			t.Logf("told (+) and held (-):\n%s\n%+v", diff, l.f.Status())
		}
	}()
	eventually(t, patience, "what is told to be what is held", func() bool {
		held, err := allOffsets(within(t, patience), l.adm)
		if err != nil {
			return false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		told := maps.Clone(l.offsets)
		for _, m := range []map[string]string{held, told} {
			maps.DeleteFunc(m, func(k, _ string) bool { return strings.HasPrefix(k, "unwanted/") })
		}
		diff = cmp.Diff(held, told)
		return diff == "" && len(held) >= 8
	})
}

func (l *ledgerOfCommits) report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.late)
	t.Logf("%d events, p50 %v, p99 %v after they counted; %d gaps; %+v", len(l.late), l.late[len(l.late)/2], l.late[len(l.late)*99/100], l.gaps, l.f.Status())
	if s := l.f.Status(); s.State != commits.Following || s.Unknown != 0 {
		t.Errorf("%+v", s)
	}
	// Coordinators that moved were read on from where they had been read to.
	if l.gaps != 1 {
		t.Errorf("%d gaps, want the first one alone", l.gaps)
	}
}
