// Package commits follows a cluster's __consumer_offsets and tells each change
// of a committed offset within milliseconds, where a poll would tell it within
// its interval.
//
// It reads only: Describe and Read on that one topic. What it cannot read it
// says (Status), and whoever uses it polls meanwhile; a follower never stands in
// for a poll, it makes one seldom needed.
//
// How it is used: take the batches from Batches. One with Gap set says that
// commits decided before it may be missing: ask the coordinators for all
// offsets, beginning after the batch was received. The first batch is such a
// one; it comes once the ends of the log are noted, so that nothing falls
// between the poll and the events.
//
// Events are told of every kind of group that commits offsets. That of streams
// groups (KIP-1071) cannot be told from others by their commits, which a
// listing of groups does; share groups (KIP-932) commit none.
//
// Invariants:
//
//	O1  Events of one partition of __consumer_offsets come in the order in which
//	    its coordinator made them count, each at most once.
//	O2  An offset committed in a transaction counts when the COMMIT marker of
//	    that partition is read, never on ABORT, and not where a commit or a
//	    deletion that stands later in the log came first
//	    (OffsetMetadataManager.replay and replayEndTransactionMarker; before
//	    Kafka 4.0 GroupMetadata). Reading is uncommitted, so a transaction that
//	    hangs holds up nobody else.
//	O3  Whatever may have been missed is said as a gap: a position outside the
//	    log, a log cut by an unclean election, bytes that do not hold together, a
//	    transaction of which not all was seen or kept.
//	O4  A record that is not understood is counted and passed over.
//	O5  Memory is bounded: per partition by heldBytes and gatherBytes, per broker
//	    by one answer. A consumer that does not take batches stops the reading,
//	    and what it missed is then told as the newest commit of each key.
//	O6  Nothing older than the noted end of a partition is told.
//
// Layers: record.go knows the bytes of keys and values, tracker.go what a
// transaction holds back, partition.go one partition's log, all of them without
// I/O; position.go and follower.go ask the brokers.
package commits
