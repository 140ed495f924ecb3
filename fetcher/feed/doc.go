// Package feed holds the values that cross from the source side (fetcher) to
// the target side (linker). It is a leaf: it imports nothing of klink, does no
// I/O and keeps no state beyond what a value carries.
//
// Invariants, relied on by both sides:
//
//	F1  The batches of a Chunk are whole, in log order, and follow the Next it
//	    was asked for: only the first may begin before Next. None is cut.
//	F2  A Stream delivers its Events in log order. After a Fault whose
//	    Temporary is false nothing follows but the close of the channel.
//	F3  Every Chunk is released exactly once by its receiver, also when it is
//	    dropped unread; its bytes count against the fetch budget until then.
//	F4  What is unknown is said to be unknown (Unknown, NoEpoch), never 0.
package feed
