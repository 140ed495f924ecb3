// Package state names what a link and its partitions are doing, and why: the
// states, the reasons with their fixed explanations and hints, the one table of
// moves between states, and the report that status shows. Pure values and pure
// functions: no I/O, no clock, and nothing of klink is imported.
//
// Invariants:
//
//	S1  Next is the only way from one state to another; what the table does not
//	    name is an error of the caller and changes nothing.
//	S2  A reason about data (Reason.Remote is false) never ends by itself.
//	S3  In a report what is unknown is nil and never 0; lag_records is never
//	    below 0, and lag_seconds is 0 exactly when lag_records is.
package state
