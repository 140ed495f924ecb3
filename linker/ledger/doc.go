// Package ledger names what on a target is not a record-for-record copy of the
// source, and why: the reasons, and runs and ranges of offsets that have one.
// Pure values: no I/O, no clock, and nothing of klink is imported.
//
// Invariants:
//
//	L1  A reason below 1<<ReasonBits can stand in the low bits of a filler
//	    marker's coordinator epoch, and its number never changes: target logs
//	    hold it for as long as they live.
package ledger
