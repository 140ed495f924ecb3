// Package switchover ends mirrors on purpose: Promote, which waits until the
// target holds all that the source has and then stops; Failover, which stops and
// fences at once with the target alone; and Forecast, which tells the numbers of
// a failover without making one.
//
// What is decided is decided by values: a machine for each of the two commands
// and one for the fence of a partition say what comes next, and the numbers are a
// function of what was read. The rest asks and acts through Ports.
//
// # A failover
//
// The command and the fence's producer epoch go on record. A worker that lives
// reads it, stops and says so; that counts only for partitions it has itself
// appended to since it took them over. Every other partition gets a fence: a
// COMMIT marker (WriteTxnMarkers v1) with the higher producer epoch, after which
// the broker refuses all older data and markers of the mirror. A fence in doubt is
// sent again, since a surplus one only costs an offset. Then the ends are read and
// recorded as the cut, the source's settings come into force, and the cut is recorded
// as settled.
//
// Where the control topic cannot be written the fences go out all the same, with
// the epoch above the one that the broker remembers.
//
// # A promotion
//
// Once the source's last stable offset, its log end and the target's log end are
// equal on every partition, and the source has not moved for Times.Quiet, a Pend holds
// the mirrors, the workers confirm, and the ends are read again. Equal still, and not
// moved, the cut is recorded, and then Promote, which is final; else a Resume takes
// the Pend back, and after a pause it begins again, for as long as the promotion may
// wait. No fence is written: all workers have confirmed. The end is that of a
// failover: settings, then the cut as settled.
//
// A source has no fence. What a producer writes to it after the last look is not
// mirrored: the source is asked once more after the cut, and whenever the command is
// given again.
//
// # Running a command again
//
// Each step leaves its fact on record before the next begins, and each command
// begins by reading: a promotion that died between Pend and Promote is taken up,
// or taken back where it has been held for too long; a failover finds its command,
// its cuts and its fences and does the rest.
//
// # Invariants
//
//	X1  A promotion is on record only if its cut is, and only after an answer of
//	    the source, younger than the workers' confirmations, that showed nothing
//	    the target lacks.
//	X2  All topics of one promotion are stopped together or none. A promotion that
//	    is refused leaves them mirrored, or a Pend that ends by itself.
//	X3  A failover calls a partition safe only if a worker's confirmation counts
//	    for it, or a marker with the fence's epoch is known to be in its log.
//	X4  Ends that are recorded as a cut were read after that.
//	X5  Nothing is reported that was not read: what is unknown is nil.
//	X6  A topic that is STOPPED is never fenced again by another switch.
//	X7  The numbers of a switch are those of its cut, whatever was written to the
//	    target since; in those of a promotion the source's end is that of X10.
//	X8  In checkpoint mode the numbers follow from where the copies lie, up to the cut
//	    or the fence; what others wrote to the partition counts in none of them.
//	X9  A cut is on record as unsettled until the source's settings are in force on its
//	    topic. Whoever reads the record of a command that was killed sees that it has
//	    more to do; so does one whose settings failed.
//	X10 What a promotion lost is told of a source that was asked after the cut, in the
//	    run that made it and in each later one: what lies beyond the cut is a LateError,
//	    and where the source does not answer it is nil.
//
// # Cost
//
// 1,000 partitions take the wait for workers (1.5 s) and some 0.1 ms each at a
// broker that does little else. A marker carries the broker's time: where the
// newest segment of a log is older than segment.ms by the times of its records,
// the fence begins a new one, which takes some milliseconds per partition.
//
// # Limits
//
// Fences hold for as long as the broker remembers the producer
// (producer.id.expiration.ms); after that the record and the workers' lease do. A
// worker that can heartbeat and cannot read the control topic is stopped by fences
// alone. An unclean election of the target can take a fence away.
package switchover
