// Package exact translates offsets between two logs of which one holds copies of
// the other's records at other offsets. It is pure: no I/O, no clock.
//
// A Map is a row of runs. Within a run the difference between the two offsets is
// one number; a new run begins where it changes, because the source holds
// something that is not copied (a transaction marker, aborted data, a hole left by
// compaction), or because something else was written to the target in between. So
// its size goes with the number of such places and not with that of the records.
//
// Invariants:
//
//	E1  Runs rise in both offsets, none is empty, and none touch in both offsets
//	    and in sequence: what could be one run is one.
//	E2  A translation is monotonic: of two offsets the higher one never leads to a
//	    lower answer.
//	E3  ToTarget leads to the copy of the first record at or above the offset that
//	    was copied, and never beyond the end of what was copied. So does ToSource,
//	    the other way.
//	    Below what is known there is no answer.
//	E4  Where a record was copied twice, its later copy counts.
//	E5  Decode takes what Encode made and nothing else that breaks E1; what it
//	    allocates is bounded by the length of its input.
package exact
