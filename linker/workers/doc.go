// Package workers is membership in the link's group on the target cluster, used
// as a lease. Kafka's own group protocol spreads the target's partitions over
// the klinks of a link, notices the dead and hands over; this package tells
// whether this process may now do what no sequence guards: write markers and
// pads, and trim.
//
// It reads no record: it never sends a Fetch, keeps no position and commits
// nothing. It needs Read on the group and Describe on the topics.
//
// # The lease
//
// A partition is held from an assignment on, while the last heartbeat that the
// group's coordinator answered without error was sent less than the session
// timeout minus the margin ago. The coordinator starts its own clock when that
// heartbeat arrives, which is later than when it was sent, and gives the
// partition to nobody else before a whole session timeout has passed on it. So
// a process that hangs, is frozen or is cut off loses the lease by its own clock
// before anybody else can get it, without hearing from anybody.
//
// kgo keeps the error codes in the answers to its heartbeats to itself, and its
// hooks see only that an answer came. So this package sends heartbeats of its
// own beside kgo's, for the same member and generation. They count as any other
// with the coordinator; kgo's remain the ones that notice a rebalance.
//
// A heartbeat that is answered REBALANCE_IN_PROGRESS keeps the member in the
// group and does not renew the lease. The lease of a member that does not rejoin
// has therefore ended long before the rebalance timeout removes it.
//
// What a member owned stays its own through a rebalance (KIP-429): the others
// get a partition only in the generation after the one in which its owner gave
// it up. So a heartbeat that is answered without error between joining a
// generation and hearing what it assigns renews what was held before.
//
// # Giving up
//
// A write is announced by Enter and ended by Leave. A revocation first makes
// Held say no, then waits for the writes under way, and only then lets the group
// go on. The wait ends at the latest when the lease of those writes would have,
// and a write must be over by then (Permit.Until).
//
// # Who mirrors what
//
// The assignment also spreads the work that needs no lease (Share): data are
// guarded by their sequences, so whoever loses the group goes on with what it had
// until it hears that somebody else has it.
//
// # Invariants
//
//	W1  Held is true only for partitions of the last assignment, and only once a
//	    heartbeat that was sent after that assignment was answered without error.
//	W2  The lease counts from before that heartbeat was sent: retries within it
//	    only shorten the lease.
//	W3  Only an answer with error code 0 renews. UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
//	    and GROUP_ID_NOT_FOUND end the lease at once.
//	W4  A partition that is revoked or lost is not held before kgo's callback
//	    returns, and so before the group can give it away.
//	W5  No permit outlives the lease that it was given under, and no partition is
//	    given up in an orderly way while a permit for it is out.
//	W6  The rebalance timeout is longer than the session timeout.
//	W7  Both the monotonic and the wall clock must agree that a lease holds: the
//	    monotonic one stands still while a machine sleeps, the other one jumps.
//	W8  No Fetch, ListOffsets or OffsetCommit request is ever sent.
//	W9  Partitions go to another member in an orderly way only once BeforeGivingUp's
//	    function has returned for them.
//
// # Limits
//
// A coordinator that is cut off from its cluster without knowing, and that still
// answers this process, renews a lease which its successor knows nothing of.
// A process that freezes between looking at its lease and the write, and wakes
// after it ended, writes without one: deadlines on the connection narrow that.
// An administrator who removes a member from the group ends its lease with the
// next heartbeat, not at once.
package workers
