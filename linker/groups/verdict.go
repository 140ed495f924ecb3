package groups

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/intent"
	"klink/linker/remote"
	"klink/linker/state"
)

// Verdict is what became of one committed offset.
type Verdict string

// The verdicts. Only Synced means that the target has the source's offset.
const (
	Synced Verdict = ""
	// Pending: not looked at yet.
	Pending Verdict = "PENDING"
	// Unmapped: of a partition whose copies have other offsets it is not known where
	// they lie, or nothing was copied yet.
	Unmapped Verdict = "UNMAPPED"
	// Clamped: the mirror has not reached the offset yet; what it has is
	// committed.
	Clamped Verdict = "CLAMPED"
	// BelowStart: committed, but the target does not retain the record.
	BelowStart Verdict = "BELOW_START"
	// TargetOwned: the target has an offset that klink did not write.
	TargetOwned Verdict = "TARGET_OWNED"
	// GroupActive: the group has members on the target.
	GroupActive Verdict = "GROUP_ACTIVE"
	// GroupUnknown: the target did not tell whether it has members, or which
	// offsets.
	GroupUnknown Verdict = "GROUP_UNKNOWN"
	// GroupType: the target has a group of this name that cannot hold a consumer's
	// offsets.
	GroupType Verdict = "GROUP_TYPE"
	// NotCarried: a share or streams group of the source.
	NotCarried Verdict = "NOT_CARRIED"
	// TargetUnknown: the target partition is not there, or did not answer.
	TargetUnknown Verdict = "TARGET_UNKNOWN"
	// NotAligned: the target's log does not hold the source's records at their
	// offsets, or not for sure, by the partition's state.
	NotAligned Verdict = "NOT_ALIGNED"
	// SourceDeleted: the source has the commit no more.
	SourceDeleted Verdict = "SOURCE_DELETED"
	// NoPermission: a right is missing on either side.
	NoPermission Verdict = "NO_PERMISSION"
	// Failed: the commit, or asking for the source's offset, failed.
	Failed Verdict = "FAILED"
	// MetadataDropped: committed without the consumer's metadata, which is
	// larger than the target's offset.metadata.max.bytes.
	MetadataDropped Verdict = "METADATA_DROPPED"
	// ControlUnwritable: the write cannot be put on record.
	ControlUnwritable Verdict = "CONTROL_UNWRITABLE"
	// FilterUnmatched: no group of the source matches this pattern of
	// groups.include.
	FilterUnmatched Verdict = "FILTER_UNMATCHED"
)

// Verdicts of topics that are not to be mirrored now.
const (
	TopicPaused  Verdict = "PAUSED"
	TopicPending Verdict = "PENDING_STOPPED"
	TopicStopped Verdict = "STOPPED"
	TopicRemoved Verdict = "REMOVED"
)

// wanted is the verdict that an intent means for the offsets of its topic.
func wanted(w intent.Want) Verdict {
	switch w {
	case intent.Mirror:
		return Synced
	case intent.Paused:
		return TopicPaused
	case intent.PendingStop:
		return TopicPending
	case intent.Removed:
		return TopicRemoved
	default: // what this klink does not know is not written to
		return TopicStopped
	}
}

// passes tells whether a verdict ends by itself, so that it is tried again soon
// and a last round waits for it.
func (v Verdict) passes() bool {
	switch v {
	case Pending, Unmapped, GroupUnknown, TargetUnknown, Failed, ControlUnwritable, Clamped:
		return true
	default:
		return false
	}
}

// verdictOf classifies what stood in the way of a commit or a question.
func verdictOf(err error) Verdict {
	switch {
	case err == nil:
		return Synced
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.RebalanceInProgress),
		errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.NonEmptyGroup):
		return GroupActive // joined since it was listed
	case errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.InconsistentGroupProtocol):
		return GroupType // a commit makes a group that is not there: this one is a share group
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return TargetUnknown
	case remote.ReasonOf(err) == state.NoPermission:
		return NoPermission
	default:
		return Failed
	}
}
