// Package takeover finds out where MirrorMaker 2 left off with a partition, so that
// another mirror goes on there: from the offset that Connect has on record, from
// offset syncs, and from both logs, whose records it compares. It is deterministic:
// what it reads comes through Log, and it writes nothing.
//
// MirrorMaker 2 copies a partition's records in order. A task that did not stop
// cleanly begins again at the last offset it had committed, and copies what follows
// a second time, so a target's log is a row of stretches of the source's log, each of
// which begins at or below the end of the one before. The record that the log ends
// with tells where to go on, whatever was committed.
//
// Invariants:
//
//	O1  PROVEN: from an anchor to the end of the target's log each record was
//	    compared, and the last one is the source's at Next-1 or an equal one. So none
//	    is copied again but those that MirrorMaker 2 itself went back over, and those
//	    are counted.
//	O2  A source record counts as passed only where it is aborted, was copied before,
//	    may have been removed by the target's cleaner, or where a sync tells of a later
//	    one whose copy is equal. So nothing is left out.
//	O3  STALE: all below Next was acknowledged to MirrorMaker 2 or could be compared,
//	    and Doubles is the most that may be copied again.
//	O4  The map tells only of compared pairs, and of all copies from its first run on.
//	    Below Floor nothing is known.
package takeover
