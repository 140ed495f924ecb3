// Package survey looks before klink leaps. Probe tries on a scratch topic of a
// target which of the facts that offset-keeping rests on hold there, and how
// fast they are.
//
// What is judged is judged by pure functions over values (Judge); Probe acts.
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
package survey
