package appender

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

const (
	opTrim      = "trim"
	rightDelete = "Delete"
)

// Errors inside a Fault of Trim.
var (
	// ErrCompactOnly: the topic's cleanup.policy has no delete, so the broker
	// deletes no records of it.
	ErrCompactOnly = errors.New("records of a topic that is only compacted cannot be deleted")
	// ErrBadTrim: -1 would mean all that is replicated, whatever that is by then.
	ErrBadTrim = errors.New("trim to an offset below 0")
)

// Trimmed is what became of one partition's trim.
type Trimmed struct {
	// LogStart is the lowest log start among the replicas that are alive, at least
	// the wanted one; -1 with Err.
	LogStart int64
	// Reason and Err (a *Fault) tell why it is not known to be there. Inside Err:
	// ErrCompactOnly; kerr.OffsetOutOfRange where the wanted start lies above the
	// high watermark and nothing was deleted; kerr.RequestTimedOut where the leader
	// has moved its log start and a follower has not confirmed it yet.
	Reason state.Reason
	Err    error
}

// Trim moves log starts up to the given offsets (DeleteRecords v0+, KIP-107),
// one request per leader and all leaders at once. What lies below is gone for
// good; a start that is already higher stays. The topic's id is compared with
// the leader's own metadata right before, since the request goes by name, and
// again after. A trim may be repeated, and has to be: a broker that dies within
// log.flush.start.offset.checkpoint.interval.ms shows the deleted records
// again. It needs Delete and Describe on the topic. Run need not be running.
func (a *Appender) Trim(ctx context.Context, starts map[Target]int64) map[Target]Trimmed {
	out := make(map[Target]Trimmed, len(starts))
	var targets []Target
	for t, to := range starts {
		if to < 0 {
			out[t] = Trimmed{LogStart: -1, Err: &Fault{Op: opTrim, Target: t, Broker: -1, Err: fmt.Errorf("%w: %d", ErrBadTrim, to)}}
			continue
		}
		targets = append(targets, t)
	}
	var mu sync.Mutex // guards out
	faults := a.askLeaders(ctx, targets, question{op: opTrim, right: rightDescribe,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			about, err := sameTopics(ctx, to, about, reply)
			if err != nil || len(about) == 0 {
				return err
			}
			return a.deleteRecords(ctx, to, trimming{about, starts}, func(r routed, start int64, err error) {
				final, repeat := judgeTrim(r, start, err)
				mu.Lock()
				out[r.Target] = final
				mu.Unlock()
				reply(r.Target, repeat)
			})
		}})
	for t, f := range faults {
		out[t] = Trimmed{LogStart: -1, Reason: f.Reason, Err: f}
	}
	return out
}

// sameTopics replies to the partitions whose topic the broker knows by another
// id and returns the others.
func sameTopics(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) ([]routed, error) {
	targets := make([]Target, 0, len(about))
	for _, r := range about {
		targets = append(targets, r.Target)
	}
	known, err := topicIDs(ctx, to, topicsOf(targets))
	if err != nil {
		return nil, err
	}
	var same []routed
	for _, r := range about {
		if err := known[r.Topic].is(r.ID); err != nil {
			reply(r.Target, err)
			continue
		}
		same = append(same, r)
	}
	return same, nil
}

// judgeTrim tells what an answer means: for the partition, and, as an error,
// whether asking again after fresh metadata may change it.
func judgeTrim(r routed, start int64, err error) (final Trimmed, repeat error) {
	fault := &Fault{Op: opTrim, Target: r.Target, Broker: r.leader.Broker, Err: err}
	switch {
	case err == nil:
		return Trimmed{LogStart: start}, nil
	case errors.Is(err, kerr.PolicyViolation):
		fault.Reason, fault.Err = state.TopicRefused, fmt.Errorf("%w: %w", ErrCompactOnly, err)
	case errors.Is(err, kerr.OffsetOutOfRange):
		// The followers are behind: it is replicated first, and then deleted.
		fault.Reason = state.NotEnoughReplicas
	case errors.Is(err, kerr.RequestTimedOut):
		fault.Reason = state.NotEnoughReplicas
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		fault.Reason, fault.Right = state.NoPermission, rightDelete
	case errors.Is(err, kerr.InvalidTopicException):
		fault.Reason = state.TopicRefused // the brokers' own
	default:
		return Trimmed{}, err
	}
	return Trimmed{LogStart: -1, Reason: fault.Reason, Err: fault}, nil
}

// trimming is one leader's part of a Trim.
type trimming struct {
	about  []routed
	starts map[Target]int64
}

func (a *Appender) deleteRecords(ctx context.Context, to *kgo.Broker, what trimming, reply func(routed, int64, error)) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	// The broker's time to hear from the followers. The deadline of the question is
	// the same and covers the way there too, so it must be shorter.
	req.TimeoutMillis = int32((a.opts.RequestTimeout / 2).Milliseconds())
	known := byTopic(what.about)
	for name, rs := range known {
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = name
		for _, r := range rs {
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition, p.Offset = r.Partition, what.starts[r.Target]
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.DeleteRecordsResponse)
	if !ok {
		return fmt.Errorf("trim answered by %T", kresp)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			r, ok := known.find(t.Topic, p.Partition)
			if !ok {
				continue
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil && p.LowWatermark < what.starts[r.Target] {
				err = fmt.Errorf("%w: log start %d", ErrNoAnswer, p.LowWatermark)
			}
			reply(r, p.LowWatermark, err)
		}
	}
	return nil
}
