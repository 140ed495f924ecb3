// Package gather brings questions that many ask at the same time to a place that
// answers many at once: ten thousand partitions that start together ask a broker
// for their log ends in some ten requests, not in ten thousand.
//
// It is a leaf: it imports nothing of klink, and knows nothing of Kafka.
//
// Invariants:
//
//	Q1  An answer is to a request that was sent after the question was put.
//	Q2  A question that comes while nothing is on the way is sent at once; one that
//	    comes meanwhile goes with all others as soon as the request before is
//	    answered, or has stayed without an answer for two seconds.
//	Q3  A request has at most the given number of questions, each once.
package gather
