package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"klink/fetcher/feed"
)

// CutPartition is where one partition was cut.
type CutPartition struct {
	Partition int32
	// TargetEnd is the target's log end (exclusive), without the fence;
	// feed.Unknown where it could not be read.
	TargetEnd int64
	// SourceEnd is the source's end as last seen, and SourceSeenAt when; nil and
	// zero where it never was.
	SourceEnd    *int64
	SourceSeenAt time.Time
	// FenceOffset is the offset that the fence marker took, nil for none.
	FenceOffset *int64
	// Unfenced: there is no fence, and no worker's word in its place.
	Unfenced bool
}

// CutRecord is where one topic was cut by a promotion or a failover.
type CutRecord struct {
	Link string
	// Topic is the source topic.
	Topic string
	// Switch is the Command.Switch of all that were cut together.
	Switch      string
	SourceID    feed.TopicID
	TargetID    feed.TopicID
	TargetTopic string
	At          time.Time
	Partitions  []CutPartition
	// Unsettled: the command that cut it has more to do than this, and says so by
	// writing the record again without. An older klink marks none, and leaves the mark
	// where it does the rest.
	Unsettled bool
}

type cutValue struct {
	Version     int                 `json:"version"`
	SourceID    string              `json:"source_id"`
	TargetID    string              `json:"target_id"`
	TargetTopic string              `json:"target_topic"`
	Parts       int                 `json:"parts"`
	At          time.Time           `json:"at"`
	Partitions  []cutPartitionValue `json:"partitions"`
	// Unsettled counts in the first part, which is written last.
	Unsettled bool `json:"unsettled,omitempty"`
}

// cutPartitionValue leaves out what is unknown.
type cutPartitionValue struct {
	Partition    int32      `json:"partition"`
	TargetEnd    *int64     `json:"target_end,omitempty"`
	SourceEnd    *int64     `json:"source_end,omitempty"`
	SourceSeenAt *time.Time `json:"source_seen_at,omitempty"`
	FenceOffset  *int64     `json:"fence_offset,omitempty"`
	Unfenced     bool       `json:"unfenced,omitempty"`
}

type cutKey struct {
	topicKey
	id string // the switch
}

// cutPart is one piece of a CutRecord.
type cutPart struct {
	CutRecord
	parts int
}

// encodeCut cuts a record into pieces of at most partitionsPerPart. The first
// comes last: whoever reads it has all the others.
func encodeCut(r CutRecord) batch {
	var b batch
	parts := max(1, (len(r.Partitions)+partitionsPerPart-1)/partitionsPerPart)
	for part := parts - 1; part >= 0; part-- {
		lo := part * partitionsPerPart
		hi := min(lo+partitionsPerPart, len(r.Partitions))
		v := cutValue{Version: versions[KindCut], SourceID: encodeID(r.SourceID), TargetID: encodeID(r.TargetID),
			TargetTopic: r.TargetTopic, Parts: parts, At: r.At.UTC(),
			Partitions: make([]cutPartitionValue, 0, hi-lo), Unsettled: r.Unsettled}
		for _, p := range r.Partitions[lo:hi] {
			v.Partitions = append(v.Partitions, encodeCutPartition(p))
		}
		b.add(Key{Kind: KindCut, Link: r.Link, Topic: r.Topic, Switch: r.Switch, Part: part}, v)
	}
	return b
}

func encodeCutPartition(p CutPartition) cutPartitionValue {
	return cutPartitionValue{Partition: p.Partition, TargetEnd: knownOffset(p.TargetEnd), SourceEnd: p.SourceEnd,
		SourceSeenAt: knownTime(p.SourceSeenAt), FenceOffset: p.FenceOffset, Unfenced: p.Unfenced}
}

// knownOffset is nil for feed.Unknown.
func knownOffset(o int64) *int64 {
	if o == feed.Unknown {
		return nil
	}
	return &o
}

// orUnknown is the way back from knownOffset.
func orUnknown(o *int64) int64 {
	if o == nil {
		return feed.Unknown
	}
	return *o
}

// knownTime is nil for the zero time.
func knownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// orZero is the way back from knownTime.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (v cutValue) record(k Key) (cutPart, error) {
	r := cutPart{parts: v.Parts, CutRecord: CutRecord{Link: k.Link, Topic: k.Topic, Switch: k.Switch, TargetTopic: v.TargetTopic,
		At: v.At, Unsettled: v.Unsettled}}
	if k.Switch == "" || v.Parts < 1 {
		return r, fmt.Errorf("cut of switch %q in %d parts", k.Switch, v.Parts)
	}
	for _, p := range v.Partitions {
		r.Partitions = append(r.Partitions, CutPartition{Partition: p.Partition, TargetEnd: orUnknown(p.TargetEnd), SourceEnd: p.SourceEnd,
			SourceSeenAt: orZero(p.SourceSeenAt), FenceOffset: p.FenceOffset, Unfenced: p.Unfenced})
	}
	var srcErr, dstErr error
	r.SourceID, srcErr = decodeID(v.SourceID)
	r.TargetID, dstErr = decodeID(v.TargetID)
	return r, errors.Join(srcErr, dstErr)
}

func (v *View) cut(k Key, p cutPart) {
	ck := cutKey{topicKey{k.Link, k.Topic}, k.Switch}
	if v.cuts[ck] == nil {
		v.cuts[ck] = make(map[int]cutPart)
	}
	v.cuts[ck][k.Part] = p
}

// joinCut puts the pieces of one cut together; ok is false while one is missing.
func joinCut(parts map[int]cutPart) (r CutRecord, ok bool) {
	head, ok := parts[0]
	if !ok {
		return r, false
	}
	r = head.CutRecord
	r.Partitions = slices.Clone(r.Partitions)
	for part := 1; part < head.parts; part++ {
		p, ok := parts[part]
		if !ok {
			return r, false
		}
		r.Partitions = append(r.Partitions, p.Partitions...)
	}
	return r, true
}

// Cuts returns the cut records of one switch of a link, sorted by source topic;
// of all its switches, by time and topic, where switchID is "".
func (v *View) Cuts(link, switchID string) []CutRecord {
	var out []CutRecord
	for k, parts := range v.cuts {
		if k.link != link || switchID != "" && k.id != switchID {
			continue
		}
		if r, ok := joinCut(parts); ok {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b CutRecord) int {
		if switchID != "" {
			return cmp.Compare(a.Topic, b.Topic)
		}
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Topic, b.Topic))
	})
	return out
}

// PutCut writes where a topic was cut; see PutCuts.
func (s *Store) PutCut(ctx context.Context, r CutRecord) error {
	return s.PutCuts(ctx, []CutRecord{r})
}

// PutCuts writes where several topics were cut. Written again for the same
// switch, with as many partitions, they take the place of the earlier ones.
func (s *Store) PutCuts(ctx context.Context, rs []CutRecord) error {
	var b batch
	for _, r := range rs {
		b = append(b, encodeCut(r)...)
	}
	return s.putAll(ctx, b)
}

// Cuts returns the cut records of a switch; see View.Cuts.
func (s *Store) Cuts(link, switchID string) []CutRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Cuts(link, switchID)
}
