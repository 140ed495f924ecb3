// Package fetcher is the source side: it reads partitions of one Kafka cluster
// raw, broker by broker, and hands their batches on as they are stored. It
// knows no policy: what to do about a gap, a fault or a fence is the linker's.
// It never writes, never creates a topic, and joins no group.
//
// Fetcher reads streams that stay open; LogReader answers single questions about
// the logs of either cluster, and brings those that come at the same time to a
// broker in few requests (package gather); Budget bounds the memory of both.
//
// # Promises
//
// F1 to F4 of package feed, and:
//
//	R1  A stream's position moves by whole batches only. What is delivered after
//	    a chunk begins where that chunk ended; an empty answer moves nothing and
//	    is never a hole.
//	R2  An answer counts for a reading only while that is still a member of the
//	    lane that asked, at the offset that was asked. Closing, reopening, a new
//	    leader epoch and a recall all end membership, so a late answer cannot
//	    move what came after it (C062).
//	R3  Leaders alone are read (no rack is named), read_committed, under a named
//	    leader epoch where the cluster has one. Batches of a newer epoch than
//	    that, and answers of a leader that has been replaced meanwhile, are
//	    dropped and read again (C074, C075).
//	R4  What would end a stream for the sake of its data is looked at a second
//	    time (look.go), and believed at once only where two requests agree:
//	    Overrun, Diverged by DivergingEpoch. An end below the position, a
//	    missing topic and another topic id must be seen twice, a second apart.
//	R5  No receiver, partition or broker delays another, but for the memory they
//	    share (B2, B3). Nothing in a broker's loop waits for a receiver.
//	B1  Reserved and held bytes stay within the budget. The one exception is a
//	    first batch that is larger than any seen before and than 1 MiB: Kafka
//	    returns it whole, and the budget is exceeded by it until it is released.
//	B2  While somebody waits for memory, a stream gets no second chunk before its
//	    first is released, and chunks that lie unreceived for 250 ms are dropped;
//	    that stream is read again once its receiver takes an event. Chunks that a
//	    receiver holds are its own: it should release them unread when it cannot
//	    use them and Budget.Contended says so.
//	B3  Small chunks that outlive the rest of their answer pin at most half of
//	    the budget beyond their own bytes (see Fetcher.bundle).
//
// A chunk's batches are slices of the answer's buffer or of a copy; while an
// answer is copied out both exist for the moment that takes.
//
// # Two lanes
//
// All readable partitions of a broker go into one Fetch, which the broker holds
// for up to MaxWait while there is nothing to return. A partition whose receiver
// is behind is left out, and would wait for the end of that poll once it is free
// again, as would one that was opened just now. So each broker has two lanes, on
// connections of their own since a broker works on one request per connection at
// a time:
//
//   - the long lane takes everything readable and lets the broker wait;
//   - the short lane takes what becomes readable meanwhile and lets the broker
//     wait for 2 to 10 ms only, so nothing ever waits longer than that.
//
// When the long poll returns, it takes over the members of the short lane that
// turned out to be idle. So with all quiet there is one request per broker and
// MaxWait, whatever receivers are stuck; under load both lanes are full
// requests, each reading on while the other's answer is handed out.
//
// A request whose receivers all have a chunk in hand, and that has room for more,
// waits up to 5 ms for more partitions to share it, and up to 20 ms while all have
// two; a receiver without a chunk ends that wait at once.
//
// What a lane reads in a second is what one request brings, once per round trip.
// So where answers take long although data is there, requests for a backlog ask
// for half the budget in place of a quarter (trips.go).
//
// A partition is in at most one lane. From some hundred members on a lane uses a
// fetch session (KIP-227, session.go).
//
// # Goroutines and locks
//
// Two goroutines per broker, a manager that places partitions at their leaders,
// and one per stream only while it has events that were not received yet: ten
// thousand idle streams cost no goroutine. Run ends all of them.
//
// Fetcher.mu guards all state of readings, brokers and lanes. Under it the
// mutexes of leaders.Map and Budget may be taken, never the other way round. No
// request, no send and no Chunk.Release happens under it.
package fetcher
