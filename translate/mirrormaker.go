package translate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/mm2"
)

// MirrorMaker is what a MirrorMaker 2 left of one flow.
type MirrorMaker struct {
	Policy mm2.Policy
	// Checkpoints and Syncs are nil where their topics are not there, or not to be
	// read.
	Checkpoints *Checkpoints
	Syncs       *Syncs
	// SyncsTrouble is why Syncs is nil, nil where nothing but its absence is.
	SyncsTrouble error
}

// MirrorMakerOptions say where a MirrorMaker 2 left its topics.
type MirrorMakerOptions struct {
	Target *kgo.Client
	// Source may be nil: then only offset syncs on the target are found, which is
	// not where they are by default (offset-syncs.topic.location, KIP-716).
	Source *kgo.Client
	Policy mm2.Policy
}

// ReadMirrorMaker reads the checkpoints and the offset syncs of a flow. The error
// is ErrNoTopic where there are neither; what stands in the way of the offset
// syncs alone is SyncsTrouble. Give the context a deadline: it is no error when
// it passes, but Checkpoints and Syncs tell (T1).
func ReadMirrorMaker(ctx context.Context, o MirrorMakerOptions) (*MirrorMaker, error) {
	m := &MirrorMaker{Policy: o.Policy}
	var err error
	m.Checkpoints, err = ReadCheckpoints(ctx, o.Target, o.Policy.CheckpointsTopic())
	if err != nil && !errors.Is(err, ErrNoTopic) {
		return nil, err
	}
	var missing error
	m.Syncs, missing = ReadSyncs(ctx, o.Target, o.Policy.OffsetSyncsOnTarget())
	if o.Source != nil && errors.Is(missing, ErrNoTopic) {
		m.Syncs, missing = ReadSyncs(ctx, o.Source, o.Policy.OffsetSyncsOnSource())
	}
	if m.Checkpoints == nil && m.Syncs == nil {
		return nil, errors.Join(err, missing)
	}
	if !errors.Is(missing, ErrNoTopic) {
		m.SyncsTrouble = missing
	}
	return m, nil
}

// NothingRead tells whether no topic's read came to a single record or to the end
// of the log before its time was over.
func (m *MirrorMaker) NothingRead() bool {
	empty := func(r Read) bool { return r.TimedOut && r.Records == 0 }
	return (m.Checkpoints == nil || empty(m.Checkpoints.Read)) && (m.Syncs == nil || empty(m.Syncs.Read))
}

// Groups are those with a checkpoint, sorted.
func (m *MirrorMaker) Groups() []string {
	if m.Checkpoints == nil {
		return nil
	}
	return m.Checkpoints.Groups()
}

// Target is the copy of a source partition.
func (m *MirrorMaker) Target(p Partition) Partition {
	return Partition{m.Policy.Downstream(p.Topic), p.Number}
}

// Source is what a target partition is the copy of.
func (m *MirrorMaker) Source(p Partition) Partition {
	if alias, ok := m.Policy.TopicSource(p.Topic); ok && alias == m.Policy.Source {
		if up, ok := m.Policy.Upstream(p.Topic); ok {
			return Partition{up, p.Number}
		}
	}
	// The other way round: an original of the target, known to the source as its copy.
	back := m.Policy
	back.Source, back.Target = back.Target, back.Source
	return Partition{back.Remote(p.Topic), p.Number}
}

// Asked is a group whose offsets are to be translated.
type Asked struct {
	Group string
	// Offsets are the group's by partition of the cluster it worked at; nil where that
	// cluster does not tell them.
	Offsets map[Partition]Commit
	// Bounds are those of the other cluster's logs; of partitions that are left out
	// nothing is known.
	Bounds map[Partition]Bounds
}

func (a Asked) bounds(p Partition) Bounds {
	if b, ok := a.Bounds[p]; ok {
		return b
	}
	return NoBounds()
}

// Targets are the partitions of the target that ToTarget wants to know the bounds of.
func (m *MirrorMaker) Targets(group string, offsets map[Partition]Commit) []Partition {
	out := make(map[Partition]struct{})
	for p := range offsets {
		out[m.Target(p)] = struct{}{}
	}
	for p := range m.checkpointsOf(group) {
		out[p] = struct{}{}
	}
	return slices.SortedFunc(maps.Keys(out), Partition.Compare)
}

func (m *MirrorMaker) checkpointsOf(group string) map[Partition]Checkpoint {
	if m.Checkpoints == nil {
		return nil
	}
	return m.Checkpoints.Of(group)
}

// ToTarget translates a group's source offsets, those in its checkpoints where the
// source does not tell them. The answers are sorted; a group of which nothing
// is known has none.
func (m *MirrorMaker) ToTarget(g Asked) []Answer {
	checkpoints := m.checkpointsOf(g.Group)
	var out []Answer
	for _, target := range m.Targets(g.Group, g.Offsets) {
		a := Answer{Target: target, Source: m.Source(target), Asked: Commit{Offset: Unknown}}
		for p, c := range g.Offsets {
			if m.Target(p) == target {
				a.Source, a.Asked = p, c
			}
		}
		if cp, ok := checkpoints[target]; ok {
			a.Checkpoint = &cp
		}
		out = append(out, m.toTarget(a, g.bounds(target)))
	}
	slices.SortFunc(out, func(a, b Answer) int { return a.Source.Compare(b.Source) })
	return out
}

// toTarget answers for one partition: the furthest of what its checkpoint and the
// offset syncs say, each of which is safe by itself (T5, T6).
func (m *MirrorMaker) toTarget(a Answer, b Bounds) Answer {
	cp := a.Checkpoint
	if a.Asked.Offset == Unknown && cp != nil && cp.Up >= 0 {
		a.Asked = Commit{Offset: cp.Up, Origin: Checkpointed, At: cp.At, AsOf: m.Checkpoints.Newest}
	}
	if r := m.silent(b); r != "" {
		return a.none(r)
	}
	a.Offset, a.Kind, a.ReadAgain = Unknown, Sampled, Unknown
	beyond := false
	if m.holds(a) {
		if beyond = cp.Down > b.End; !beyond {
			a.Offset = cp.Down
		}
	}
	t := m.synced(a.Source, a.Asked.Offset)
	if t.Outcome == mm2.Found {
		a.ReadAgain = max(0, a.Asked.Offset-t.Up-1)
		if t.Offset > b.End {
			beyond = true
		} else if t.Offset >= a.Offset {
			a.Offset = t.Offset
			if a.Asked.Offset == t.Up {
				a.Kind = Exact
			}
		}
	}
	switch {
	case a.Offset == Unknown && beyond:
		return a.none(BeyondEnd)
	case a.Offset == Unknown:
		return a.none(m.missing(t, cp))
	case a.ReadAgain == Unknown:
		a.ReadAgain = b.End - a.Offset
	}
	return a.within(b)
}

// holds tells whether a checkpoint says something about the group's offset: it is
// of that one or of an earlier one, and no offset sync speaks against it.
func (m *MirrorMaker) holds(a Answer) bool {
	cp := a.Checkpoint
	switch {
	case cp == nil || a.Asked.Offset != Unknown && a.Asked.Offset < cp.Up:
		return false
	case m.Syncs == nil || !m.Syncs.Complete:
		return true
	}
	return m.Syncs.allows(a.Source, cp)
}

// silent is why there is no answer at all.
func (m *MirrorMaker) silent(b Bounds) Reason {
	switch {
	case m.Checkpoints != nil && !m.Checkpoints.Complete, m.Syncs != nil && !m.Syncs.Complete && m.Checkpoints == nil:
		return Incomplete
	case b.Missing:
		return NotMirrored
	case b.End == Unknown:
		return LogUnknown
	}
	return ""
}

// synced asks the offset syncs, if they were read to their end.
func (m *MirrorMaker) synced(p Partition, offset int64) mm2.Translation {
	if m.Syncs == nil || !m.Syncs.Complete || offset == Unknown {
		return mm2.Translation{}
	}
	return m.Syncs.Translate(p, offset)
}

// missing is why neither a checkpoint nor the offset syncs give an answer.
func (m *MirrorMaker) missing(t mm2.Translation, cp *Checkpoint) Reason {
	switch {
	case m.Syncs != nil && !m.Syncs.Complete:
		return Incomplete
	case t.Outcome == mm2.TooOld:
		return BeforeSyncs
	case cp != nil:
		return Rewound
	case m.Syncs != nil:
		return NoSync
	}
	return NoCheckpoint
}

// ToSource translates a group's target offsets back, by offset syncs alone.
func (m *MirrorMaker) ToSource(g Asked) []Answer {
	var out []Answer
	for target, c := range g.Offsets {
		a := Answer{Target: target, Source: m.Source(target), Asked: c}
		out = append(out, m.toSource(a, g.bounds(a.Source)))
	}
	slices.SortFunc(out, func(a, b Answer) int { return a.Source.Compare(b.Source) })
	return out
}

func (m *MirrorMaker) toSource(a Answer, b Bounds) Answer {
	switch {
	case m.Syncs == nil:
		return a.none(NoSync)
	case !m.Syncs.Complete:
		return a.none(Incomplete)
	}
	t := m.Syncs.TranslateBack(a.Source, a.Asked.Offset)
	switch {
	case t.Outcome == mm2.TooOld:
		return a.none(BeforeSyncs)
	case t.Outcome != mm2.Found:
		return a.none(NoSync)
	}
	a.Offset, a.Kind, a.ReadAgain = t.Offset, Sampled, max(0, a.Asked.Offset-t.Down-1)
	if a.Asked.Offset == t.Down {
		a.Kind = Exact
	}
	return a.within(b)
}
