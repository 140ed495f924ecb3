// Package mm2 is what MirrorMaker 2 writes and how it translates offsets: bytes,
// names, and the rules of its tasks (KIP-382, Kafka's connect/mirror and
// connect/mirror-client). It is pure: no I/O, no clock.
//
// Records of offset syncs, checkpoints and heartbeats are old-style structs
// without flexible fields; their bytes are the same in all releases from 2.4 to
// 4.4. Store answers as MirrorMaker 2's checkpoint task does since 3.7
// (OffsetSyncStore), History as well as the same syncs allow.
//
// Invariants:
//
//	M1  Bytes equal those of Kafka's own classes for the same values, and nothing is
//	    encoded that one of its readers fails on as a whole: no null, no
//	    negative target offset, no version but 0.
//	M2  Whatever bytes are decoded, the answer is a record or one of the package's
//	    errors; what is allocated is bounded by the length of the input. Bytes
//	    behind the known fields are passed over, as Kafka's readers do.
//	M3  Store answers with the same number as Kafka's class for the same syncs.
//	M4  All records at or above a source offset that were copied lie at or above its
//	    translation, provided that syncs are pairs of a record and its last copy.
//	M5  For a fixed History a higher offset never leads to a lower answer.
package mm2
