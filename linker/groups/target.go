package groups

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

const (
	// commitTimeout bounds one commit; the coordinator waits 5 s for its replicas
	// (offsets.commit.timeout.ms).
	commitTimeout = 5 * time.Second
	// stockRetention is offsets.retention.minutes where it cannot be read: the
	// default of brokers before 2.0, the shortest there was.
	stockRetention = 24 * time.Hour
	// remoteMillis is how long a broker may look through remote storage (KIP-1075).
	remoteMillis = 1000
)

// Special timestamps of ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// ends asks the leaders for one end of partitions: the high watermark, or the log
// start. Those that were not told are left out.
func (c cluster) ends(ctx context.Context, which int64, partitions []feed.Partition) map[feed.Partition]int64 {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	by := make(map[string]*kmsg.ListOffsetsRequestTopic)
	for _, p := range partitions {
		t := by[p.Topic]
		if t == nil {
			n := kmsg.NewListOffsetsRequestTopic()
			n.Topic = p.Topic
			t = &n
			by[p.Topic] = t
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p.Partition, which, -1
		t.Partitions = append(t.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.TimeoutMillis = remoteMillis
	for _, t := range by {
		req.Topics = append(req.Topics, *t)
	}
	out := make(map[feed.Partition]int64, len(partitions))
	for _, shard := range c.cl.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if shard.Err != nil || !ok {
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Offset >= 0 {
					out[feed.Partition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
				}
			}
		}
	}
	return out
}

// retention reads how long the target keeps the offsets of a group without
// members.
func (c cluster) retention(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	const op = "read offsets.retention.minutes of the target"
	brokers, err := c.adm.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return 0, remote.Classify(op, "", errors.Join(err, kerr.BrokerNotAvailable))
	}
	all, err := c.adm.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err == nil && len(all) > 0 {
		err = all[0].Err
	}
	if err != nil {
		return 0, remote.Classify(op, remote.Right("DescribeConfigs", "cluster", "kafka-cluster"), err)
	}
	for _, r := range all {
		for _, k := range r.Configs {
			if k.Key != "offsets.retention.minutes" {
				continue
			}
			minutes, err := strconv.Atoi(k.MaybeValue())
			if err != nil {
				return 0, fmt.Errorf("%s: %w", op, err)
			}
			return time.Duration(minutes) * time.Minute, nil
		}
	}
	return 0, fmt.Errorf("%s: the answer leaves it out", op)
}

// renewAfter is when an unchanged offset is committed again: well before it
// expires, also where some tries fail, and not all the time.
func renewAfter(retention time.Duration) time.Duration {
	return min(max(retention/4, 5*time.Second), 12*time.Hour)
}

// commit writes offsets of one group, as an administrator: without member and
// generation, which the coordinator refuses while the group has members. ids are
// those of the topics: one that was made anew refuses (OffsetCommit v10).
func commit(ctx context.Context, cl *kgo.Client, group string, commits []Commit, ids map[string]topicID) map[feed.Partition]error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	req.Generation = -1
	names := make(map[[16]byte]string)
	at := make(map[string]int)
	for _, c := range commits {
		i, ok := at[c.Partition.Topic]
		if !ok {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = c.Partition.Topic, ids[c.Partition.Topic]
			names[t.TopicID] = t.Topic
			i = len(req.Topics)
			at[c.Partition.Topic] = i
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = c.Partition.Partition, c.Offset, feed.NoEpoch
		p.Metadata = kmsg.StringPtr(c.Metadata)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := req.RequestWith(ctx, cl)
	out := make(map[feed.Partition]error, len(commits))
	for _, c := range commits {
		out[c.Partition] = err
		if err == nil {
			out[c.Partition] = errNotAnswered
		}
	}
	if err != nil {
		return out
	}
	for _, t := range resp.Topics {
		name := t.Topic
		if name == "" {
			name = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			out[feed.Partition{Topic: name, Partition: p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return out
}

// refusals are answers after which a commit was not carried out. Those of a
// coordinator that moves are none of them: kgo asks again, and the answer before
// the last may be lost.
var refusals = []error{
	kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.StaleMemberEpoch, kerr.GroupIDNotFound, kerr.InvalidGroupID,
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
	kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize,
}

// outcome reads the answer to one commit. What is not known to be a refusal may
// have been carried out (U4).
func outcome(c Commit, err error) Outcome {
	o := Outcome{Commit: c, Verdict: verdictOf(err)}
	if err == nil {
		return o
	}
	o.Unanswered = true
	for _, r := range refusals {
		if errors.Is(err, r) {
			o.Unanswered = false
		}
	}
	return o
}

// told takes what the target told of a group into a Look.
func (l *Look) told(t groupOffsets) {
	l.Committed, l.Metadata = make(map[feed.Partition]int64), make(map[feed.Partition]string)
	l.Untold = make(map[feed.Partition]Verdict)
	if l.Trouble = verdictOf(t.err); l.Trouble != Synced && l.Trouble != NoPermission {
		l.Trouble = GroupUnknown
	}
	t.offsets.Each(func(o kadm.OffsetResponse) {
		p := feed.Partition{Topic: o.Topic, Partition: o.Partition}
		if o.Err != nil {
			l.Untold[p] = GroupUnknown
			return
		}
		l.Committed[p], l.Metadata[p] = o.At, o.Metadata
	})
}
