// Package groups carries consumer groups' committed offsets to the target. Since
// mirrored records keep their offsets, a commit is copied as it is.
//
// Decide is pure; Copier asks both clusters, in rounds, and writes what Decide
// says.
//
// Invariants:
//
//	U1  A group is written only when the target, asked in the same round, says
//	    that it has no members, and only where its offset there is absent or
//	    what klink wrote last. A broker that did not answer is no answer.
//	U2  Offsets are copied verbatim, 0 included, with metadata and without the
//	    source's leader epoch: a Java consumer waits in vain for an epoch that
//	    the target has never had. They are clamped to the target's high
//	    watermark, and raised when it has moved; beyond it, consumers would
//	    reset. A negative or absent offset is no commit.
//	U3  The trouble of one partition or group does not hold up another.
//	U4  An offset whose commit had no answer counts as possibly written, so that
//	    klink does not take its own write for a stranger's.
package groups
