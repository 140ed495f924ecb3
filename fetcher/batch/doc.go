// Package batch knows the bytes of Kafka's record batches: it views, splits,
// patches, decodes, re-encodes, merges and digests them, reads transaction
// markers and makes up batches for padding. It is a leaf: it imports nothing of
// klink, does no I/O, starts no goroutine and reads no clock.
//
// The layout is that of KIP-98 (magic 2). Message sets of magic 0 and 1
// (KIP-31, KIP-32) are read as well: Split, Records, Recode and OldFormatRange
// take them, compressed or not. Everything written is of magic 2. A "batch" is of
// magic 2 in these comments, an "entry" of any.
//
// All functions are safe for concurrent use on different bytes. Decoders,
// encoders and scratch buffers are pooled inside.
//
// What it promises:
//
//	B1  Any bytes may be given: the answer is a value or an error, never a
//	    panic and never a read outside the slice.
//	B2  No allocation is sized by a length or count that the bytes merely
//	    declare. Decompression stops at Limits while it runs, not after it.
//	B3  Patch corrects the CRC algebraically: CheckCRC answers after it as it
//	    did before it, so the CRC stays an end-to-end check of the payload.
//	B4  Bytes are decoded only after their CRC was checked, so re-encoding
//	    never gives a damaged payload a fresh, valid CRC.
//	B5  Re-encoding keeps key, value, headers (order, duplicates) and timestamp
//	    of every record, and null apart from empty.
//	B6  A re-encoded batch is one that every broker takes as it is: base offset
//	    0, leader epoch -1, producer id, epoch and sequence -1, no attribute but
//	    the codec, Count == LastOffsetDelta+1, every inner offset delta equal to
//	    its index, the max timestamp the true one (at least -1).
//	B7  The transactional bit is cleared, never set; a control batch is neither
//	    patched, recoded nor merged.
//	B8  Only Patch writes to the bytes it is given. Results never share memory
//	    with the batches they were made from; the exceptions (Split, Records)
//	    say so.
//	B9  Decoding is strict: offset deltas rise strictly and stay within
//	    LastOffsetDelta, the declared count of records is met exactly, and no
//	    byte is left over.
//	B10 A re-encoded batch holds neighbouring offsets. A hole is never closed: it
//	    ends a batch or, where RepeatNext was asked for, is filled by copies of
//	    the record after it, the same ones wherever batches begin.
//
// What it never does: decide. Which batch may go raw, be recoded or merged is
// the planner's business; this package refuses only what cannot be done.
package batch
