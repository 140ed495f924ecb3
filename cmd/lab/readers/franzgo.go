package readers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// programVariable makes a process the franz-go follower.
const programVariable = "KLINK_LAB_FOLLOWER"

// mainCalled says that this program can be started as a follower.
var mainCalled atomic.Bool

// Main makes this process the franz-go follower where Follow has started it as
// one, and tells whether that was so; the program then ends. A program that
// calls Follow calls it first of all.
func Main() bool {
	mainCalled.Store(true)
	if os.Getenv(programVariable) == "" {
		return false
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
		stop()
	}()
	f := &franzGo{out: bufio.NewWriter(os.Stdout)}
	if err := f.run(ctx, os.Args[1:]); err != nil {
		kind := "other"
		if errors.Is(err, ErrReset) {
			kind = "reset"
		}
		f.say("@error %s %s", kind, strings.ReplaceAll(err.Error(), "\n", " "))
		f.out.Flush()
		os.Exit(1)
	}
	return true
}

// franzGo is the program.
type franzGo struct {
	client *kgo.Client
	out    *bufio.Writer
}

func (f *franzGo) say(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

// commitWait bounds one commit.
const commitWait = 10 * time.Second

// run follows until ctx ends: BOOTSTRAP GROUP PERIOD_MS TOPIC...
func (f *franzGo) run(ctx context.Context, args []string) error {
	if len(args) < 4 {
		return errors.New("want BOOTSTRAP GROUP PERIOD_MS and topics")
	}
	period, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil || period <= 0 {
		return fmt.Errorf("%q is no period: %w", args[2], err)
	}
	f.client, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(args[0], ",")...),
		kgo.ConsumerGroup(args[1]),
		kgo.ConsumeTopics(args[3:]...),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.AdjustFetchOffsetsFn(requireCommits),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	defer f.client.CloseAllowingRebalance()
	last := time.Now().UnixMilli() / period
	for ctx.Err() == nil {
		if err := f.poll(ctx); err != nil {
			return err
		}
		if now := time.Now().UnixMilli() / period; now != last {
			if err := f.commit(); err != nil {
				return err
			}
			last = now
		}
		f.client.AllowRebalance()
	}
	if err := f.commit(); err != nil {
		return err
	}
	f.say(followEnd)
	return f.out.Flush()
}

// requireCommits is what auto.offset.reset=none means where a group has no
// commit: kgo would begin at the start.
func requireCommits(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range at {
		for n, o := range partitions {
			if o.EpochOffset().Offset < 0 {
				return nil, fmt.Errorf("%w: no commit for %s/%d", ErrReset, topic, n)
			}
		}
	}
	return at, nil
}

func (f *franzGo) poll(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	fetches := f.client.PollFetches(limited)
	for _, e := range fetches.Errors() {
		var lost *kgo.ErrDataLoss
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled):
		case errors.Is(e.Err, ErrReset), errors.Is(e.Err, kerr.OffsetOutOfRange), errors.As(e.Err, &lost):
			return fmt.Errorf("%w: %s/%d: %w", ErrReset, e.Topic, e.Partition, e.Err)
		default:
			// kgo tries again by itself, as other clients do without a word.
			fmt.Fprintf(os.Stderr, "%s/%d: %v\n", e.Topic, e.Partition, e.Err)
		}
	}
	fetches.EachPartition(f.note)
	// Whatever is committed has been told before.
	return f.out.Flush()
}

func (f *franzGo) note(p kgo.FetchTopicPartition) {
	first, next := int64(-1), int64(-1)
	run := func() {
		if first >= 0 {
			f.say("@records %s %d %d %d", p.Topic, p.Partition, first, next)
		}
	}
	for _, r := range p.Records {
		if r.Offset != next {
			run()
			first = r.Offset
		}
		next = r.Offset + 1
	}
	run()
}

func (f *franzGo) commit() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitWait)
	defer cancel()
	offsets := f.client.UncommittedOffsets()
	if len(offsets) == 0 {
		return nil
	}
	if err := f.client.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	for topic, partitions := range offsets {
		for n, o := range partitions {
			f.say("@commit %s %d %d", topic, n, o.Offset)
		}
	}
	return f.out.Flush()
}
