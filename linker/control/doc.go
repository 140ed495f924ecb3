// Package control keeps what klink must remember about its mirrors in one
// compacted topic on the target cluster, so that everything a disaster needs is
// there with the source gone and with klink's own machine gone: which link
// mirrors which topic, under which ids, the lineage of the source's leader
// epochs, which marker counters were given out, which partitions are being
// padded, what in them is not a copy, which process of a link started last, and
// the last reported states.
//
// Records are JSON with structured keys, so any topic name is a key. A value
// carries the version of its kind. Fields may be added without raising it; it
// is raised only when an older klink would do wrong by not knowing what is new.
//
// The package never writes to the source cluster, never creates the topic again
// once it was opened, and stores no secrets.
//
// Invariants:
//
//	C1  A Put that returns nil is acknowledged by all in-sync replicas, and
//	    what it wrote is seen by every later read of the same Store.
//	C2  A Put that returns an error may still have been written. That is safe:
//	    each record states a whole fact under its own key (no deltas), so
//	    writing it again changes nothing.
//	C3  Of one key the last record in the log wins. Only the ownership of a
//	    target topic is decided the other way round: the first in the log wins.
//	    A rewritten topic record carries the offset of its first writing, so
//	    that compaction, which keeps the newest record, does not reorder owners.
//	C4  A record of a newer version stops the Store: what one does not
//	    understand one must not act against. An unknown kind of a known version
//	    is kept and ignored; a malformed record is counted and ignored.
//	C5  The topic's id is pinned when it is opened. A topic that was deleted or
//	    made anew is never written to again by the same Store.
package control
