// Package shapes writes logs as they lie on clusters that have lived: with
// transactions of all outcomes, with what the cleaner leaves, with a start beyond
// zero, with times of brokers, of the past and of the future, with batches of a
// hundred thousand records, and in the message formats before batches.
//
// Promises:
//
//	S1  A generator returns when raw Fetch shows that the shape is there, and
//	    fails when ctx ends before: a test never runs on a log that only was
//	    meant to look so.
//	S2  The same seed writes the same records in the same order per producer; only
//	    what brokers decide (producer ids, the order between producers, times they
//	    set) differs.
//	S3  Old formats are written by the encoder in this package, which shares
//	    nothing with a decoder that is judged by it.
//
// Generators make their topics and may run side by side on one cluster, except
// for those that take a *lab.Kafka: these stop its brokers. The cluster needs
// BrokerProps where a generator says so.
package shapes
