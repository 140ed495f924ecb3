// Package maps keeps on the target where the copies of checkpoint mode lie: the
// topic __klink_map, compacted, with one partition. Each mirrored partition has its
// map of runs (package exact) there, in chunks that are filled up to exact.MaxChunk,
// and a cursor: how far the mirror had come some seconds ago.
//
// The topic's name begins with two underscores, so no MirrorMaker 2 mirrors it.
//
// Invariants:
//
//	M1  Put returns after the cluster acknowledged all that changed, or with an error
//	    after which any part of it may be on record. Whatever part that is, and
//	    wherever a process dies, what the record and the map put have in common stays
//	    on record: which sequence each record that was copied has.
//	M2  A Put writes what changed since the last one: as a rule one chunk.
//	M3  A map belongs to one incarnation of the source topic and one of the target
//	    topic; another incarnation's is never given for it.
//	M4  Load tells all that was on record when it was called, by whomever it was put.
//	    A partition's map has one writer at a time: whoever mirrors the partition.
//	M5  Records of a newer klink are an error and never skipped; what is malformed is
//	    an error of the one partition that it belongs to.
package maps
