// Package ledger names what on a target is not a record-for-record copy of the
// source, and why: the reasons, runs and ranges of offsets that have one, an index
// of them per partition, and whether the source's cleaner may have taken tombstones
// before the mirror saw them. Pure values: no I/O, no clock, and nothing of
// klink is imported.
//
// The reason of a filled gap stands in its markers, so the target's log itself
// is the ledger. The index is what can be shown of it without reading the log.
//
// Invariants:
//
//	L1  A reason below 1<<ReasonBits can stand in the low bits of a filler
//	    marker's coordinator epoch, and its number never changes: target logs
//	    and control records hold it for as long as they live.
//	L2  An index takes offsets in rising order and each once: what lies below
//	    its end is known already, and adding it again changes nothing. So
//	    after a crash it goes on from its stored end with what the log shows.
//	L3  Its totals are exact, and every offset that was added lies in one of
//	    its windows, which says how many it has of each reason.
//	L4  It never has more than MaxWindows windows, however many gaps there are:
//	    neighbours become one. Those with lost or padded offsets are the last to
//	    be merged with others.
//	L5  A time of which a Sync says that all was mirrored is never too late: what
//	    it does not know makes it earlier. So Missed errs towards yes.
package ledger
