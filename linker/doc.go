// Package linker is the target side: one Link per configured link, one loop per
// mirrored partition. A partition loop asks the target where its log ends, has
// the source read from there, lets package plan decide, and has package
// appender act. It declares the ports it needs (ports.go); cmd/app plugs in the
// source side.
//
// What it promises: a record at source offset N is at target offset N (G1), no
// record is lost or doubled through crashes and lost answers (G3), what would
// break that halts the one partition with a reason (G4), or leaves out its topic
// where offsets cannot be kept and the link wants that (unmirrorable.go), and the
// position of a mirror is the log end of the target partition and nothing else (G5).
//
// Invariants:
//
//	K1  One goroutine owns a partition's position and is the only one that
//	    writes to its end. Two appends of it are in flight at most, the second
//	    resting on the first by its sequence; one where the broker may not
//	    remember the producer, and none beside markers and pads.
//	K2  A position is forgotten after every outcome other than "appended where
//	    expected"; the next one comes from the target's true log end, and what
//	    lies between the last confirmed end and the new one is compared with
//	    the source before anything is appended.
//	K3  A source leader epoch is acknowledged by the control topic before the
//	    first batch of that epoch is sent.
//	K4  A chunk's memory is given back on every path.
//	K5  A worker never raises the producer epoch; a higher one at the target is
//	    a fence and halts the partition.
//	K6  While the target may have forgotten this producer (UNGUARDED), a batch is
//	    sent only under the lease, or by a process that is alone on record, or, where
//	    no lease can be had, by the last one that started (turn.go), and only where
//	    the log end was just read.
//	K7  The target's log start moves up to where the source's was seen, and no
//	    further: under the lease, while the partition mirrors with its source in
//	    sight, and never beyond what the target holds (trims.go).
//	K8  Markers and pads are written only under the lease of the link's group
//	    (gaps.go, padding.go), after a fresh look at the log end or directly
//	    after an answer that tells it. A new assignment begins in doubt, also the
//	    first one of a partition that another process held beside this one, and so
//	    does a start after one that did not end in an orderly way.
//	K9  What operators want is known before anything is begun, and obeyed: nothing is
//	    written to a topic that is not to be mirrored, nor changed on it, and what
//	    was under way is over before an order is acknowledged (obey.go).
//	K10 A partition is mirrored by the process that the link's group assigns it to,
//	    and by others only while nothing is known of an assignment. Who gives one up
//	    in an orderly way has nothing under way then (share.go).
//	K11 In checkpoint mode records keep their order, and their offsets drift: the
//	    target partition may hold other records too (drift*.go). What tells where a
//	    copy lies is acknowledged before the copy is sent, so that the target's log
//	    shows by its sequences which records are there; after a doubt it is read, from
//	    the cursor on, before anything is appended. Nothing is filled, padded or
//	    trimmed, and K3, K5, K6, K9 and K10 hold as in mirror mode.
//	K12 A topic has one mode, in all its partitions and processes. Where its link may
//	    mirror it in either, one process decides before anything is written to its
//	    target, and puts it on record (outlook.go); it stays until the target is another.
//	K13 Nothing is mirrored to the cluster that it came from, by the control topics of
//	    all klinks on its way (loops.go). A link of which nothing is on record at its
//	    source, such as a MirrorMaker 2, is not seen.
package linker
