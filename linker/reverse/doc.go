// Package reverse is the way home: after a promotion or a failover the old
// source becomes the target of a new link that goes the other way.
//
// A client can cut nothing off a log. So the old source can go on in place only
// where all that a consumer finds in its log is what the promoted side holds at
// the same offsets, up to its very end; nothing is copied again then. What it
// holds beyond is shown, with its numbers and times, and is given up only by a
// request that says so, which has the old source's topic deleted and mirrored
// anew.
//
// The decision is pure (verdict.go, compare.go, turn.go); what it needs is read
// through the ports of ports.go. Nothing is written where any topic of the
// request stands in the way.
//
// Invariants:
//
//	H1  A topic goes on in place only if a log made of the old source's records
//	    up to its end and the promoted side's from there on shows a consumer the
//	    same as the promoted side's log, as far as both were read.
//	H2  The old source's log ends are read before all else and once more before
//	    anything is done that counts. One that moved is still written to, and
//	    nothing is turned around.
//	H3  All that the new link needs is on record at its target before the old
//	    link names it. A run that ends between any two steps leaves the old link
//	    STOPPED and without a successor; the same request again finishes it.
//	H4  No producer id is used twice: the generation lies above every one on
//	    record for the pair of topics, and above all that the brokers remember.
//	H5  A topic is deleted only by its id, or right after its id was compared
//	    where brokers know no deletion by id, and after the new link has claimed
//	    its name.
//	H6  The pair of names alternates: a target topic that belongs to another link
//	    goes back to the link of that name, and to no other.
package reverse
