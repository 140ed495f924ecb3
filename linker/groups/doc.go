// Package groups carries consumer groups' committed offsets to the target. Since
// mirrored records keep their offsets, a commit is copied as it is. In checkpoint
// mode they do not: there a Translator tells where the next record to be read lies,
// and that offset is compared with the target's and written (U8).
//
// Desk is pure: it takes what both clusters said, and when, and gives what to
// write and where each offset stands. Syncer asks, writes and obeys commands.
//
// # Two ways in
//
// Package commits tells of commits within milliseconds where the source's
// __consumer_offsets may be read. Beside it every interval all coordinators of
// the source are asked, many groups per request, which corrects the first way
// and stands in for it where that right is missing; less often where that takes
// long (pollShare). Of one offset the newer of
// both counts: an answer to a question that was asked before the last event came
// is dropped, and so is an event that the brokers' clock puts well before a
// question whose answer is known. Only groups that a listing showed to be
// classic or consumer groups are carried; one that an event names first is
// listed at once. Share groups (KIP-932) and streams groups (KIP-1071) are shown
// as NOT_CARRIED: the former keep another kind of state, the latter more than
// offsets.
//
// # One way out
//
// Changes are gathered per group for gatherFor and written by cycles, each for
// some groups of one coordinator: read the groups' offsets on the target in one
// request, decide, put what will be written on record in the control topic, read
// that topic to its end, look at lease and commands, commit, one request per
// group. Cycles of several coordinators run side by side, so one that does not
// answer holds up its own groups alone.
//
// Why the offsets are read anew in each cycle, when klink's own last write is
// what they should be: one request reads those of hundreds of groups, and it
// narrows the time in which klink could overwrite a stranger's commit to that of
// one record in the control topic and one commit, some 20 ms. What protects in
// that time: while a group has members, the coordinator refuses a commit without
// a member id (UNKNOWN_MEMBER_ID), and a classic consumer needs longer than that
// to join, commit and leave an empty group (group.initial.rebalance.delay.ms).
// What remains are consumers that assign partitions by hand, which are members of
// nothing: theirs can be overwritten in those milliseconds. A commit whose answer
// is given up (commitTimeout) may be carried out while the coordinator holds it; the
// connections are reset at their end, so that none arrives long after.
//
// The list of members is read every interval and may be as old as listedFor,
// since the refusal protects; it saves refusals and tells GROUP_ACTIVE.
//
// # What is deleted
//
// A commit that is gone at the source, deleted or expired, is not deleted on the
// target: its copy is not renewed any more, shows as SOURCE_DELETED, and expires
// there by the target's own offsets.retention.minutes. While the copy is there,
// the record in the control topic stays, so that a group made again under the
// same name is carried at once, also to a lower offset.
//
// Invariants:
//
//	U1  A group is written only in a cycle in which the target's list does not
//	    show members, its offset was read, and was absent or what klink wrote last,
//	    and by a request that the coordinator refuses while there are members. A
//	    broker that did not answer is no answer.
//	U2  Offsets are copied verbatim, 0 included, with metadata and without the
//	    source's leader epoch: a Java consumer waits in vain for an epoch that
//	    the target has never had. They are clamped to the target's high
//	    watermark, and raised when it has moved; beyond it, consumers would
//	    reset. A negative or absent offset is no commit.
//	U3  The trouble of one partition or group does not hold up another.
//	U4  An offset is on record before its commit is sent, with the one that was
//	    there: so after a kill -9 klink knows its own writes. One whose commit had
//	    no answer counts as possibly written, for lateFor also beside newer ones
//	    (in memory: a broker that carries one out after the next, and a kill before
//	    klink has looked again, leave an offset that klink takes for a stranger's).
//	U5  Nothing is written for a topic that is not to be mirrored: the control
//	    topic was read to its end after the record of the write was in it and
//	    before the commit is sent, and the lease of its partition 0 held then and
//	    bounds the request. A command that stands in the log before the record is
//	    obeyed; one behind it can be overtaken by that one request.
//	U6  What is acknowledged to a command as the last round was asked of all
//	    coordinators after the command was read, and read back from the target.
//	U7  Unchanged offsets of klink's are committed again after a quarter of the
//	    target's offsets.retention.minutes, while the topic is mirrored.
//	U8  On a topic in checkpoint mode source and target offsets are never compared with each
//	    other: an offset counts as carried over where the target has its translation.
//	    One ahead of what was copied gets the end of that (CLAMPED), one below it the
//	    first copy (BELOW_START), one of which nothing is known waits (UNMAPPED).
package groups
