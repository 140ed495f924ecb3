// Package ownlog is one of klink's own topics on the target, as a log: made where it
// is missing, found, and read. Such a topic has one partition and is compacted.
// What its records mean is for others (packages control and maps).
//
// Invariants:
//
//	L1  The topic's id is pinned when it is first found. Another topic of the same
//	    name is never read in its place: ErrLost.
//	L2  ReadToEnd has read everything that was committed when it was called, also
//	    where compaction emptied the batches at the end.
//	L3  A topic that is there is never made anew, and nothing of it is changed but
//	    a cleanup.policy under which records would be lost with age.
package ownlog
