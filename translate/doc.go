// Package translate tells where a consumer group goes on in the other cluster
// where copies have other offsets: from klink's exact maps (package exact), in
// both directions, or from the topics that a MirrorMaker 2 wrote (package mm2).
//
// MirrorMaker and Line are pure and hold what was read; ReadMirrorMaker,
// ReadCheckpoints and ReadSyncs read it with a client that the caller has and
// keeps. It writes nothing, makes no topic and joins no group.
//
// Invariants:
//
//	T1  A read is Complete where it reached the topic's end as it was when the read
//	    began, and TimedOut where its context's deadline passed before. Of a topic that
//	    was not read to its end no answer is made: INCOMPLETE is the reason.
//	T2  A record that cannot be decoded is counted and passed over.
//	T3  Records of all transactions count, also of those that were aborted, as for
//	    MirrorMaker 2's own client, which reads uncommitted (MirrorClient).
//	T4  For each partition of a group there is an offset or the reason for there
//	    being none; never both.
//	T5  All records at or above the group's offset that are copied lie at or above
//	    the answer, and no answer lies beyond the other log's end. One below the log's
//	    start is moved there.
//	T6  An answer from MirrorMaker 2's topics is never below what its own client gives
//	    for the same records, unless the group went back since, or the target's log
//	    does not reach that far any more.
package translate
