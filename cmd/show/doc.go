// Package show prepares results for people and for scripts: the JSON envelope
// that every command and the HTTP service share, and the folding of a report's
// partitions into rows. Pure; it writes where it is told and nowhere else.
//
// Invariants:
//
//	J1  The JSON of a result begins with _command and _version, lists are arrays
//	    (never null), and what is unknown is null (never 0).
//	J2  A sum over partitions is unknown as soon as one of them is.
package show
