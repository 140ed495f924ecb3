package reverse

import (
	"fmt"
	"slices"

	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// Verdict is what can be done with a topic, or one partition of it.
type Verdict string

// The verdicts, from good to bad: a topic has the worst of its partitions'.
const (
	// InPlace: the new link goes on at the old source's log end; nothing is copied
	// again.
	InPlace Verdict = "IN_PLACE"
	// FromStart: the old source has no such topic any more, so all of it is copied.
	FromStart Verdict = "FROM_START"
	// Begun: the new link has begun with it, and the old one has yet to name it: an
	// earlier run ended in between.
	Begun Verdict = "BEGUN"
	// Reversed: the new link has it already.
	Reversed Verdict = "REVERSED"

	// OffsetsTaken: nothing is lost, but the old source's log has offsets at its end,
	// without a record, where the promoted side has records or nothing yet.
	OffsetsTaken Verdict = "OFFSETS_TAKEN"
	// RetentionOverrun: the promoted side has deleted records that the old source
	// would need next.
	RetentionOverrun Verdict = "RETENTION_OVERRUN"
	// AcceptedRange: the old link's ledger has a range, retained still, in which the
	// promoted side is no copy that consumers could not tell from the old source.
	AcceptedRange Verdict = "ACCEPTED_RANGE"
	// Differs: both hold something else below the cut.
	Differs Verdict = "DIFFERS"
	// MorePartitions: the old source's topic has more partitions than the promoted
	// side's, so consumers would not find keys where they look for them.
	MorePartitions Verdict = "MORE_PARTITIONS"
	// SourceRecreated: the old source's topic is not the one that was mirrored.
	SourceRecreated Verdict = "SOURCE_RECREATED"
	// HasTail: the old source holds records that the promoted side never got.
	HasTail Verdict = "HAS_TAIL"

	// Undecided: a transaction is open, so that nobody knows what its records are.
	Undecided Verdict = "UNDECIDED"
	// StillWritten: the old source's log grew meanwhile.
	StillWritten Verdict = "STILL_WRITTEN"
	// Owned: the topic on the old source is another link's target.
	Owned Verdict = "OWNED"
	// NameTaken: the new link's name is another link's at the new target, or that
	// link still works on the topic.
	NameTaken Verdict = "NAME_TAKEN"
	// NoPermission: markers have to be written on the old source, and may not be.
	NoPermission Verdict = "NO_PERMISSION"
	// TargetRecreated: the promoted side's topic is not the one that was mirrored.
	TargetRecreated Verdict = "TARGET_RECREATED"
	// NotStopped: the topic was neither promoted nor failed over.
	NotStopped Verdict = "NOT_STOPPED"
	// OffsetsDrift: the topic is in checkpoint mode, so that nothing on its target has
	// the offset it had on the source.
	OffsetsDrift Verdict = "OFFSETS_DRIFT"
	// UnknownTopic: the old link has no such topic on record.
	UnknownTopic Verdict = "UNKNOWN_TOPIC"
	// Unreadable: a cluster did not tell what is needed.
	Unreadable Verdict = "UNREADABLE"
)

type about struct {
	verdict Verdict
	// ok: nothing stands in the way. recreate: it does, unless the request lets the
	// topic be mirrored anew.
	ok, recreate bool
	// loses: going on would lose records, or could.
	loses bool
	hint  string
}

const recreateHint = "--recreate deletes the old source's topic and mirrors it anew with its offsets; what only the old source holds is lost then, so export it before"

// verdicts is in the order of the constants.
var verdicts = []about{
	{verdict: InPlace, ok: true},
	{verdict: FromStart, ok: true},
	{verdict: Begun, ok: true},
	{verdict: Reversed, ok: true},
	{OffsetsTaken, false, true, true, "no record is lost by it: --recreate deletes the old source's topic and mirrors it anew with its offsets"},
	{RetentionOverrun, false, true, true, "--recreate deletes the old source's topic and mirrors what the promoted side still has, with its offsets; the old source's older records are lost then"},
	{AcceptedRange, false, true, true, recreateHint},
	{Differs, false, true, true, recreateHint},
	{MorePartitions, false, true, true, recreateHint},
	{SourceRecreated, false, true, true, recreateHint},
	{HasTail, false, true, true, recreateHint},
	{Undecided, false, false, true, "wait until the transaction ends (transaction.timeout.ms of its producer at the longest), or abort it with kafka-transactions.sh, and ask again"},
	{StillWritten, false, false, true, "stop the producers on the old source, and ask again"},
	{verdict: Owned, hint: "give the new link that link's name (--name), or take that link out with klink remove"},
	{verdict: NameTaken, hint: "choose another name (--name), or that of the link by which it is mirrored the other way already"},
	{verdict: NoPermission, hint: "grant klink's principal Alter (or ClusterAction) on the old source's cluster, and ask again"},
	{verdict: TargetRecreated, hint: "find out who deleted the promoted topic; what stands there now is not what was promoted"},
	{verdict: NotStopped, hint: "klink promote or klink failover comes first"},
	{verdict: OffsetsDrift, hint: "name the other topics; mirror this one back with a link of its own in checkpoint mode, and klink translate --reverse tells where groups go on"},
	{verdict: UnknownTopic, hint: "klink status names the topics of the link"},
	{verdict: Unreadable, hint: "ask again when the cluster answers"},
}

func (v Verdict) about() about {
	if i := v.rank(); i >= 0 {
		return verdicts[i]
	}
	return about{verdict: v}
}

func (v Verdict) rank() int {
	return slices.IndexFunc(verdicts, func(a about) bool { return a.verdict == v })
}

// worse returns the worse of two verdicts.
func (v Verdict) worse(o Verdict) Verdict {
	if o.rank() > v.rank() {
		return o
	}
	return v
}

// Cut is what is on record of the moment at which the old link stopped.
type Cut struct {
	// End is where the promoted side's log ended, feed.Unknown where that is not on
	// record: then the logs are compared from their starts, and nothing counts as
	// mirrored but what is equal.
	End int64
	// Fence is the offset of the first fence marker, feed.Unknown without one.
	Fence int64
}

// noCut stands for a partition that came after the cut.
func noCut() Cut { return Cut{End: feed.Unknown, Fence: feed.Unknown} }

// Ends are those of one log; Start and End of the log itself, Stable for
// read_committed consumers.
type Ends struct{ Start, Stable, End int64 }

// mirrored is the end of what the promoted side had from the old source and has
// still: an unclean election may have taken some.
func mirrored(c Cut, promoted Ends) int64 {
	end := c.End
	if c.Fence != feed.Unknown && (end == feed.Unknown || c.Fence < end) {
		end = c.Fence
	}
	return max(0, min(end, promoted.End))
}

// Facts are all that the verdict on a partition follows from.
type Facts struct {
	Cut Cut
	// Old are the old source's ends, read first, and Again the same read last.
	Old, Again Ends
	// New are the promoted side's.
	New Ends
	// Compacted: a cleaner may have run on either log.
	Compacted bool
	// Windows are the old link's ledger of the partition. VisibleFills says that
	// what compaction removed is covered by records there.
	Windows      []ledger.Window
	VisibleFills bool
	Found        Comparison
}

// Decide gives the verdict and the numbers of the case.
func Decide(f Facts) (Verdict, string) {
	switch {
	case f.Again.End != f.Old.End:
		return StillWritten, fmt.Sprintf("the old source's log end moved from %d to %d meanwhile", f.Old.End, f.Again.End)
	case f.Old.Stable < f.Old.End:
		return Undecided, fmt.Sprintf("offsets %d to %d of the old source belong to open transactions, or wait for its replicas", f.Old.Stable, f.Old.End-1)
	case f.New.End >= f.Old.End && f.New.Stable < f.Old.End:
		return Undecided, fmt.Sprintf("offsets %d to %d of the promoted side belong to open transactions, or wait for its replicas", f.New.Stable, f.Old.End-1)
	case f.Found.Tail.Count > 0:
		return HasTail, f.Found.Tail.String()
	case f.Found.Differs != nil:
		return Differs, f.Found.Differs.String()
	case f.New.Start > f.Old.End && f.Old.End > 0: // an empty log is padded
		return RetentionOverrun, fmt.Sprintf("the promoted side's log begins at %d, beyond the old source's end %d", f.New.Start, f.Old.End)
	}
	if w, r, ok := visible(f.Windows, max(f.Old.Start, f.New.Start), f.VisibleFills); ok {
		return AcceptedRange, fmt.Sprintf("offsets %d to %d of the promoted side are no copy: %s", w.From, w.End-1, r)
	}
	switch {
	case f.Found.Taken.Count > 0:
		return OffsetsTaken, fmt.Sprintf("the old source's log has no record at offset %d, beyond the cut, where the promoted side has one (%d such offsets up to its end %d)",
			f.Found.Taken.From, f.Found.Taken.Count, f.Old.End)
	case f.Old.End > f.New.End:
		return OffsetsTaken, fmt.Sprintf("the old source's log ends at %d, without a record from %d on, and the promoted side's at %d", f.Old.End, f.New.End, f.New.End)
	case f.Old.End < mirrored(f.Cut, f.New):
		return InPlace, fmt.Sprintf("the old source lost its offsets %d to %d; the promoted side has them", f.Old.End, mirrored(f.Cut, f.New)-1)
	}
	return InPlace, ""
}

// visible finds the first window above a log start that consumers can tell from
// the old source's log. Pads and lost ranges count where they are retained, and so
// does every reason that this code does not know.
func visible(ws []ledger.Window, start int64, fills bool) (ledger.Window, ledger.Reason, bool) {
	for _, w := range ws {
		if w.End <= start {
			continue
		}
		for _, c := range w.Counts {
			switch c.Reason {
			case ledger.None, ledger.Marker, ledger.Aborted, ledger.Recoded, ledger.Split:
			case ledger.Compacted:
				if fills {
					return w, c.Reason, true
				}
			default:
				return w, c.Reason, true
			}
		}
	}
	return ledger.Window{}, ledger.None, false
}
