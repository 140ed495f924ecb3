// Package leaders keeps one cluster's view of topic ids, partition leaders and
// leader epochs, learned from Metadata answers and from the hints that brokers
// put into error answers (CurrentLeader: Fetch v12+, Produce v10+, KIP-951).
// kgo knows leaders only of topics it produces or consumes itself, and klink
// does neither, so both the source side and the target side use this map.
//
// It is a leaf: it imports nothing of klink. It never creates a topic: every
// Metadata request forbids auto creation.
//
// Invariants:
//
//	L1  A leader is replaced only by one of an equal or higher leader epoch, so
//	    that a stale broker's answer or an old hint cannot take a partition
//	    back. A change of topic id resets all epochs of that topic.
//	L2  Refreshes asked for while one waits share its request. A request is
//	    sent MinInterval after the end of the one before, or earlier only where
//	    that one stays without an answer for two seconds.
package leaders
