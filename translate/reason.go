package translate

// Reason is why there is no answer; "" where there is one.
type Reason string

// The reasons.
const (
	// NoGroup: nobody knows an offset of the group.
	NoGroup Reason = "NO_GROUP"
	// NotMirrored: the topic has no copy.
	NotMirrored Reason = "NOT_MIRRORED"
	// NothingCopied: the partition has a copy, which holds no record yet.
	NothingCopied Reason = "NOTHING_COPIED"
	// Unmapped: the offset lies among the copies that another mirror made, and where
	// these lie is not known; see exact.Map's Adopt.
	Unmapped Reason = "UNMAPPED"
	// NoCheckpoint: MirrorMaker 2 wrote no checkpoint of the group here, and there are
	// no offset syncs to do without.
	NoCheckpoint Reason = "NO_CHECKPOINT"
	// NoSync: there are offset syncs, but none of this partition, and no checkpoint.
	NoSync Reason = "NO_SYNC"
	// BeforeSyncs: all offset syncs are of later records than the group's offset.
	BeforeSyncs Reason = "BEFORE_SYNCS"
	// Rewound: the group went back after its checkpoint was written.
	Rewound Reason = "REWOUND"
	// BeyondEnd: what is on record lies beyond the log's end.
	BeyondEnd Reason = "BEYOND_END"
	// Incomplete: what there is was not read to its end in time.
	Incomplete Reason = "INCOMPLETE"
	// LogUnknown: the leader of the partition did not tell where its log ends.
	LogUnknown Reason = "LOG_UNKNOWN"
	// MapUnreadable: where the copies lie cannot be told from klink's record and the
	// log.
	MapUnreadable Reason = "MAP_UNREADABLE"
)

// About says what a reason means and what to do.
type About struct{ Explanation, Hint string }

var about = map[Reason]About{
	NoGroup: {"no offset of the group is known: it has none, or its cluster and the records here do not tell",
		"check the name, and that the group's own cluster can be reached and Describe on the group is granted"},
	NotMirrored:   {"the topic has no copy on the other cluster", "see klink plan for why, or the source connector's topics"},
	NothingCopied: {"no record of this partition is copied yet", "let the mirror run; klink status shows how far it is"},
	Unmapped: {"the offset lies below what was compared when another mirror's copies were taken over, and where those lie is not known",
		"it has an answer once the group has read up to there; or let the group start from a time"},
	NoCheckpoint: {"MirrorMaker 2 wrote no checkpoint for this group and partition, and its offset syncs cannot be read",
		"check the checkpoint connector's groups and topics; give --source too, where its offset syncs are by default"},
	NoSync:      {"MirrorMaker 2's offset syncs hold none of this partition, and there is no checkpoint", "check that the topic is mirrored, and emit.offset-syncs.enabled"},
	BeforeSyncs: {"the group stands before all records whose place on the target is known", "let the group start from the partition's beginning on the target, or from a time"},
	Rewound:     {"the group went back on the source after its last checkpoint, which lies ahead of it now", "wait for the next checkpoint, or give --source too, where the offset syncs are by default"},
	BeyondEnd:   {"the offset on record lies beyond the end of the target's log: the topic was truncated or made anew there", "let the group start from a time, or from the partition's beginning"},
	Incomplete:  {"not everything was read in time, and an answer from a part could be wrong", "raise --timeout"},
	LogUnknown:  {"the partition's leader did not tell where its log ends", "ask again once it answers"},
	MapUnreadable: {"the record of where copies lie does not fit the log",
		"see klink status for the partition's state"},
}

// About returns the fixed text of a reason.
func (r Reason) About() About { return about[r] }
