package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/linker/state"
)

// assigned makes a topic with the given replicas for each partition, the first
// of which lead, and returns when they serve.
func assigned(t testing.TB, c lab.Cluster, topic string, configs map[string]string, replicas ...[]int32) {
	t.Helper()
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = topic, -1, -1
	for n, ids := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(n), ids
		r.ReplicaAssignment = append(r.ReplicaAssignment, a)
	}
	for k, v := range configs {
		x := kmsg.NewCreateTopicsRequestTopicConfig()
		x.Name, x.Value = k, kmsg.StringPtr(v)
		r.Configs = append(r.Configs, x)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, r)
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	eventually(t, patience, topic+" to be served", func() bool {
		ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
		return err == nil && ends.Error() == nil
	})
}

// partitionsOf asks for leaders and in-sync replicas.
func partitionsOf(t testing.TB, adm *kadm.Client, topic string) []kadm.PartitionDetail {
	t.Helper()
	var out []kadm.PartitionDetail
	eventually(t, patience, "metadata of "+topic, func() bool {
		there, err := adm.ListTopics(within(t, patience), topic)
		if err != nil || there[topic].Err != nil {
			return false
		}
		out = there[topic].Partitions.Sorted()
		return true
	})
	return out
}

// moveLeaders makes the next replica of each partition its leader.
func moveLeaders(ctx context.Context, adm *kadm.Client, topic string) error {
	there, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	var to kadm.AlterPartitionAssignmentsReq
	for _, p := range there[topic].Partitions.Sorted() {
		to.Assign(topic, p.Partition, append(slices.Clone(p.Replicas[1:]), p.Replicas[0]))
	}
	if _, err := adm.AlterPartitionAssignments(ctx, to); err != nil {
		return err
	}
	for {
		_, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, there.TopicsSet())
		if err != nil {
			return err
		}
		now, err := adm.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		moved := true
		for _, p := range now[topic].Partitions {
			moved = moved && len(p.Replicas) > 0 && p.Leader == p.Replicas[0] && p.Leader != there[topic].Partitions[p.Partition].Leader
		}
		if moved {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("leaders of %s never moved: %w", topic, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// caughtUp waits until the target holds all that the source holds now.
func caughtUp(ctx context.Context, p pair, topics ...string) error {
	var want map[lab.Partition]lab.Bounds
	for {
		var err error
		if want == nil {
			want, err = lab.ReadBounds(ctx, p.src, lab.ReadCommitted, topics...)
		}
		if err == nil {
			have, err := lab.ReadBounds(ctx, p.dst, lab.ReadUncommitted, topics...)
			behind := err != nil
			for n, b := range want {
				behind = behind || have[n].End < b.End
			}
			if !behind {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the target never caught up: %w (%v)", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// threeBrokers are clusters in which two replicas must have every record.
var threeBrokers = lab.KafkaOptions{Brokers: 3, Proxy: true, HeapMiB: 400, Props: map[string]string{
	"min.insync.replicas": "2", "replica.lag.time.max.ms": "3000"}}

// everyBroker names all bootstrap addresses, since some brokers will be down.
func (p pair) everyBroker(topics ...string) (args []string) {
	for _, a := range p.src.Bootstrap() {
		args = append(args, "--source", a)
	}
	for _, a := range p.dst.Bootstrap() {
		args = append(args, "--target", a)
	}
	for _, topic := range topics {
		args = append(args, "--topic", topic)
	}
	return args
}

// TestG3_Brokers: what happens to brokers on either side neither loses nor
// doubles a record, and holds up no partition that other brokers lead.
func TestG3_Brokers(t *testing.T) {
	t.Parallel()
	p := startPair(t, threeBrokers, threeBrokers)
	t.Run("leaders move", func(t *testing.T) { testLeaderMoves(t, p) })
	t.Run("brokers die", func(t *testing.T) { testBrokerDeaths(t, p) })
	t.Run("one broker hangs", func(t *testing.T) { testHangingBroker(t, p) })
	t.Run("unclean election", func(t *testing.T) { testUncleanElection(t, p) })
}

// rotated are replicas on all brokers, led in turn.
func rotated(n int) (out [][]int32) {
	for i := range int32(n) {
		out = append(out, []int32{i%3 + 1, (i+1)%3 + 1, (i+2)%3 + 1})
	}
	return out
}

// underLoad runs do for both sides at once while a topic of six partitions is
// written and mirrored, and compares at the end.
func underLoad(t *testing.T, p pair, topic string, do func(ctx context.Context, c *lab.Kafka) error) {
	assigned(t, p.src, topic, lab.KeepEverything(), rotated(6)...)
	load, err := lab.StartLoad(within(t, patience), p.src, lab.LoadOptions{Topics: []string{topic}, Seed: 1, MaxBatch: 100, RecordsPerSecond: 3000})
	if err != nil {
		t.Fatal(err)
	}
	k := startKlink(t, p.everyBroker(topic)...)
	if err := caughtUp(within(t, patience), p, topic); err != nil {
		t.Fatal(err)
	}
	sides, ctx := errgroup.WithContext(within(t, 10*patience))
	for _, c := range []*lab.Kafka{p.src, p.dst} {
		sides.Go(func() error { return do(ctx, c) })
	}
	if err := sides.Wait(); err != nil {
		t.Fatal(err)
	}
	r := load.Stop()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	requireMirrored(t, p, r.Acked, topic)
	k.stop(t)
	t.Logf("%d records", r.Acked)
}

func testLeaderMoves(t *testing.T, p pair) {
	moves := map[*lab.Kafka]*kadm.Client{p.src: admin(t, p.src), p.dst: admin(t, p.dst)}
	underLoad(t, p, "moved", func(ctx context.Context, c *lab.Kafka) error {
		for range LeaderMoves.N() {
			if err := moveLeaders(ctx, moves[c], "moved"); err != nil {
				return err
			}
			if err := caughtUp(ctx, p, "moved"); err != nil {
				return err
			}
		}
		return nil
	})
}

// testBrokerDeaths kills, stops and freezes one broker after the other.
func testBrokerDeaths(t *testing.T, p pair) {
	kill := func(ctx context.Context, c *lab.Kafka, id int32) error {
		return errors.Join(c.Broker(id).Kill(), c.Broker(id).Start(ctx))
	}
	stop := func(ctx context.Context, c *lab.Kafka, id int32) error { return c.Broker(id).Restart(ctx) }
	// A frozen broker is replaced, and finds that out when it is thawed.
	freeze := func(ctx context.Context, c *lab.Kafka, id int32) error {
		return errors.Join(c.Broker(id).Freeze(), awaitReplaced(ctx, c, id, "died"), c.Broker(id).Thaw())
	}
	harms := []func(context.Context, *lab.Kafka, int32) error{kill, stop, kill, freeze}
	underLoad(t, p, "died", func(ctx context.Context, c *lab.Kafka) error {
		for i := range 2 * BrokerKills.N() {
			if err := harms[i%len(harms)](ctx, c, int32(i%3+1)); err != nil {
				return err
			}
			if err := caughtUp(ctx, p, "died"); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitReplaced returns when a broker leads nothing of a topic by the word of
// another one.
func awaitReplaced(ctx context.Context, c *lab.Kafka, id int32, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Broker(id%3 + 1).Addr()))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	named := kmsg.NewMetadataRequestTopic()
	named.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, named)
	for {
		resp, err := req.RequestWith(ctx, cl.SeedBrokers()[0])
		if err == nil && len(resp.Topics) == 1 {
			leads := func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader == id }
			if parts := resp.Topics[0].Partitions; len(parts) > 0 && !slices.ContainsFunc(parts, leads) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("broker %d is never replaced: %w (%v)", id, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// hang is how long one broker hangs: longer than any request of klink waits for
// an answer, so that the end of such a wait is among what is watched.
const hang = 12 * time.Second

// testHangingBroker freezes one broker of each side in turn. Partitions that
// have nothing to do with it must keep moving all the while, and the one that it
// leads go on by itself afterwards.
func testHangingBroker(t *testing.T, p pair) {
	one := map[string]string{"min.insync.replicas": "1", "retention.ms": "-1"}
	for _, c := range []*lab.Kafka{p.src, p.dst} {
		assigned(t, c, "healthy", one, []int32{1}, []int32{2}, []int32{1}, []int32{2})
		assigned(t, c, "stuck", one, []int32{3})
	}
	k := startKlink(t, p.everyBroker("healthy", "stuck")...)
	load := lab.LoadOptions{Topics: []string{"healthy"}, Seed: 1, MaxBatch: 10, RecordsPerSecond: 1000}
	healthy, err := lab.StartLoad(within(t, patience), p.src, load)
	if err != nil {
		t.Fatal(err)
	}
	load.Topics, load.RecordsPerSecond = []string{"stuck"}, 100
	stuck, err := lab.StartLoad(within(t, patience), p.src, load)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*lab.Kafka{p.dst, p.src} {
		if err := caughtUp(within(t, patience), p, "healthy", "stuck"); err != nil {
			t.Fatal(err)
		}
		if err := c.Broker(3).Freeze(); err != nil {
			t.Fatal(err)
		}
		moves, stall := watchMoves(t, k, "healthy", hang)
		k.await(t, "the partition of the hanging broker to be shown as such", func(l state.Link) bool {
			s, _ := partition(l, "stuck", 0)
			return s.State == map[bool]state.State{true: state.SourceUnavailable, false: state.TargetUnavailable}[c == p.src]
		})
		if err := c.Broker(3).Thaw(); err != nil {
			t.Fatal(err)
		}
		t.Logf("moves seen while a broker hung: %v, longest rest %v", moves, stall)
		for n, m := range moves {
			if m < 10 { // one that waits for the hanging broker moves once or twice
				t.Errorf("healthy/%d was seen to move %d times only in %v", n, m, hang)
			}
		}
		if stall > 2*hang/3 {
			t.Errorf("a healthy partition rested for %v", stall)
		}
	}
	total := healthy.Stop().Acked + stuck.Stop().Acked
	requireMirrored(t, p, total, "healthy", "stuck")
	k.stop(t)
}

// watchMoves counts how often each partition's end was seen to move, and the
// longest time that one did not.
func watchMoves(t testing.TB, k *klink, topic string, d time.Duration) (moves [4]int, longest time.Duration) {
	t.Helper()
	begun := time.Now()
	var ends [4]int64
	last := [4]time.Time{begun, begun, begun, begun}
	for time.Since(begun) < d {
		l := k.await(t, "a status", func(state.Link) bool { return true })
		for n := range ends {
			s, ok := partition(l, topic, int32(n))
			if ok && s.TargetEnd != nil && *s.TargetEnd > ends[n] {
				moves[n]++
				longest = max(longest, time.Since(last[n]))
				ends[n], last[n] = *s.TargetEnd, time.Now()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	for n := range last {
		longest = max(longest, time.Since(last[n]))
	}
	return moves, longest
}

// testUncleanElection makes the source lose a tail that has been mirrored: all
// but the leader are out of date when it dies, and one of those is elected. The
// log regrows beyond our position while klink runs and while it is down, and, in
// a third topic, ends below it.
func testUncleanElection(t *testing.T, p pair) {
	fragile := map[string]string{"min.insync.replicas": "1", "retention.ms": "-1", "unclean.leader.election.enable": "true"}
	lossy := []string{"u-live", "u-short", "u-down"}
	for _, topic := range lossy {
		assigned(t, p.src, topic, fragile, []int32{1, 2})
	}
	assigned(t, p.src, "u-calm", fragile, []int32{3})
	all := append([]string{"u-calm"}, lossy...)
	running := startKlink(t, p.everyBroker("u-live", "u-short", "u-calm")...)
	down := configFile(t, object{"name": "down", "source": object{"brokers": p.src.Bootstrap()},
		"target": object{"brokers": p.dst.Bootstrap()}, "topics": object{"include": []string{"u-down"}}})
	early := startKlink(t, "-c", down)
	total := produce(t, p.src, fixed(1, 800, all...)).Acked
	requireMirrored(t, p, total, all...)

	// The follower dies; what comes now is committed by the leader alone.
	if err := p.src.Broker(2).Kill(); err != nil {
		t.Fatal(err)
	}
	adm := admin(t, p.src)
	for _, topic := range lossy {
		eventually(t, patience, topic+" to be left to its leader", func() bool {
			return slices.Equal(partitionsOf(t, adm, topic)[0].ISR, []int32{1})
		})
	}
	total += produce(t, p.src, fixed(2, 1200, lossy...)).Acked
	requireMirrored(t, p, total, all...)
	early.stop(t)
	was := digestsOf(t, p.dst, lossy...)

	if err := p.src.Broker(1).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.src.Broker(2).Start(within(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	set := kadm.TopicsSet{}
	for _, topic := range lossy {
		set.Add(topic, 0)
	}
	eventually(t, patience, "the out-of-date replica to lead", func() bool {
		_, _ = adm.ElectLeaders(within(t, patience), kadm.ElectLiveReplica, set)
		for _, topic := range lossy {
			if partitionsOf(t, adm, topic)[0].Leader != 2 {
				return false
			}
		}
		return true
	})
	produce(t, p.src, fixed(3, 1600, "u-live", "u-down"))
	for _, topic := range []string{"u-live", "u-short"} {
		running.awaitHalt(t, topic, 0, state.Diverged)
	}
	late := startKlink(t, "-c", down)
	late.awaitHalt(t, "u-down", 0, state.Diverged)
	produce(t, p.src, fixed(4, 300, lossy...))
	goOn(t, p, 5, "u-calm")
	running.stop(t)
	again := startKlink(t, p.everyBroker("u-live", "u-short", "u-calm")...)
	for _, topic := range []string{"u-live", "u-short"} {
		again.awaitHalt(t, topic, 0, state.Diverged)
	}
	goOn(t, p, 6, "u-calm")
	again.stop(t)
	late.stop(t)
	was.requireUntouched(t, p.dst, lossy...)
}
