// Package appender acts on the target's logs: it appends patched batches with
// raw Produce requests, reads true log ends, and reads what a broker remembers
// of a producer. It decides nothing about offsets: it says what happened to a
// batch, and the caller, who owns the partition, says what follows.
//
// It never retries an append, never uses kgo's producer, and never lets one
// broker's trouble hold up the partitions of another.
//
// # Lanes
//
// Each broker has one queue and one connection per lane, and a slow lane. A
// partition keeps its lane. A batch may be handed over while the one before it
// is under way (Batch.After): a lane has two requests on its connection, so that
// the broker finds the next one when it has answered the first. Partitions
// that were answered together and whose next batch is about to come (Follow) are
// waited for, a millisecond at most, so that they share the next request too;
// nothing else waits for company.
//
// # After an outcome
//
// Appended: go on with the next batch. Everything else ends the run of
// appends, and the caller reads the log end (LogEnds) before it sends again:
//
//   - NotSent, Refused: nothing was written by this call.
//   - Unknown: perhaps written. LogEnds gives the truth of that moment: an end
//     equal to the batch's end means written, an end equal to its base means
//     not written so far. In the second case the old request may still be in
//     the broker's hands (a broker carries on with a request whose connection
//     is gone). The caller sends the same sequence again and is safe: if the
//     late append wins, the answer is the duplicate's (Appended, with the same
//     base, or Duplicate) or OutOfOrder where the batch was cut differently.
//     Sequences guard data only: what has none (markers) must wait longer.
//   - Duplicate, OutOfOrder: somebody with this identity wrote, perhaps this
//     process before a doubt. Read log end and producer state again.
//   - Misplaced: the log end was not where the caller believed: a foreign
//     write. The records stand at a wrong offset; halt.
//   - Fenced: a higher epoch has been written; halt.
//
// # Markers
//
// A COMMIT marker (WriteTxnMarkers) takes one offset that no consumer sees. It
// has no sequence, its answer has no offset, and a broker that got a request
// carries it out to its end even if the client has hung up. So nobody may write
// one who does not know where the log ends, and after a doubt that is known only
// once the old request can no longer run: SettleMarkers, and then a log end that
// stands still (Ends). What does guard a little is the coordinator epoch: a
// leader refuses markers below the highest it has seen, which ends an old bulk
// at once when a higher single one is written behind it.
//
// Each broker has one marker connection for single markers and one for bulks,
// opened at need. Before markers travel on one that was quiet for a second the
// broker is asked for its topics' ids on it: a connection that it has closed
// meanwhile, and a topic that was recreated, are noticed while nothing is in
// doubt yet.
//
// UNKNOWN_TOPIC_ID is only a suspicion of a recreated topic, since a broker
// that has not heard of a new topic says the same: confirm by LogEnds, which
// compares the id with the leader's own metadata.
//
// Below Produce v13 a request names its topic, so a topic recreated since the
// leader map last asked takes the batch. The base offset then shows it as
// Duplicate, and the LogEnds that has to follow says TARGET_RECREATED.
//
// # Invariants
//
//	A1  A batch is sent at most once per Append. kgo's own second try happens
//	    only where no byte of the first was written.
//	A2  NotSent and Refused are only said where nothing was written for
//	    certain; whatever is not known to this package is Unknown.
//	A3  A request carries at most one batch per partition and at most
//	    MaxRequestBytes of batches, or one larger batch by itself.
//	A4  Requests in flight per broker are at most the number of lanes, the slow
//	    one, and one per marker connection (MaxMarkers). So bytes in flight are
//	    bounded by (lanes + 1) times the larger of MaxRequestBytes and the largest
//	    batch.
//	A5  A partition's batch is in one place at a time: parked, waiting in one
//	    queue, or in one request. It is not touched once it was settled.
//	A6  Every request has a deadline; every goroutine ends with Run.
//	A7  With an error in an answer its base offset is ignored.
//	A8  A batch that follows another one of its partition is sent behind it on
//	    the same connection, or once that one was appended. Results come in
//	    order. Where the first fails, the second is refused by its sequence or
//	    comes back unsent.
package appender
