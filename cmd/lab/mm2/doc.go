// Package mm2 runs MirrorMaker 2 of Apache Kafka in its dedicated mode, with one
// of the settings files that lie here, and reads its checkpoints.
//
// It judges klink beside MirrorMaker 2, so it shares nothing with klink's own
// reader and writer of these formats.
//
// Promises:
//
//	M1  Nothing is set that its settings file does not name; README.md says what
//	    was tried, and with which results.
//	M2  A checkpoint counts as MirrorMaker 2's own client reads it: the last one of
//	    each group, topic and partition.
package mm2
