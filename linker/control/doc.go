// Package control keeps what klink must remember about its mirrors in one
// compacted topic on the target cluster, so that everything a disaster needs is
// there with the source gone and with klink's own machine gone: which link
// mirrors which topic, under which ids, the lineage of the source's leader
// epochs, which marker counters were given out, which partitions are being
// padded, what in them is not a copy, which process of a link started last, the
// last reported states, what operators want, where topics were cut, what was
// written to consumer groups, what audits found, and when workers last saw the
// sources.
//
// Records are JSON with structured keys, so any topic name is a key. A value
// carries the version of its kind. Fields may be added without raising it; it
// is raised only when an older klink would do wrong by not knowing what is new.
//
// The kinds, and what the key holds beside the link:
//
//	link        a link as applied, with its definition as YAML
//	link-state  its last reported state
//	worker      the process of it that started last
//	topic       [topic] ids, target, generation, the source's settings
//	epoch       [topic, source id, partition, epoch] where a source epoch begins
//	state       [topic, part] last reported state
//	counters    [topic, source id, partition, first, worker] a block of marker counters
//	pad         [topic, source id, partition] what is being padded
//	ledger      [topic, source id, partition] what is not a copy
//	command     [number, id, part] one order of an operator, or of a worker that
//	            takes a promotion back that nobody ended
//	ack         [topic, worker, number] a worker obeys a command and writes no more
//	cut         [topic, switch, part] where a promotion or failover cut the topic, and
//	            whether it has more to do
//	group       [group, part] what klink writes for a consumer group, ahead of it
//	adopt       [topic] up to where a target topic counts as this mirror's own
//	audit       [topic, source id, partition] what comparing it last showed
//	sight       [worker, part] when a worker last saw the sources to end where the
//	            recorded states say
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
//	C6  No marker counter is given out twice. A block is its owner's where, once
//	    the log was read past it and to its end, no other block that begins above
//	    it or came before it claims any of it.
//	C7  Of the commands of one number the first in the log counts, for good.
//	    Whoever writes one learns which it is by reading the log past its own
//	    record. No command is written twice under one key, since the cleaner would
//	    keep the later place; after an unknown outcome the log is looked at first,
//	    and a second writing has a key of its own. One that counts is taken off by
//	    DropLink only, one that lost by its writer.
//	C8  What is too large for one record is in parts of which each is below the
//	    limit. A reader takes a cut as a whole or not at all; of a group's parts it
//	    misses no offset that was on record before and is to be after.
//	C9  Where operators took a topic or a link off, no key of it is left.
//	C10 A sight never says more than its worker saw. It covers a partition only where
//	    the recorded state has that worker's name and gives the digest of what the
//	    worker saw, source topic and ends: what another worker wrote over it, what was
//	    recorded since, or another incarnation, is not covered. The time is that of the
//	    oldest sighting of all that a sight covers. An older klink knows no sights,
//	    and ignores them: there a partition is as of when its state last changed.
package control
