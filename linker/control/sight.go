package control

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// topicsPerSight bounds one sight record: the longest names make it some 200 KB.
// Exceptions count as well, exceptsPerTopic of them as much as a topic.
const (
	topicsPerSight  = 500
	exceptsPerTopic = 50
)

// SightRecord is a worker's word that, as of a time, the sources' ends were those
// that stand in the recorded states. States are recorded when they change: where
// nothing does, this alone tells that somebody looked.
type SightRecord struct {
	Link string
	// Worker is unique to one run of one process; partitions are its own where the
	// recorded states say so.
	Worker string
	// Part numbers the records of a worker with many topics. Each stands alone.
	Part int
	// At is when the ends were last seen, of all partitions at least.
	At time.Time
	// Topics are those of which anything is covered, by source name.
	Topics map[string]Covered
}

// Covered are the partitions of one topic that a SightRecord speaks for: the
// worker's own by the recorded states, with ends on record, less Except, which
// rises. Ends
// digests which they are and what ends they have: where the recorded states give
// another digest they are not those that the worker knew, and nothing is covered.
type Covered struct {
	Ends   string  `json:"ends"`
	Except []int32 `json:"except,omitempty"`
}

// Sighting is what a worker itself last saw of a source partition.
type Sighting struct {
	SourceID feed.TopicID
	// End is the last stable offset, High the high watermark, both exclusive and
	// feed.Unknown where not known.
	End, High int64
	At        time.Time
}

type sightValue struct {
	Version int                `json:"version"`
	At      time.Time          `json:"at"`
	Topics  map[string]Covered `json:"topics"`
}

func (r SightRecord) key() Key {
	return Key{Kind: KindSight, Link: r.Link, Worker: r.Worker, Part: r.Part}
}

func encodeSight(r SightRecord) (Key, any) {
	return r.key(), sightValue{Version: versions[KindSight], At: r.At.UTC(), Topics: r.Topics}
}

func (v sightValue) record(k Key) (SightRecord, error) {
	r := SightRecord{Link: k.Link, Worker: k.Worker, Part: k.Part, At: v.At, Topics: v.Topics}
	if r.Worker == "" || r.At.IsZero() {
		return r, fmt.Errorf("sight of worker %q at %s", r.Worker, r.At)
	}
	return r, nil
}

// Witness is all that a worker's sight records follow from.
type Witness struct {
	Link, Worker string
	// Recorded are the link's states as they stand in the control topic, and
	// SourceID tells the recorded id of a source topic.
	Recorded []StateRecord
	SourceID func(topic string) feed.TopicID
	// Seen is what this worker itself saw of a partition that it mirrors now.
	Seen func(p feed.Partition) (Sighting, bool)
	// Since is the oldest sighting that counts.
	Since time.Time
}

// Sights returns what a worker can say, nothing where it sees no source. A partition
// is covered only where what is on record under the worker's name is what it saw,
// and saw of late.
func (w Witness) Sights() []SightRecord {
	var out []SightRecord
	room := 0
	for _, r := range w.Recorded {
		c, at, any := w.covered(r)
		if !any {
			continue
		}
		size := 1 + len(c.Except)/exceptsPerTopic
		if n := len(out); n == 0 || room < size {
			out = append(out, SightRecord{Link: w.Link, Worker: w.Worker, Part: n, At: at, Topics: make(map[string]Covered)})
			room = topicsPerSight
		}
		room -= size
		last := &out[len(out)-1]
		last.Topics[r.Topic.SourceTopic] = c
		if at.Before(last.At) {
			last.At = at
		}
	}
	return out
}

func (w Witness) covered(r StateRecord) (c Covered, at time.Time, any bool) {
	id := w.SourceID(r.Topic.SourceTopic)
	var except []int32
	for _, p := range r.Topic.Partitions {
		if p.Worker != w.Worker || p.SourceEnd == nil {
			continue
		}
		s, ok := w.Seen(feed.Partition{Topic: r.Topic.SourceTopic, Partition: p.Partition})
		if !ok || s.SourceID != id || s.At.Before(w.Since) || s.End != offsetOf(p.SourceEnd) || s.High != offsetOf(p.SourceHighWatermark) {
			except = append(except, p.Partition)
			continue
		}
		if !any || s.At.Before(at) {
			at = s.At
		}
		any = true
	}
	return Covered{Ends: digest(id, r.Topic.Partitions, mine{w.Worker, except}), Except: except}, at, any
}

// mine picks the partitions that a worker's Covered is about.
type mine struct {
	worker string
	except []int32
}

func (m mine) holds(p state.Partition) bool {
	_, excepted := slices.BinarySearch(m.except, p.Partition)
	return p.Worker == m.worker && p.SourceEnd != nil && !excepted
}

// digest is FNV-1a, 64 bits, over the source topic's id and, of each partition that
// is held, its number and ends.
func digest(id feed.TopicID, ps []state.Partition, held mine) string {
	h := fnv.New64a()
	h.Write(id[:]) // which never fails
	var b [20]byte
	for _, p := range ps {
		if held.holds(p) {
			binary.BigEndian.PutUint32(b[:], uint32(p.Partition))
			binary.BigEndian.PutUint64(b[4:], uint64(offsetOf(p.SourceEnd)))
			binary.BigEndian.PutUint64(b[12:], uint64(offsetOf(p.SourceHighWatermark)))
			h.Write(b[:])
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

func offsetOf(known *int64) int64 {
	if known == nil {
		return feed.Unknown
	}
	return *known
}

// sighted returns a copy of a recorded state in which each partition is as of when its
// source was last seen by the word of its worker, where that covers it, and never
// earlier than it was recorded.
func sighted(r StateRecord, id feed.TopicID, words []SightRecord) StateRecord {
	topic := r.Topic.SourceTopic
	r.Topic.Partitions = slices.Clone(r.Topic.Partitions)
	for _, w := range words {
		c, ok := w.Topics[topic]
		held := mine{w.Worker, c.Except}
		if !ok || digest(id, r.Topic.Partitions, held) != c.Ends {
			continue
		}
		for i, p := range r.Topic.Partitions {
			if held.holds(p) && w.At.After(p.AsOf.Time) {
				r.Topic.Partitions[i].AsOf.Time = w.At
			}
		}
	}
	return r
}

// Unneeded picks the sights that tell nothing any more: those of other workers under
// whose name no partition is on record. A worker that died stays until others have
// recorded all that was its own.
func Unneeded(words []SightRecord, recorded []StateRecord, worker string) []SightRecord {
	named := map[string]bool{worker: true}
	for _, r := range recorded {
		for _, p := range r.Topic.Partitions {
			named[p.Worker] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(words), func(w SightRecord) bool { return named[w.Worker] })
}

// sightKey is what a sight is known by beside its link.
type sightKey struct {
	worker string
	part   int
}

func (v *View) saw(r SightRecord) {
	if v.sights[r.Link] == nil {
		v.sights[r.Link] = make(map[sightKey]SightRecord)
	}
	v.sights[r.Link][sightKey{r.Worker, r.Part}] = r
}

// Sights returns what the workers of a link said last of the sources' ends, sorted
// by worker and part. States has what follows from it.
func (v *View) Sights(link string) []SightRecord {
	return slices.SortedFunc(maps.Values(v.sights[link]), func(a, b SightRecord) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Part, b.Part))
	})
}

// Sights returns what the workers of a link said last; see View.Sights.
func (s *Store) Sights(link string) []SightRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Sights(link)
}

// PutSights writes a worker's word. The states that it speaks of are on record
// before.
func (s *Store) PutSights(ctx context.Context, rs []SightRecord) error {
	var b batch
	for _, r := range rs {
		b.add(encodeSight(r))
	}
	return s.putAll(ctx, b)
}

// DropSights takes sights off the record, without waiting for it.
func (s *Store) DropSights(ctx context.Context, rs []SightRecord) error {
	keys := make([]Key, len(rs))
	for i, r := range rs {
		keys[i] = r.key()
	}
	return s.discard(ctx, keys...)
}
