// Package topics finds the topics that a link mirrors, decides what they look
// like on the target, and brings the target there.
//
// What is decided is decided by pure functions over values (Matcher, PlanAll,
// PlanConfigs, Corrections, CheckClusters); Discover and Target.Ensure ask and
// act. Everything comes back as values with reasons: one topic's trouble is
// never another's.
//
// Which names a pattern selects. A pattern is a name, a glob in which * stands
// for any run of characters, /a regular expression/ that must match the whole
// name, or =literal. Dots and dashes of names and globs mean themselves. The
// brokers' own topics and klink's control topics are never selected. Other names
// that look internal (beginning with "__", ending in ".internal" or "-internal")
// are selected by their exact name, or by a pattern that names them: one that
// itself begins with "__", or ends in "internal", as the name does. Those passed
// over are listed with the reason. In checkpoint mode a Policy names the topics on
// the target, and leaves out MirrorMaker 2's own topics, its heartbeats, and what
// came from the target, whatever selects them.
//
// Invariants:
//
//	T1  Nothing is written to the source, and no topic is created by asking
//	    for it: every Metadata request forbids auto creation.
//	T2  A topic is created with its final partition count and settings in one
//	    request: there is no moment at which the target's default retention or
//	    compression could touch mirrored records.
//	T3  The replication factor is never silently lower than asked for.
//	T4  Partitions are added on the target before any of them is mirrored, and
//	    never because of a guess: only up to the source's count.
//	T5  On an existing topic only the settings that mirroring forces are
//	    changed, incrementally; all others stay as the target's owner set them.
//	T6  What decides which records a cleaner removes (cleanup.policy and the
//	    settings beside it) follows the source when the source changes it after
//	    the mirror was begun, and is left alone while a partition is padded.
//	T7  The target's own retention is off while klink follows the source's log
//	    start; else it is the source's.
package topics
