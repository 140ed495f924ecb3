// Package survey looks before klink leaps. Probe tries on a scratch topic of a
// target which of the facts that offset-keeping rests on hold there, and how
// fast they are. Plan looks at both clusters of a link and says how each topic
// would be mirrored: with what verdict, how many offsets are padded and filled,
// how much is copied and how long that takes, which rights are missing and which
// settings differ.
//
// What is judged is judged by pure functions over values: Judge, from facts to a
// verdict; count and extrapolate, from batches to amounts; begin and judge, from
// positions and amounts to a verdict; rightsOf and differences. What package plan
// would decide is asked of package plan. Probe and Plan ask and act.
//
// Invariants:
//
//	S1  Probe writes to its own scratch topic and to nothing else, and removes it
//	    on every way out: after errors and after the end of its context too. What
//	    it cannot remove it names.
//	S2  A fact that was not seen to hold, or not to hold, is unknown; it is never
//	    taken for either.
//	S3  Whether something was written is read from the log end, never from an
//	    answer alone.
//	S4  Measuring is bounded in time and in bytes, whatever the cluster does.
//	S5  Plan writes nothing to either cluster.
//	S6  What was extrapolated from a part of a log is marked so.
package survey
