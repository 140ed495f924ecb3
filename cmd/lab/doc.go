// Package lab makes clusters to try things on, for the demo, the contrast
// command, the benches and the tests: embedded ones (kfake) and real ones (Kafka
// from Maven artifacts), with a fault proxy in front of each broker, a load
// generator, a group consumer and a verifier that reads both sides.
//
// It judges the mirror, so it shares nothing with it: no package of the source
// or the target side is imported, and the digest and the batch rules are written
// down here a second time.
//
// Promises:
//
//	L1  Whatever is started ends: by Close, and with the process that started it
//	    at the latest, also when that one is killed (see package process). Folders
//	    of killed processes are removed by the next lab on the machine.
//	L2  Two labs on one machine never share a port, a folder or a broker.
//	L3  A broker's client address is the same for as long as its cluster lives,
//	    through every stop, kill and restart.
//	L4  A start returns when the brokers answer and know each other, never after a
//	    fixed time.
//	L5  The verifier's verdict rests on records it has read itself, key by key and
//	    byte by byte; having read nothing is no success.
package lab
