package ledger

import "time"

// Stale is where a mirror of a compacted topic may have missed tombstones, so that
// keys deleted on the source live on in the target: the holes that it came by too
// late lie within the offsets [From, End).
type Stale struct {
	From int64 `json:"from"`
	End  int64 `json:"end"`
	// Since is when the mirror last held all that the source had, before the first
	// of them; zero where that is not known.
	Since time.Time `json:"since,omitzero"`
}

// Missed decides whether a hole that compaction left, and that the mirror came by
// at now, may have been a tombstone for a key that the target holds.
//
// A tombstone does not vanish before it has lain for delete.retention.ms
// (tombstonesFor) behind the start of the cleaner's first pass over it (KIP-534;
// with older formats behind its segment's last write). Take the last time at which
// the target held all that the source had (Synced). What is beyond that was not
// stable then, so no cleaner had passed it, and whoever reads all of it within
// tombstonesFor of that time sees every tombstone in it. Later, each hole may have
// been one: which it was cannot be told any more, so all are taken for it. Where
// nothing is missing there was no tombstone to miss, however long the mirror was
// away.
//
// A target without records holds no keys that could be stale, so a first copy
// counts as synced when it begins. It must be through within tombstonesFor all the
// same: the cleaner keeps a value as long as the tombstone behind it is new, so one
// that was copied at the beginning may lose its tombstone before the copy gets there.
// Kafka asks the same of any consumer that reads from the beginning
// (TopicConfig.DELETE_RETENTION_MS_DOC).
//
// Where it is not known since when the mirror is behind, it may be too long; so it
// is where clocks differ by as much.
func Missed(was Synced, now time.Time, tombstonesFor time.Duration) bool {
	return was.As.IsZero() || now.Sub(was.As).Abs() >= tombstonesFor
}

// Join returns what covers both; nil is nowhere.
func (s *Stale) Join(o *Stale) *Stale {
	if s == nil || o == nil {
		if s == nil {
			return o
		}
		return s
	}
	out := Stale{From: min(s.From, o.From), End: max(s.End, o.End), Since: s.Since}
	if o.From < s.From {
		out.Since = o.Since
	}
	return &out
}
