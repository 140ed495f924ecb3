// Package describe tells all that is known of a link: what status shows, the
// ids, lineage, settings and pad goals on record, how many marker counters are
// used, what operators ordered and what came of it, and the ledger: what on the
// target is not a record-for-record copy, and why. It needs the target alone, and
// writes nothing.
//
// Describe is pure: from a report and the records of the control topic to a
// Result. Scan adds what the target's log shows beyond the recorded index of the
// ledger.
//
// Invariants:
//
//	D1  What is not known is nil, and null in JSON; never 0 and never "none".
//	D2  UpTo of a ledger is the end of what is known without a hole: totals are
//	    exact below it. What is listed above it is true, and may be incomplete.
//	D3  Only markers of the link's own producer are taken for fills. One whose
//	    reason the target's cleaner removed is counted and given none.
//	D4  A topic on record is described also where the report lacks it: the
//	    ledger of what is mirrored no more is still an answer.
package describe
