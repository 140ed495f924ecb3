package comparator

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"klink/fetcher/batch"
)

// markEvery is how many offsets lie between two places at which a comparison can
// go on, at least.
const markEvery = 1 << 16

// keepEvery is how often a comparison tells how far it is at most.
const keepEvery = 10 * time.Second

// ErrOtherComparison: what was saved is of a comparison of something else.
var ErrOtherComparison = errors.New("it is of a comparison with other options, or of topics that were made anew since")

// Saved is how far a comparison came, so that another one goes on from there.
type Saved struct {
	// AsOf is when it began.
	AsOf time.Time `json:"as_of"`
	// NoDigest and Keys are the options of it.
	NoDigest   bool             `json:"no_digest"`
	Keys       bool             `json:"keys"`
	Partitions []SavedPartition `json:"partitions"`
}

// SavedPartition is one partition that was compared, in part or whole.
type SavedPartition struct {
	Topic string `json:"topic"`
	// SourceID and TargetID are the topics' ids in hexadecimal.
	SourceID string `json:"source_id"`
	TargetID string `json:"target_id"`
	// Result is that of the part that was compared: Digest and TargetDigest are
	// those up to its To. Of a part it lacks where the logs start and end.
	Result PartitionResult `json:"result"`
	// Whole: nothing is left to be compared.
	Whole bool `json:"whole"`
	// Digested is how many records each digest covers.
	Digested [2]int64 `json:"digested"`
}

// saver gathers what of a comparison is done.
type saver struct {
	keep func(Saved)

	mu   sync.Mutex // guards all below; keep is called under it, one call at a time
	now  Saved
	at   map[PartitionName]SavedPartition
	last time.Time
}

func newSaver(o *Options, began time.Time) *saver {
	s := &saver{keep: o.Keep, now: Saved{AsOf: began, NoDigest: o.NoDigest, Keys: o.Keys}, at: make(map[PartitionName]SavedPartition), last: began}
	if o.Resume != nil {
		s.now.AsOf = o.Resume.AsOf
		for _, p := range o.Resume.Partitions {
			s.at[PartitionName{p.Topic, p.Result.Partition}] = p
		}
	}
	return s
}

// done notes how far a partition has come. What is not whole is told at times.
func (s *saver) done(p SavedPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[PartitionName{p.Topic, p.Result.Partition}] = p
	if s.keep != nil && time.Since(s.last) >= keepEvery {
		s.tellLocked()
	}
}

// tell hands over all that is done.
func (s *saver) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keep != nil {
		s.tellLocked()
	}
}

func (s *saver) tellLocked() {
	s.last = time.Now()
	s.now.Partitions = nil
	for _, name := range slices.SortedFunc(maps.Keys(s.at), PartitionName.compare) {
		s.now.Partitions = append(s.now.Partitions, s.at[name])
	}
	s.keep(s.now)
}

// digested is the state of a digest before the first record at or above an offset.
type digested struct {
	sum   string
	count int64
}

// marks are those of one side, by offset; a reader makes them and the merge looks
// them up.
type marks struct {
	every int64 // offsets

	mu sync.Mutex // guards at
	at map[int64]digested
}

// made is told each record before it is digested.
func (m *marks) made(offset int64, c *batch.Chain, last *int64) {
	if m == nil {
		return
	}
	place := offset - offset%m.every
	if place <= *last {
		return
	}
	*last = place
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = make(map[int64]digested)
	}
	m.at[place] = digested{c.Hex(), c.Count()}
}

// take returns the mark of an offset and forgets those before it.
func (m *marks) take(offset int64) (digested, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.at, func(at int64, _ digested) bool { return at < offset })
	k, ok := m.at[offset]
	return k, ok
}

// chain makes the digest of a saved part go on.
func resumeChain(digest *string, count int64) (*batch.Chain, error) {
	if digest == nil {
		return nil, errors.New("a digest is missing")
	}
	b, err := hex.DecodeString(*digest)
	if err != nil {
		return nil, fmt.Errorf("a digest: %w", err)
	}
	return batch.ResumeChain(b, count)
}

// identity names a partition and the topics it is of.
func (p *pair) identity() SavedPartition {
	out := SavedPartition{Topic: p.src.topic}
	if s, ok := p.src.leaders.Look(p.src.topic, p.src.partition); ok {
		out.SourceID = hex.EncodeToString(s.ID[:])
	}
	if s, ok := p.dst.leaders.Look(p.dst.topic, p.dst.partition); ok {
		out.TargetID = hex.EncodeToString(s.ID[:])
	}
	return out
}

// savePart notes that all below an offset is compared.
func (p *pair) savePart(next int64, out *Outcome, digests [2]*marks) {
	s := p.identity()
	r := PartitionResult{Partition: p.src.partition, From: p.res.From, To: next, RecordsCompared: out.Compared, Expired: p.res.Expired + out.Expired}
	if p.part != nil {
		r.RecordsCompared += p.part.Result.RecordsCompared
		r.absorb(&p.part.Result.Tally)
	}
	r.absorb(&out.Tally)
	r.Mode = p.res.Mode
	r.Foreign, r.Duplicates = p.countStrays(next)
	if digests[Source] != nil {
		a, okA := digests[Source].take(next)
		b, okB := digests[Target].take(next)
		if !okA || !okB {
			return
		}
		r.Digest, r.TargetDigest, s.Digested = &a.sum, &b.sum, [2]int64{a.count, b.count}
	}
	r.Findings = slices.Clone(r.Findings)
	s.Result = r
	p.saver.done(s)
}

// saveWhole notes a partition that is done with.
func (p *pair) saveWhole() {
	s := p.identity()
	s.Whole, s.Result = true, p.sorted()
	p.saver.done(s)
}

// saved returns what an earlier comparison has of a partition, nil where it has
// nothing, and an error where that is about something else.
func (o *Options) saved(p *pair) (*SavedPartition, error) {
	if o.Resume == nil {
		return nil, nil
	}
	for i := range o.Resume.Partitions {
		s := &o.Resume.Partitions[i]
		if s.Topic != p.src.topic || s.Result.Partition != p.src.partition {
			continue
		}
		is := p.identity()
		if is.SourceID != s.SourceID || is.TargetID != s.TargetID || o.NoDigest != o.Resume.NoDigest || o.Keys != o.Resume.Keys {
			return nil, fmt.Errorf("go on from before: %s/%d: %w", s.Topic, s.Result.Partition, ErrOtherComparison)
		}
		s.Result.recount()
		return s, nil
	}
	return nil, nil
}

// recount makes a tally that was read usable.
func (t *Tally) recount() {
	if t.Counts == nil {
		t.Counts = make(map[Kind]int64)
	}
	t.kept = make(map[Kind]int)
	for _, f := range t.Findings {
		t.kept[f.Kind]++
	}
}
