// Package readers runs consumers of other makers, for judging a log by what
// programs in the field see of it: Kafka's own Java client and librdkafka (by
// way of Python). Each is a small program that is installed once into the cache
// folder of package install and run as a process.
//
// Java and Librdkafka read ranges. Follow starts what an application is: the only
// member of a group, which goes on from the group's commits, commits, and can be
// killed at one cluster and started at another. Remote asks what an application
// asks that moves from one cluster of MirrorMaker 2 to another.
//
// Promises:
//
//	C1  A program reads exactly the ranges it is given, from their first offset
//	    until its client says that it stands at their end: never for a fixed time,
//	    and an offset that is not there is an error and no other range.
//	C2  A program puts every record into lab's canonical form by itself and gives
//	    the SHA-256 of that, so that all clients' results compare as they are.
//	C3  What is installed is complete or absent: it is made under another name and
//	    renamed, by one process at a time.
//	C4  A follower tells what it was given before it commits it, and its commits
//	    once they are acknowledged. It goes on from its group's commits alone: where
//	    they do not say where, it ends with ErrReset.
package readers
