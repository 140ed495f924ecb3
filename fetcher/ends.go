package fetcher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/gather"
	"klink/fetcher/leaders"
)

// endsPerRequest bounds one request for log ends. A broker takes some
// milliseconds for a thousand partitions, and other requests on the same
// connection wait for that.
const endsPerRequest = 1000

// endKind is a kind of log end. Each goes with requests of its own, since a request
// may name a partition only once.
type endKind int

const (
	logStarts endKind = iota
	lastStables
	highWatermarks
	epochEnds
)

// Special timestamps and isolation levels of ListOffsets.
const (
	latestOffset   = -1
	earliestOffset = -2

	readUncommitted = 0
	readCommitted   = 1
)

// ofLog is a question about one log, fenced by the epoch of the leader that is asked.
type ofLog struct {
	feed.Partition
	leader int32
	// epoch is the one whose end is asked for, with epochEnds.
	epoch int32
}

// logEnd is the answer; epoch is that of the end, with epochEnds.
type logEnd struct {
	offset int64
	epoch  int32
	err    error
}

// desks gather what is asked of each broker.
type desks struct {
	mu  sync.Mutex // guards all
	all map[deskOf]*gather.Desk[ofLog, logEnd]
}

type deskOf struct {
	broker int32
	kind   endKind
}

// pending is a question that was put.
type pending gather.Ticket[ofLog, logEnd]

// put puts a question to a leader, together with those of others (Q1 to Q3 of
// package gather).
func (r *LogReader) put(broker int32, kind endKind, q ofLog) pending {
	of := deskOf{broker, kind}
	r.desks.mu.Lock()
	d := r.desks.all[of]
	if d == nil {
		d = gather.New(gather.Options[ofLog, logEnd]{Most: endsPerRequest, Timeout: requestTimeout,
			Ask: func(ctx context.Context, all []ofLog) map[ofLog]logEnd { return r.askAll(ctx, of, all) }})
		if r.desks.all == nil {
			r.desks.all = make(map[deskOf]*gather.Desk[ofLog, logEnd])
		}
		r.desks.all[of] = d
	}
	r.desks.mu.Unlock()
	return pending(d.Put(q))
}

// wait returns the answer; its error is the one of the answer, or of ctx.
func (p pending) wait(ctx context.Context) (logEnd, error) {
	a, err := gather.Ticket[ofLog, logEnd](p).Wait(ctx)
	switch {
	case errors.Is(err, gather.ErrNoAnswer):
		err = fmt.Errorf("%w: an answer without the partition asked for", errDisorder)
	case err == nil:
		err = a.err
	}
	if err != nil {
		return logEnd{offset: feed.Unknown, epoch: feed.NoEpoch}, err
	}
	return a, nil
}

// askAll puts questions to one broker. Those about one partition in two leader
// epochs, or about two of its epochs, go one after the other.
func (r *LogReader) askAll(ctx context.Context, of deskOf, all []ofLog) map[ofLog]logEnd {
	out := make(map[ofLog]logEnd, len(all))
	for len(all) > 0 {
		var later []ofLog
		now := make(map[feed.Partition]ofLog, len(all))
		for _, q := range all {
			if _, twice := now[q.Partition]; twice {
				later = append(later, q)
				continue
			}
			now[q.Partition] = q
		}
		var err error
		each := func(p feed.Partition, a logEnd) {
			if q, asked := now[p]; asked {
				out[q] = a
			}
		}
		switch of.kind {
		case logStarts:
			err = r.list(ctx, of.broker, listing{earliestOffset, readUncommitted}, now, each)
		case lastStables:
			err = r.list(ctx, of.broker, listing{latestOffset, readCommitted}, now, each)
		case highWatermarks:
			err = r.list(ctx, of.broker, listing{latestOffset, readUncommitted}, now, each)
		case epochEnds:
			err = r.epochEnds(ctx, of.broker, now, each)
		}
		if err != nil {
			for _, q := range now {
				out[q] = logEnd{offset: feed.Unknown, epoch: feed.NoEpoch, err: err}
			}
		}
		all = later
	}
	return out
}

// listing is what ListOffsets looks for: a timestamp in ms, or a special one.
type listing struct {
	at        int64
	isolation int8
}

func (r *LogReader) list(ctx context.Context, broker int32, l listing, about map[feed.Partition]ofLog, each func(feed.Partition, logEnd)) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel, req.TimeoutMillis = l.isolation, int32(listWait.Milliseconds())
	for name, all := range byTopic(about) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for _, q := range all {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.Timestamp = q.Partition.Partition, q.leader, l.at
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.cl.Broker(int(broker)))
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			each(feed.Partition{Topic: t.Topic, Partition: p.Partition}, logEnd{offset: p.Offset, epoch: feed.NoEpoch, err: kerr.ErrorForCode(p.ErrorCode)})
		}
	}
	return nil
}

func (r *LogReader) epochEnds(ctx context.Context, broker int32, about map[feed.Partition]ofLog, each func(feed.Partition, logEnd)) error {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	for name, all := range byTopic(about) {
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = name
		for _, q := range all {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = q.Partition.Partition, q.leader, q.epoch
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.cl.Broker(int(broker)))
	if err != nil {
		return fmt.Errorf("ask for the ends of epochs: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			a := logEnd{offset: p.EndOffset, epoch: p.LeaderEpoch}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				a = logEnd{offset: feed.Unknown, epoch: feed.NoEpoch, err: err}
			}
			each(feed.Partition{Topic: t.Topic, Partition: p.Partition}, a)
		}
	}
	return nil
}

func byTopic(about map[feed.Partition]ofLog) map[string][]ofLog {
	out := make(map[string][]ofLog)
	for p, q := range about {
		out[p.Topic] = append(out[p.Topic], q)
	}
	return out
}

// offsetAt looks for a timestamp, in ms, in one log.
func (r *LogReader) offsetAt(ctx context.Context, l leaders.Leader, q ofLog, stamp int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a := logEnd{offset: feed.Unknown, err: fmt.Errorf("list offsets: %w: an answer without the partition asked for", errDisorder)}
	err := r.list(ctx, l.Broker, listing{stamp, readCommitted}, map[feed.Partition]ofLog{q.Partition: q},
		func(p feed.Partition, got logEnd) {
			if p == q.Partition {
				a = got
			}
		})
	if err == nil {
		err = a.err
	}
	return a.offset, err
}
