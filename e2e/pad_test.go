package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/ledger"
	"klink/linker/pad"
	"klink/linker/topics"
)

// padTarget pads a partition of a real cluster; the control topic is a variable.
type padTarget struct {
	*appenderRig
	target appender.Target
	adm    *kadm.Client
	pads   map[int64]*batch.Pads
	rec    pad.Record
	pieces int
}

func newPadTarget(t testing.TB, k *lab.Kafka, topic string) *padTarget {
	t.Helper()
	r := newAppenderRig(t, k, topic)
	return &padTarget{appenderRig: r, target: r.target(topic), adm: admin(t, k), pads: make(map[int64]*batch.Pads)}
}

func (p *padTarget) Ends(ctx context.Context) (pad.Ends, error) {
	e := p.a.Ends(ctx, []appender.Target{p.target})[p.target]
	return pad.Ends{Start: e.LogStart, HighWatermark: e.HighWatermark, End: e.LogEnd, LeaderEpoch: e.LeaderEpoch}, e.Err
}

func (p *padTarget) Append(ctx context.Context, piece pad.Piece) pad.Appended {
	if p.pads[piece.Timestamp] == nil {
		o := batch.DefaultPadOptions()
		o.Timestamp = piece.Timestamp
		p.pads[piece.Timestamp] = batch.NewPads(o)
	}
	b, err := p.pads[piece.Timestamp].Append(nil, piece.Count)
	if err == nil {
		err = batch.Patch(b, batch.Fields{Identity: batch.Identity{ProducerID: appenderPID}, BaseSequence: int32(piece.Base)})
	}
	if err != nil {
		return pad.Appended{Outcome: pad.NotSent, Err: err}
	}
	p.pieces++
	r := p.a.Append(ctx, p.target, b, piece.Base)
	out := pad.Appended{Outcome: pad.Unknown, Base: r.Base, Reason: r.Reason, Err: r.Err}
	switch r.Outcome {
	case appender.Appended:
		out.Outcome = pad.Done
	case appender.NotSent:
		out.Outcome = pad.NotSent
	case appender.Refused:
		out.Outcome = pad.Refused
	}
	return out
}

func (p *padTarget) Trim(ctx context.Context, to int64) error {
	return p.a.Trim(ctx, map[appender.Target]int64{p.target: to})[p.target].Err
}

func (p *padTarget) Policy(ctx context.Context) (string, error) {
	cs, err := p.adm.DescribeTopicConfigs(ctx, p.target.Topic)
	if err != nil {
		return "", err
	}
	for _, c := range cs[0].Configs {
		if c.Key == "cleanup.policy" {
			return c.MaybeValue(), nil
		}
	}
	return "", errors.New("the answer holds no cleanup.policy")
}

func (p *padTarget) SetPolicy(ctx context.Context, policy string) error {
	rs, err := p.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, p.target.Topic)
	if err != nil {
		return err
	}
	return rs[0].Err
}

func (p *padTarget) Siblings() pad.Siblings                    { return pad.Siblings{} }
func (p *padTarget) Put(_ context.Context, r pad.Record) error { p.rec = r; return nil }
func (p *padTarget) Allowed() (until time.Time, err error)     { return time.Now().Add(patience), nil }
func (p *padTarget) run(x *pad.Padder, goal int64) (r pad.Result) {
	return p.until(x, goal, pad.Record.Ready)
}

// until runs until what is on record is as wanted; a policy that a broker tells of
// and does not act upon yet is a fault that ends by itself.
func (p *padTarget) until(x *pad.Padder, goal int64, is func(pad.Record) bool) (r pad.Result) {
	p.t.Helper()
	eventually(p.t, patience, "the goal", func() bool {
		r = x.Run(context.Background(), pad.Goal{Offset: goal, Reason: ledger.Padded}, p.rec)
		if r.Err != nil {
			p.t.Logf("again: %v", r.Err)
		}
		return r.Err == nil && is(r.Record)
	})
	return r
}

// segments are the base offsets of the partition's segment files.
func segments(t testing.TB, k *lab.Kafka, topic string) (bases []int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k.Brokers()[0].DataDir(), topic+"-0", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		bases = append(bases, base)
	}
	return bases
}

// Issue 4, start at N: a compacted topic is padded in chunks that each begin a
// segment, so that the broker gets rid of them; the first record begins one too.
// A broker that is killed and shows deleted pads again is trimmed again before
// the goal is done, and then the policy is what it was.
func TestPadOnRealKafka(t *testing.T) {
	t.Parallel()
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) { padOn(t, version) })
	}
}

func padOn(t *testing.T, version string) {
	const topic, goal, chunk = "padded", 1_050_000, 250_000
	k := startOne(t, lab.KafkaOptions{Version: version, Props: map[string]string{
		"log.retention.check.interval.ms": "500", "log.segment.delete.delay.ms": "500", "log.initial.task.delay.ms": "500",
		"log.flush.start.offset.checkpoint.interval.ms": "3600000"}})
	create(t, k, lab.TopicSpec{Name: topic, Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}})
	p := newPadTarget(t, k, topic)
	room, err := topics.NewTarget(controlClient(t, k), "__klink").Room(within(t, patience), topic, 0)
	if err != nil || room.UsableBytes <= 0 || room.Dir == "" || room.Broker != k.Brokers()[0].ID() {
		t.Errorf("the disk's room: %+v, %v", room, err)
	}
	set := pad.Settings{PieceOffsets: 50_000, ChunkOffsets: chunk, Checkpoints: 5 * time.Second, SettleTime: 3 * time.Second, PollTime: 100 * time.Millisecond}
	begun := time.Now()
	res := p.run(&pad.Padder{Ports: p, Settings: set}, goal)
	t.Logf("ready after %v, segments %v", time.Since(begun), segments(t, k, topic))
	if p.pieces != 21 || res.Record.RestorePolicy != "compact" {
		t.Errorf("%d pieces, record %+v", p.pieces, res.Record)
	}
	// The start of the log is checkpointed from time to time: killed before that,
	// the broker shows the pads again.
	if err := k.Brokers()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := k.Brokers()[0].Start(within(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the broker", func() bool { _, err := p.Ends(within(t, patience)); return err == nil })
	e, err := p.Ends(within(t, patience))
	if err != nil || e.End != goal {
		t.Fatalf("after the restart: %+v, %v", e, err)
	}
	t.Logf("after kill -9 the log starts at %d", e.Start)
	first, x := res.Record.TrimmedAt, &pad.Padder{Ports: p, Settings: set}
	res = p.run(x, goal)
	if !pad.Recheck(e.Start, goal) || !res.Record.TrimmedAt.After(first) {
		t.Errorf("the trim did not come undone, or was not done again: %+v", res.Record)
	}
	if e, err = p.Ends(within(t, patience)); err != nil || e.Start != goal {
		t.Fatalf("trimmed again: %+v, %v", e, err)
	}
	eventually(t, patience, "the full chunks to be gone from the disk", func() bool {
		s := segments(t, k, topic)
		return len(s) == 1 && s[0] == 4*chunk
	})

	writeFirst(t, k, topic, goal)
	if s := segments(t, k, topic); !slices.Contains(s, goal) {
		t.Errorf("the first record began no segment: %v", s)
	}
	p.until(x, goal, func(r pad.Record) bool { return r.Done })
	if policy, err := p.Policy(within(t, patience)); err != nil || policy != "compact" {
		t.Errorf("policy %q, %v", policy, err)
	}
	eventually(t, patience, "the pads to be gone from the disk", func() bool {
		s := segments(t, k, topic)
		return len(s) == 1 && s[0] == goal
	})
	requireFirstOffset(t, k, topic, goal)
}

// writeFirst is the first record of the mirror.
func writeFirst(t testing.TB, k *lab.Kafka, topic string, want int64) {
	t.Helper()
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r, err := cl.ProduceSync(within(t, patience), kgo.KeySliceRecord([]byte("k"), []byte("v"))).First()
	if err != nil || r.Offset != want {
		t.Fatalf("the first record: %+v, %v", r, err)
	}
}

// requireFirstOffset reads from the start of the log.
func requireFirstOffset(t testing.TB, k *lab.Kafka, topic string, want int64) {
	t.Helper()
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	fetches := cl.PollFetches(within(t, patience))
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	for _, r := range fetches.Records() {
		if r.Offset != want {
			t.Errorf("a consumer sees offset %d, the first record is at %d", r.Offset, want)
		}
	}
}
