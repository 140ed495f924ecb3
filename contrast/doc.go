// Package contrast shows what identical offsets are worth: it runs one load
// through several ways to mirror, kills the source, lets the consumer groups go on
// at the target, and measures what each of them got.
//
// The load is steady, in bursts, in transactions of which some are aborted, and on
// a compacted topic that has holes; of the groups one keeps up, one lags, and one
// rewinds. The ways to mirror are reached through Mode alone, and judged from
// outside: by what the source acknowledged, by what ordinary consumers read at the
// target, and by the offsets that each group is told to go on at.
//
// Invariants:
//
//	X1  What is measured follows from the evidence by pure functions (measure.go):
//	    acknowledgements, copies, commits and deliveries, each with its offset.
//	X2  The same seed gives the same records in the same order, the same commits,
//	    and so the same counts; only what is a time, and what was still on its way
//	    when the source died, differs from run to run.
//	X3  What was not measured is nil and absent, never 0, and never a figure from
//	    elsewhere. A mode that failed says so and has no measures.
//	X4  Every mode gets clusters of its own, the same script, and at least the time
//	    that its own settings need to carry a group's last commit over.
//	X5  Whatever was started has ended when Run returns.
package contrast
