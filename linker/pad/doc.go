// Package pad brings a target partition to the point where its log starts at a
// given offset: it appends empty records up to there and deletes them. That is
// the only way a client has to set an offset on a stock broker. It serves the
// start of a mirror whose source begins above 0, and a mirror that the source's
// retention has overtaken.
//
// Next is the pure part: from the goal on record and one look at the target it
// says what is to be done now. Padder does it through Ports, and looks again
// after everything whose outcome it does not know. So a start after a crash, a
// doubt and the ordinary way are the same: the record says where to, the
// target's own log says how far.
//
// # The way
//
// The goal is recorded first. A topic that is compacted takes no records without a
// key, and one that is only compacted lets nobody delete records: both are set to
// delete, with the cleanup.policy to put back recorded before. Pads are
// appended in pieces, in chunks; each chunk is trimmed when it is full, so that
// little of it is on disk at any time. At the goal the log is trimmed to it, the
// time of that is recorded, and records may be mirrored from then on (Ready). A
// broker that dies within two checkpoint intervals
// (log.flush.start.offset.checkpoint.interval.ms) may show deleted records
// again: until that time is over the log start is looked at and trimmed again,
// the policy stays, and the partition is not to be called ACTIVE. Then the policy
// is put back and the goal is done.
//
// The policy belongs to the topic, its partitions are padded one by one: it is
// put back by the last of them that needs it. Each first records that it needs it
// no more and looks then at what the others have recorded. The control topic has
// one order, so that at least one of two sees the other.
//
// # Disk
//
// A broker never deletes the segment that is written to, and the others minutes
// after their trim. Pads have timestamps of long ago that jump by more than
// segment.ms from chunk to chunk, which makes each chunk begin a segment; the
// first mirrored record, some decades younger, begins one as well. So pads never
// share a segment with records, where they would hold up its deletion by age.
//
// # Doubt
//
// Producers whose records are so old are soon forgotten by the broker, so the
// sequences of pads guard nothing for long, and a piece in doubt may still come
// when the log end was already read. Pads are alike, and all below the goal is
// deleted: what matters is their number alone. While a piece is in doubt no more
// is sent than leaves room for it below the goal; the rest follows once the log
// end has stood still for the settling time. A start from a record counts as such
// a doubt, as the process before may have left one.
//
// # Invariants
//
//	P1  Nothing is done to the target before the goal that it is for is on
//	    record, and the policy is not changed before the one to put back is.
//	P2  Pads are appended only where what is in doubt could still come without
//	    the log end passing the goal.
//	P3  No more than a chunk of pads is untrimmed, beside what came out of a
//	    doubt, and no trim goes beyond the goal.
//	P4  Ready is said only after the log start was seen at the goal and that is
//	    on record.
//	P5  Done is recorded only when the log start was seen at the goal a settling
//	    time after the last trim, and when this partition needs the policy no
//	    more.
//	P6  Nothing is appended, trimmed, set or recorded without the lease
//	    (Ports.Allowed), whose end bounds the request.
//	P7  Every step may be repeated, by this process or the next one.
//
// # Limits
//
// P2 does not hold against a piece that a broker carries out after its log end
// stood still for the settling time, nor against foreign writers: a log end
// beyond the goal is OVERSHOT. Consumers that read the partition before Ready, or
// after a broker's crash within the two intervals, can see pads.
package pad
