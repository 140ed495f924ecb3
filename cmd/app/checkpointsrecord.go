package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"klink/cmd/config"
	"klink/linker"
	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
)

// checkpoints is what MirrorMaker 2's topics of a link themselves tell, where no klink
// was asked; nil for a link without a topic in checkpoint mode. The aliases are those
// of the link as it was applied last, else of its configuration.
func (r *recorded) checkpoints(ctx context.Context, l config.Link) *state.Checkpoints {
	if !slices.ContainsFunc(r.view.States(r.name), func(s control.StateRecord) bool { return s.Topic.Mode == linker.Checkpoint.String() }) {
		return nil
	}
	if rec, ok := r.view.Link(r.name); ok {
		if applied, ok := config.ParseDefinition(rec.Definition); ok {
			l = applied
		}
	}
	p := policy(l)
	out := &state.Checkpoints{Topic: p.CheckpointsTopic(), FromTopics: true, Waiting: []state.CheckpointsWaiting{}, Troubles: []state.CheckpointsTrouble{}}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, look := range []struct {
		topic string
		at    *state.Seen
	}{{p.CheckpointsTopic(), &out.WrittenAt}, {p.RemoteHeartbeats(), &out.BeatAt}} {
		at, err := newestIn(ctx, kadm.NewClient(r.dst.Admin), look.topic)
		if err != nil {
			reason := remote.ReasonOf(err)
			out.Troubles = append(out.Troubles, state.CheckpointsTrouble{Topic: look.topic, Reason: string(reason), Detail: err.Error(), Hint: reason.About().Hint})
		}
		look.at.Time = at
	}
	return out
}

// newestIn is the time of the newest record in partition 0 of a topic, zero where there
// is none. It asks with ListOffsets of the highest timestamp (KIP-734, from Kafka 3.0
// on) and reads nothing.
func newestIn(ctx context.Context, adm *kadm.Client, topic string) (time.Time, error) {
	all, err := adm.ListMaxTimestampOffsets(ctx, topic)
	if err != nil {
		return time.Time{}, remote.Classify("look for the newest record of topic "+topic, remote.Right("Describe", "topic", topic), err)
	}
	for _, o := range all[topic] {
		switch {
		case errors.Is(o.Err, kerr.UnknownTopicOrPartition):
			return time.Time{}, nil
		case o.Err != nil:
			return time.Time{}, remote.Classify("look for the newest record of topic "+topic, remote.Right("Describe", "topic", topic), o.Err)
		case o.Partition == 0 && o.Timestamp >= 0:
			return time.UnixMilli(o.Timestamp), nil
		}
	}
	return time.Time{}, nil
}
