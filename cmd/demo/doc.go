// Package demo tells klink's main story in half a minute, on two embedded
// clusters in this process: a consumer group reads from a source under load,
// klink mirrors it live, the source dies, the group goes on at the target, and
// both logs are compared.
//
// The story is real where it matters: the mirror is the daemon that klink run
// starts, it carries the group's commits over, the clients are ordinary ones, and what is
// compared is read by ordinary consumers (package lab). Only the clusters are
// fakes in memory, and they judge each batch as strictly as a real broker.
//
// Invariants:
//
//	D1  The source dies for its clients: its listeners are closed and every
//	    connection is reset, under load. Its log is kept and read past the closed
//	    listeners for the comparison, which neither klink nor the group can do.
//	D2  The verdict rests on what was read. Having compared nothing, a group that
//	    got nothing, and a mirror that was not ACTIVE when the source died are
//	    failures, not an equal result.
//	D3  What the source had and klink had not mirrored yet when it died is counted
//	    by itself. It is no loss of the group's: no copy of it exists.
//	D4  Whatever was started has ended when Run returns, also after Ctrl-C.
package demo
