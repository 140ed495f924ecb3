// Package kafka makes franz-go clients from a link's configuration, one per
// role, and tells why a cluster cannot be reached.
//
// Invariants:
//
//	K1  Password, token, key, certificate and authorities are read from their
//	    places at each login and each handshake: renewing one needs no restart.
//	K2  A client's credentials belong to its link and side; nothing is shared
//	    between clients, not even with equal settings.
//	K3  No secret appears in an error, a log line or a printed value.
//	K4  Produce connections ask for acks=all and have no producer id of kgo's own;
//	    nothing creates topics as a side effect.
//	K5  A slow answer on one role's connection delays no other role: each has a
//	    client, and so connections, of its own.
//	K6  A connection for markers, or for commits of groups, ends with a reset,
//	    however it ends, also when klink is killed: what the broker has not taken up
//	    by then never is. One whose peer acknowledges nothing ends after unackedLimit
//	    (Linux only).
package kafka
