// Package comparator audits a mirror: it reads both clusters and tells every
// difference between them. It is independent of the code that mirrors: of that
// it shares the reader of batches (fetcher/batch) and nothing else.
//
// Findings and what they are decided from are values: Merge walks two ordered
// streams of prints (a hash of each visible record, and one of its key), and
// knows no cluster. Around it stand raw Fetch readers, one for each side of a
// partition, as read_committed consumers: transaction markers and records of
// aborted transactions are invisible on both sides.
//
// A shift is a run of records that stand, equal and in order, at a constant
// distance from where they were. It is one finding, however many they are. One
// by more than Lookahead records is not recognised.
//
// In checkpoint mode a map (Copied), which somebody else knows, tells where copies lie.
// A reader of the target gives them the offsets of their records, so that all else is
// as in mirror mode, digests too. Offsets of results are the source's then, but for
// what only the target has.
//
// Invariants:
//
//	C1  Nothing is written to any cluster.
//	C2  Where no finding is reported and nothing is counted as compacted or
//	    expired, the canonical digests of both sides are equal, or digests were
//	    not asked for.
//	C3  Batch boundaries, codecs, producers and leader epochs are no difference.
//	C4  On a compacted topic a record that one side lacks is a finding unless that
//	    side has a later record of its key, or it has no key, or it is a tombstone
//	    that may have expired and that side holds nothing of the key any more. Keys
//	    are compared by 64-bit hashes under a secret of the run: of a million keys
//	    in question, one in 10^13 runs would take one for another.
//	C5  Memory is bounded: MemoryBytes of fetched batches, though a batch that is
//	    larger than its share comes whole; what one batch of each side decodes to;
//	    Lookahead prints of 40 bytes a side; MaxKeys keys of some 100 bytes, beyond
//	    which the partition is read again, for the keys that were left out.
//	C6  A partition that cannot be compared fails alone, and is never reported as
//	    equal.
//	C7  An Auditor compares a mirror at work: nothing beyond what was mirrored when
//	    it was asked, and nothing of topics other than the ones it was asked about,
//	    whatever has their names.
//	C8  The map is believed of nothing but places: that a record has a copy is said of
//	    it where a record like it was read there. Where there is none by the map, it is
//	    missing. What lies among the copies is no difference: it is counted as
//	    duplicates, where the mirror wrote it or where it is equal to a copy at most
//	    8192 records away (without digests: of those that were decoded), else as foreign.
package comparator
