// Package drift decides how a log is copied to a partition that may hold anything,
// so that records keep their order and not their offsets. It is pure: values in,
// values out.
//
// Invariants:
//
//	D1  What a read_committed consumer of the source sees is copied, in order;
//	    nothing else is. Holes are left out.
//	D2  The sequences of what is copied follow one another without a gap, so that a
//	    sequence tells which record a copy is of, by the map that was on record
//	    before it was sent.
//	D3  Recover believes the target's log, and the map on record only for what the
//	    log does not show: it never moves the position beyond the last copy that is
//	    there, nor below it.
package drift
