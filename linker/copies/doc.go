// Package copies tells where the copies of a partition in checkpoint mode lie, by
// what is on the target alone: the map on record and, behind its cursor, this
// mirror's batches in the log. It is for those who are not the mirror: a failover
// where no klink runs any more, a forecast, a translation, an audit.
//
// Invariants:
//
//	Y1  What is told holds all copies below the log end as it was during the call,
//	    and none that is not in the log. It writes nothing.
//	Y2  A copy that lies behind the cursor is told by its sequence (package drift), so
//	    the answer is the same as the one the mirror itself would start with.
//	Y3  A partition of which nothing is on record is not in checkpoint mode, as its
//	    mirror puts a cursor on record before it copies anything.
package copies
