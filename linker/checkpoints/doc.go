// Package checkpoints writes MirrorMaker 2's topics on the target, for a link with
// topics in checkpoint mode: checkpoints, from which MirrorMaker 2's Java client
// translates the offsets of groups; offset syncs, from which other tools do; and
// heartbeats, which tell how clusters hang together (KIP-382, KIP-716). Their bytes
// and names are those of package mm2.
//
// Book, Syncs and HeartbeatsOf are pure: they decide. Task asks the target, makes the
// topics and writes, in the one process that holds the lease of the control topic's
// partition 0, as the sync of groups does. What stands in its way is shown, and holds
// nothing else up but, where it passes by itself, a promotion (P7).
//
// MirrorMaker 2 translates by samples. Here each checkpoint has the offset of the
// very next record that the group has not read, since where copies lie is known
// exactly; its clients need no change.
//
// Heartbeats: MirrorMaker 2 writes the topic heartbeats on a cluster and mirrors it to
// the next one as ALIAS.heartbeats. Nothing is written on the source here, so
// SOURCE.heartbeats on the target is written by klink itself, while the source answers;
// it tells the same: that this flow is alive.
//
// Invariants:
//
//	P1  A key is never missing, nor is a value or metadata: one such record breaks all
//	    of a Java client's answers.
//	P2  No checkpoint leads beyond the target's high watermark, as it was after its
//	    offset was looked up; one that does since the target lost its end is replaced.
//	P3  A checkpoint is written only where it says more than the one before it; a
//	    group that did not go back on the source goes back on the target only where
//	    its record was copied again, or the target lost its end.
//	P4  An offset sync is a record's source offset and its copy's target offset, as
//	    acknowledged.
//	P5  One process writes: by lease; all that is in the topics is read before it
//	    writes. Records of others are taken for what they are, and told of.
//	P6  Topics are made with one partition and cleanup.policy=compact and nothing
//	    else set. One that is there and is otherwise is neither written nor changed.
//	P7  Before a promotion stops a topic, what groups had committed on it is in
//	    checkpoints, unless that cannot be written, which status says (Task.Last).
package checkpoints
