package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// PadRecord is what a partition is being padded for, written ahead of each step
// so that a crash between two of them leaves no half state.
type PadRecord struct {
	Link string
	// Topic is the source topic, SourceID the incarnation it belongs to.
	Topic     string
	SourceID  feed.TopicID
	Partition int32
	// TargetID is the target topic that is padded: a goal is never one of a
	// target made anew.
	TargetID feed.TopicID
	// From and Goal: the offsets [From, Goal) of the target become padding, and
	// its log is to start at Goal.
	From, Goal int64
	// Reason is ledger.Padded or ledger.Retention.
	Reason ledger.Reason
	// Stage is the step under way, in the words of whoever pads.
	Stage string
	// RestorePolicy is the cleanup.policy to put back; "" where it was not
	// changed.
	RestorePolicy string
	// TrimmedAt is when the log start was last seen to be moved, zero before.
	TrimmedAt time.Time
	// Done is true once nothing is left to do. Until then the topic's
	// cleanup.policy is the padding's.
	Done bool
}

type padValue struct {
	Version       int        `json:"version"`
	TargetID      string     `json:"target_id"`
	From          int64      `json:"from"`
	Goal          int64      `json:"goal"`
	Reason        string     `json:"reason"`
	Stage         string     `json:"stage"`
	RestorePolicy string     `json:"restore_policy,omitempty"`
	TrimmedAt     *time.Time `json:"trimmed_at,omitempty"`
	Done          bool       `json:"done,omitempty"`
}

func (r PadRecord) line() lineKey {
	return lineKey{topicKey{r.Link, r.Topic}, r.SourceID, r.Partition}
}

func encodePad(r PadRecord) (Key, any) {
	v := padValue{Version: versions[KindPad], TargetID: encodeID(r.TargetID), From: r.From, Goal: r.Goal,
		Reason: r.Reason.String(), Stage: r.Stage, RestorePolicy: r.RestorePolicy, Done: r.Done}
	if !r.TrimmedAt.IsZero() {
		at := r.TrimmedAt.UTC()
		v.TrimmedAt = &at
	}
	return Key{Kind: KindPad, Link: r.Link, Topic: r.Topic, SourceID: encodeID(r.SourceID), Partition: r.Partition}, v
}

func (v padValue) record(k Key) (PadRecord, error) {
	r := PadRecord{Link: k.Link, Topic: k.Topic, Partition: k.Partition, From: v.From, Goal: v.Goal,
		Stage: v.Stage, RestorePolicy: v.RestorePolicy, Done: v.Done}
	if v.From < 0 || v.Goal < v.From {
		return r, fmt.Errorf("pad from %d to %d", v.From, v.Goal)
	}
	switch v.Reason {
	case ledger.Padded.String():
		r.Reason = ledger.Padded
	case ledger.Retention.String():
		r.Reason = ledger.Retention
	default:
		return r, fmt.Errorf("pad for the reason %q", v.Reason)
	}
	if v.TrimmedAt != nil {
		r.TrimmedAt = *v.TrimmedAt
	}
	var err error
	if r.SourceID, err = decodeID(k.SourceID); err != nil {
		return r, err
	}
	r.TargetID, err = decodeID(v.TargetID)
	return r, err
}

// Pad returns the pad goal of a partition, for the source and target topics that
// Topic names.
func (v *View) Pad(link, sourceTopic string, partition int32) (PadRecord, bool) {
	k, target, ok := v.lineOf(link, sourceTopic, partition)
	r, found := v.pads[k]
	return r, ok && found && r.TargetID == target
}

// Pads returns the pad goals of all partitions of a source topic that have one,
// sorted by partition; see Pad.
func (v *View) Pads(link, sourceTopic string) []PadRecord {
	tk := topicKey{link, sourceTopic}
	c, ok := v.topics[tk]
	if !ok {
		return nil
	}
	var out []PadRecord
	for k, r := range v.pads {
		if k.topicKey == tk && k.id == c.SourceID && r.TargetID == c.TargetID {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b PadRecord) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// Padding reports whether a partition of the source topic has a pad goal that is
// not done: see PadRecord.Done.
func (v *View) Padding(link, sourceTopic string) bool {
	return slices.ContainsFunc(v.Pads(link, sourceTopic), func(r PadRecord) bool { return !r.Done })
}

// PutPad writes a pad goal and how far it is. Once it returns nil, Pads shows
// also what others wrote before it: of two that write first and look then, one
// at least sees the other. It needs Run to be running.
func (s *Store) PutPad(ctx context.Context, r PadRecord) error {
	k, v := encodePad(r)
	_, err := s.putThrough(ctx, k, v)
	return err
}

// DropPad takes a pad goal off the record.
func (s *Store) DropPad(ctx context.Context, r PadRecord) error {
	k, _ := encodePad(r)
	return s.put(ctx, k, nil)
}

// Pad returns the pad goal of a partition; see View.Pad.
func (s *Store) Pad(link, sourceTopic string, partition int32) (PadRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Pad(link, sourceTopic, partition)
}

// Pads returns the pad goals of a source topic; see View.Pads.
func (s *Store) Pads(link, sourceTopic string) []PadRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Pads(link, sourceTopic)
}

// Padding reports whether any partition of the source topic is being padded; see
// View.Padding.
func (s *Store) Padding(link, sourceTopic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Padding(link, sourceTopic)
}
