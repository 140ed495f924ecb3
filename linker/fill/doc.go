// Package fill occupies gaps on a target partition with transaction markers
// (WriteTxnMarkers v1, COMMIT), one offset each, so that neither a crash nor a
// lost reply leaves one too few or too many. It decides in a pure machine
// (values and the time in, actions out) and acts through Ports.
//
// A marker has no sequence, its answer has no offset, a repeated one is written
// again, and a surplus one cannot be taken back. What there is instead: each
// marker carries a coordinator epoch, and the broker refuses one below the
// highest it has seen of the producer (TRANSACTION_COORDINATOR_FENCED).
//
// # The protocol
//
// A small gap is filled with single markers: the answer about one is exact. A
// larger one takes bulk requests up to its last offset but one, a look at the
// log end after each (answers about several markers of one producer hide
// errors), then its last marker by itself, and a last look.
//
// After a bulk in doubt one single marker, the fence, with a higher counter
// makes the broker refuse what is left of it; then the log end tells how much
// came. That is why a bulk never takes the last offset. Where the fence could
// land on offsets of different reasons the doubt is settled first, so that its
// reason is right.
//
// Nothing can fence a single marker in doubt before it has come. It is settled: an
// answered request on a new connection, then a log end that stands still for
// SettleTime under one leader and equals the high watermark. The same goes for
// an owner that took over without a clean release (Gap.Doubt) and after a
// counter was refused. Then one single marker fences what might come even so,
// and the log end is read before more are written.
//
// # Invariants
//
//	M1  A marker is sent only directly after an error-free answer, or after a
//	    log end read that equals both the expected offset and the high
//	    watermark; under the same leader epoch in both cases. Fences of a bulk
//	    are the exception, since they make the log end known.
//	M2  Counters rise with every marker handed to Write, whatever became of it;
//	    none is ever used twice, and all lie in reserved blocks.
//	M3  What was sent and is not accounted for, with the fence it needs, never
//	    reaches beyond the end of the gap.
//	M4  Nothing is written without the lease (Ports.Allowed), asked right before
//	    each write, whose deadline bounds the write.
//	M5  The marker at an offset carries the reason that the gap has there, as
//	    long as the broker carries out a bulk in order.
//	M6  Offsets count as occupied only below the high watermark, or directly
//	    after an error-free answer about a single marker.
//
// # Limits
//
// M1 to M6 do not hold against an unclean election of the target; against a
// request that a broker carries out after its log end stood still for
// SettleTime; nor against a frozen process that wakes between an owner's last
// look and its marker. The second and third can cost one offset, which is then
// found: in a larger gap it is made up for, at the end of a gap it is OVERSHOT.
// M5: where a broker refuses markers in the middle of a bulk and takes later ones
// (its in-sync set shrinks and grows within that request), or loses the first
// ones in an election and leads again while the request still runs, the number
// of markers is right and some of their reasons stand at the wrong offsets of the
// gap.
package fill
