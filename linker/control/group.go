package control

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

const (
	// offsetsPerPart is how many offsets a piece of a group's record holds on
	// average at most. Each takes some 120 bytes, 400 where each has a topic of its
	// own with the longest name, so that a piece stays below 500 KB also where the
	// pieces are uneven.
	offsetsPerPart = 500
	// maxGroupParts bounds what a record may claim.
	maxGroupParts = 1 << 16
)

// GroupOffset is what klink writes, or wrote, for one partition of a group.
type GroupOffset struct {
	// Topic is the target topic.
	Topic     string
	Partition int32
	// Previous is what the target had before, Written what klink writes;
	// feed.Unknown for none.
	Previous, Written int64
	// SourceOffset is what the group had committed at the source, and At when.
	SourceOffset int64
	At           time.Time
	// Reason is why the target does not have the source's offset, "" where it does;
	// a groups.Verdict.
	Reason string
}

// GroupRecord is what klink writes for a group, as a whole, written ahead of the
// commit: a target's offset is klink's own where it is Written, or Previous while
// the commit was not seen to be done.
type GroupRecord struct {
	Link, Group string
	// Offsets are sorted by topic and partition as they are read back.
	Offsets []GroupOffset
	At      time.Time
	// Accepted is the newest Accept of the group that was obeyed, 0 for none.
	Accepted int32
}

type groupValue struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	// Accepted is in each piece.
	Accepted int32                         `json:"accepted,omitempty"`
	Topics   map[string][]groupOffsetValue `json:"topics"`
}

// groupOffsetValue leaves out what is unknown.
type groupOffsetValue struct {
	Partition    int32      `json:"partition"`
	Previous     *int64     `json:"previous,omitempty"`
	Written      *int64     `json:"written,omitempty"`
	SourceOffset *int64     `json:"source_offset,omitempty"`
	At           *time.Time `json:"at,omitempty"`
	Reason       string     `json:"reason,omitempty"`
}

type groupKey struct{ link, group string }

func (k groupKey) key(part int) Key {
	return Key{Kind: KindGroup, Link: k.link, Group: k.group, Part: part}
}

// groupPart is one piece of a GroupRecord, and where in the log it stands.
type groupPart struct {
	GroupRecord
	offset int64
}

// encodeGroup cuts a record into pieces, and deletes the pieces above them up to
// (exclusive) onRecord. Which piece an offset is in depends on its partition and
// on the number of pieces alone, a power of two: so a crash between two of them
// never leaves one that is in none. A piece that moves out of another is written
// before that one.
func encodeGroup(r GroupRecord, onRecord int) batch {
	parts := 1
	for parts*offsetsPerPart < len(r.Offsets) && parts < maxGroupParts {
		parts *= 2
	}
	values := make([]groupValue, parts)
	for i := range values {
		values[i] = groupValue{Version: versions[KindGroup], At: r.At.UTC(), Accepted: r.Accepted, Topics: make(map[string][]groupOffsetValue)}
	}
	for _, o := range r.Offsets {
		topics := values[partOf(o, parts)].Topics
		topics[o.Topic] = append(topics[o.Topic], groupOffsetValue{Partition: o.Partition, Previous: knownOffset(o.Previous),
			Written: knownOffset(o.Written), SourceOffset: knownOffset(o.SourceOffset), At: knownTime(o.At), Reason: o.Reason})
	}
	gk := groupKey{r.Link, r.Group}
	var b batch
	for part := parts - 1; part >= 0; part-- {
		b.add(gk.key(part), values[part])
	}
	for part := parts; part < onRecord; part++ {
		b.add(gk.key(part), nil)
	}
	return b
}

func partOf(o GroupOffset, parts int) int {
	if parts == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.Topic))
	_, _ = h.Write(strconv.AppendInt([]byte{0}, int64(o.Partition), 10))
	return int(h.Sum32()) & (parts - 1)
}

func (v groupValue) part(k Key) (groupPart, error) {
	r := GroupRecord{Link: k.Link, Group: k.Group, At: v.At, Accepted: v.Accepted}
	if k.Part < 0 || k.Part >= maxGroupParts {
		return groupPart{}, fmt.Errorf("part %d of a group", k.Part)
	}
	for topic, offsets := range v.Topics {
		for _, o := range offsets {
			r.Offsets = append(r.Offsets, GroupOffset{Topic: topic, Partition: o.Partition, Previous: orUnknown(o.Previous),
				Written: orUnknown(o.Written), SourceOffset: orUnknown(o.SourceOffset), At: orZero(o.At), Reason: o.Reason})
		}
	}
	return groupPart{GroupRecord: r}, nil
}

func (v *View) grouped(k Key, p groupPart) {
	gk := groupKey{k.Link, k.Group}
	if v.groups[gk] == nil {
		v.groups[gk] = make(map[int]groupPart)
	}
	v.groups[gk][k.Part] = p
}

func (v *View) ungroup(k Key) {
	gk := groupKey{k.Link, k.Group}
	delete(v.groups[gk], k.Part)
	if len(v.groups[gk]) == 0 {
		delete(v.groups, gk)
	}
}

// joinGroup puts the pieces of one group together. After a crash between two of
// them an offset may be in two: the later in the log counts.
func joinGroup(gk groupKey, parts map[int]groupPart) GroupRecord {
	sorted := make([]groupPart, 0, len(parts))
	for _, p := range parts {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b groupPart) int { return cmp.Compare(b.offset, a.offset) })
	out := GroupRecord{Link: gk.link, Group: gk.group, Offsets: []GroupOffset{}}
	for _, p := range sorted {
		out.Offsets = append(out.Offsets, p.Offsets...)
		if p.At.After(out.At) {
			out.At = p.At
		}
		out.Accepted = max(out.Accepted, p.Accepted)
	}
	place := func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}
	slices.SortStableFunc(out.Offsets, place)
	out.Offsets = slices.CompactFunc(out.Offsets, func(a, b GroupOffset) bool { return place(a, b) == 0 })
	return out
}

// Group returns what is on record of a group.
func (v *View) Group(link, group string) (GroupRecord, bool) {
	gk := groupKey{link, group}
	parts, ok := v.groups[gk]
	if !ok {
		return GroupRecord{}, false
	}
	return joinGroup(gk, parts), true
}

// Groups returns what is on record of all groups of a link, sorted by group.
func (v *View) Groups(link string) []GroupRecord {
	var out []GroupRecord
	for gk, parts := range v.groups {
		if gk.link == link {
			out = append(out, joinGroup(gk, parts))
		}
	}
	slices.SortFunc(out, func(a, b GroupRecord) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

// groupEnd is the end (exclusive) of a group's pieces on record.
func (v *View) groupEnd(gk groupKey) int {
	end := 0
	for part := range v.groups[gk] {
		end = max(end, part+1)
	}
	return end
}

// PutGroup writes a group's offsets as a whole; see PutGroups.
func (s *Store) PutGroup(ctx context.Context, r GroupRecord) error {
	return s.PutGroups(ctx, []GroupRecord{r})
}

// PutGroups writes the offsets of several groups, each as a whole, without
// waiting for one before the next. Two calls must not be about one group at the
// same time.
func (s *Store) PutGroups(ctx context.Context, rs []GroupRecord) error {
	var b batch
	for _, r := range rs {
		s.mu.Lock()
		end := s.view.groupEnd(groupKey{r.Link, r.Group})
		s.mu.Unlock()
		b = append(b, encodeGroup(r, end)...)
	}
	return s.putAll(ctx, b)
}

// DropGroup takes a group off the record.
func (s *Store) DropGroup(ctx context.Context, link, group string) error {
	gk := groupKey{link, group}
	s.mu.Lock()
	end := s.view.groupEnd(gk)
	s.mu.Unlock()
	var b batch
	for part := range end {
		b.add(gk.key(part), nil)
	}
	return s.putAll(ctx, b)
}

// Group returns what is on record of a group; see View.Group.
func (s *Store) Group(link, group string) (GroupRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Group(link, group)
}

// Groups returns what is on record of all groups of a link; see View.Groups.
func (s *Store) Groups(link string) []GroupRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Groups(link)
}
