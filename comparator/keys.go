package comparator

import "errors"

// DefaultMaxKeys is how many keys one pass over a compacted partition keeps in
// mind: those with a record that one side lacks and that nothing supersedes
// yet. They take some 100 bytes each.
const DefaultMaxKeys = 1 << 18

// buckets is how finely the hashes of keys are cut into passes.
const buckets = 256

// ErrTooManyKeys: more keys are in question than 256 passes of MaxKeys settle.
var ErrTooManyKeys = errors.New("more keys differ between the logs than can be kept in mind")

// loner is what is kept of the records of one key that only one side has and
// that no later record of the key on the other side supersedes yet.
type loner struct {
	records int64
	last    Print // the latest of them
}

// keyRule applies to compacted topics (G1): a record that one side lacks must be
// superseded there by a later record of its key, or be an expired tombstone.
// Whoever lacks a record shows the later one later, so one pass settles most.
type keyRule struct {
	max int
	// low and high bound the buckets of hashes that this pass answers for: high
	// falls when there are too many keys, and the rest is for other passes.
	low, high int
	loners    [2]map[uint64]*loner // by the side that has the records
	compacted [buckets]int64       // records settled, by bucket
	suspects  map[uint64]int64     // keys of changed records, with the offset; nil: not wanted
}

func newKeyRule(max, low, high int) *keyRule {
	return &keyRule{max: max, low: low, high: high, loners: [2]map[uint64]*loner{{}, {}}}
}

func bucket(key uint64) int { return int(key >> 56) }

func (k *keyRule) mine(key uint64) bool { b := bucket(key); return b >= k.low && b < k.high }

// busy reports whether any key waits for a later record.
func (k *keyRule) busy() bool { return len(k.loners[Source])+len(k.loners[Target]) > 0 }

// saw notes a record of a side: it supersedes what the other side alone has of
// its key.
func (k *keyRule) saw(side Side, p Print) {
	waiting := k.loners[side.other()]
	if l := waiting[p.Key]; l != nil && !p.Keyless {
		k.compacted[bucket(p.Key)] += l.records
		delete(waiting, p.Key)
	}
}

// lone notes a record that only one side has. A record without a key is what a
// cleaner removes anyway.
func (k *keyRule) lone(side Side, p Print) error {
	if !k.mine(p.Key) {
		return nil
	}
	if p.Keyless {
		k.compacted[bucket(p.Key)]++
		return nil
	}
	l := k.loners[side][p.Key]
	if l == nil {
		l = &loner{}
		k.loners[side][p.Key] = l
	}
	l.records++
	l.last = p
	for len(k.loners[Source])+len(k.loners[Target]) > k.max {
		if k.high-k.low == 1 {
			return ErrTooManyKeys
		}
		k.shrink()
	}
	return nil
}

// shrink leaves the upper half of the hashes to another pass.
func (k *keyRule) shrink() {
	k.high = k.low + (k.high-k.low)/2
	for _, waiting := range k.loners {
		for key := range waiting {
			if !k.mine(key) {
				delete(waiting, key)
			}
		}
	}
}

// settled counts the records that this pass found superseded.
func (k *keyRule) settled() (n int64) {
	for _, c := range k.compacted[k.low:k.high] {
		n += c
	}
	return n
}

// Latest is what a whole log holds of one key.
type Latest struct {
	// Offset is the source's, At the log's own: where others write to the target, the
	// place of what they wrote is that of the copy that follows.
	Offset, At int64
	Sum        uint64
	Tombstone  bool
}

// tombstoneRule says when a tombstone may have gone.
type tombstoneRule struct {
	// keepMillis is the lacking side's delete.retention.ms, 0 where unknown.
	keepMillis, nowMillis int64
}

// mayBeGone reports whether a cleaner may have removed a tombstone: not sooner
// than delete.retention.ms after it was written. A timestamp from the future
// proves nothing.
func (r tombstoneRule) mayBeGone(p Print) bool {
	return r.keepMillis <= 0 || p.Timestamp < 0 || p.Timestamp > r.nowMillis || p.Timestamp+r.keepMillis <= r.nowMillis
}

// settle decides about records of one key that a side lacks, given what that
// side's whole log holds of the key, up to its end of now. It is nil where it
// holds nothing.
func (r tombstoneRule) settle(l loner, there *Latest) bool {
	if there != nil {
		// What lies below would have been removed before the tombstone was: a value
		// that is still there was never deleted.
		return there.Offset > l.last.Offset
	}
	return l.last.Tombstone && r.mayBeGone(l.last)
}

// differs reports whether two logs disagree about a key: no record and a
// tombstone are the same to whoever reads both.
func differs(a, b *Latest) bool {
	gone := func(l *Latest) bool { return l == nil || l.Tombstone }
	if gone(a) || gone(b) {
		return gone(a) != gone(b)
	}
	return a.Sum != b.Sum
}
