package state

// State is what a link, topic or partition is doing.
type State string

// The states of partitions; a topic has the worst of its partitions'. A link is
// PENDING, ACTIVE, PAUSED or FAILED.
const (
	// Pending: known, not yet looked at, or waiting to be tried again.
	Pending State = "PENDING"
	// CatchingUp: mirrored, and behind.
	CatchingUp State = "CATCHING_UP"
	// Active: mirrored, and at the source's end.
	Active State = "ACTIVE"
	// SourceUnavailable: the source cannot be read for a remote reason.
	SourceUnavailable State = "SOURCE_UNAVAILABLE"
	// TargetUnavailable: the target cannot be written for a remote reason.
	TargetUnavailable State = "TARGET_UNAVAILABLE"
	// Padding: an empty target is brought up to the offset at which the source's
	// log starts.
	Padding State = "PADDING"
	// Halted: stopped for a named reason; nothing is written.
	Halted State = "HALTED"
	// Paused: a person wants nothing to be mirrored for now.
	Paused State = "PAUSED"
	// PendingStopped: nothing is written while a promotion makes sure that nothing
	// is left to mirror; it ends as STOPPED, or is taken back.
	PendingStopped State = "PENDING_STOPPED"
	// Stopped: promoted or failed over. The topic belongs to whoever writes to it
	// now, and is never mirrored again unless it is mirrored anew from the start.
	Stopped State = "STOPPED"
	// Removed: taken out of the link, with what was on record of it.
	Removed State = "REMOVED"
	// Failed: of a link, that one of its clusters cannot be used for the named
	// reason.
	Failed State = "FAILED"
)

// severities lists the states of partitions from good to bad. What people ordered
// is no trouble, and worse than what mirrors; what is in trouble is not to be
// hidden by it.
var severities = []State{Active, CatchingUp, Padding, Pending, Paused, PendingStopped, Stopped, Removed,
	SourceUnavailable, TargetUnavailable, Halted}

// Severity orders states from good (0) to bad; a topic shows its worst. It is -1
// for a state that no partition has.
func (s State) Severity() int {
	for i, t := range severities {
		if s == t {
			return i
		}
	}
	return -1
}

// Ordered reports whether the state is one that a person asked for and in which
// nothing is written.
func (s State) Ordered() bool {
	return s == Paused || s == PendingStopped || s == Stopped || s == Removed
}

// Reason is why a partition is halted, or why a cluster is unavailable.
type Reason string

// Reasons for Halted.
const (
	Diverged         Reason = "DIVERGED"
	ForeignWrite     Reason = "FOREIGN_WRITE"
	SourceRecreated  Reason = "SOURCE_RECREATED"
	SourceDeleted    Reason = "SOURCE_DELETED"
	TargetRecreated  Reason = "TARGET_RECREATED"
	ClusterChanged   Reason = "CLUSTER_CHANGED"
	RetentionOverrun Reason = "RETENTION_OVERRUN"
	TargetNotEmpty   Reason = "TARGET_NOT_EMPTY"
	NoPermission     Reason = "NO_PERMISSION"
	TooLarge         Reason = "TOO_LARGE"
	Corrupt          Reason = "CORRUPT"
	Unfillable       Reason = "UNFILLABLE"
	Overshot         Reason = "OVERSHOT"
	Fenced           Reason = "FENCED"
	NotAdopted       Reason = "NOT_ADOPTED"
	MapLost          Reason = "MAP_LOST"
	GoesRound        Reason = "GOES_ROUND"
)

// Acceptable are the reasons for a halt that an operator may accept; the others
// leave nothing to go on from.
var Acceptable = []Reason{Diverged, ForeignWrite, Overshot, RetentionOverrun}

// Reasons for SourceUnavailable, TargetUnavailable and Pending.
const (
	Unreachable       Reason = "UNREACHABLE"
	Authentication    Reason = "AUTHENTICATION"
	StorageError      Reason = "STORAGE_ERROR"
	DiskShort         Reason = "DISK_SHORT"
	NotEnoughReplicas Reason = "NOT_ENOUGH_REPLICAS"
	NoLeader          Reason = "NO_LEADER"
	TopicMissing      Reason = "TOPIC_MISSING"
	TooFewBrokers     Reason = "TOO_FEW_BROKERS"
	TopicRefused      Reason = "TOPIC_REFUSED"
	ControlUnwritable Reason = "CONTROL_UNWRITABLE"
	NotOwner          Reason = "NOT_OWNER"
	Superseded        Reason = "SUPERSEDED"
	SourceShort       Reason = "SOURCE_SHORT"
	FillUnknown       Reason = "FILL_UNKNOWN"
)

// About is the fixed text of a reason.
type About struct {
	// Explanation says what it means, in a sentence.
	Explanation string
	// Hint says what a person can do.
	Hint string
	// Remote reasons are retried by klink and end by themselves once the cause
	// is gone; the others are about data and need a person.
	Remote bool
}

var about = map[Reason]About{
	Diverged: {Explanation: "source and target hold different records at the same offsets, or the source's log ends below what was mirrored",
		Hint: "the source lost or replaced records that the target has; compare both logs, then klink repair --recreate mirrors the topic anew, and --accept goes on with what is there"},
	ForeignWrite: {Explanation: "something other than this link wrote to the target partition",
		Hint: "take away Write on mirror topics from everyone but klink's principal; the offsets from the named one on no longer match: klink repair --recreate mirrors the topic anew, and --accept goes on behind them"},
	SourceRecreated: {Explanation: "the source topic was deleted and created again; its new records would not follow the old ones",
		Hint: "the target keeps the old topic's records; klink repair --recreate deletes them and mirrors the new topic"},
	SourceDeleted: {Explanation: "the source topic does not exist any more",
		Hint: "the target keeps its records; klink remove takes the topic out of the link if this was meant"},
	TargetRecreated: {Explanation: "the target topic is not the one that was mirrored so far: it was deleted, and another one may have been made in its place",
		Hint: "find out who did that; once no topic of the name is left on the target, klink repair --recreate mirrors it anew, and so does a restart of klink"},
	ClusterChanged: {Explanation: "an address of this link leads to another cluster than before",
		Hint: "check the addresses and DNS; klink goes on when they lead to the old cluster again"},
	RetentionOverrun: {Explanation: "the source deleted records by its retention before they were mirrored",
		Hint: "the named range is lost to the mirror; klink repair --accept goes on behind it, --recreate mirrors anew what the source still has; raise the source's retention"},
	TargetNotEmpty: {Explanation: "the target partition holds records that are no prefix of the source's log",
		Hint: "have klink repair --recreate delete what is there; or, while no klink runs, take the topic off the record with klink remove, give it another name on the target (topics.rename), and have klink repair --recreate mirror it there"},
	NoPermission: {Explanation: "a right is missing",
		Hint: "grant the named right to klink's principal; klink goes on by itself", Remote: true},
	TooLarge: {Explanation: "a record batch is above the target topic's max.message.bytes",
		Hint: "raise max.message.bytes of the target topic to the named size; klink goes on by itself", Remote: true},
	Corrupt: {Explanation: "bytes read from the source do not hold together",
		Hint: "check the disks of the named source broker; dump the segment around the offset with kafka-dump-log"},
	Unfillable: {Explanation: "the source's log has offsets without a record that klink may not occupy on the target: gap_fill or pad_limit forbids it, or nothing invisible can be written there",
		Hint: "the partition is mirrored up to the named offset and stays there; allow markers (gap_fill: auto), raise pad_limit, or exclude the topic"},
	Overshot: {Explanation: "the target's log end is beyond what was written",
		Hint: "the offsets from the named one on no longer match; klink repair --recreate mirrors the topic anew, and --accept goes on behind them"},
	Fenced: {Explanation: "the target refuses this link's writes with a higher producer epoch: the mirror was taken over or ended",
		Hint: "find out who took the mirror over before starting it again"},
	NotAdopted: {Explanation: "the target holds what a klink wrote, and klink's control topic does not know of it: the topic __klink was lost, or made anew",
		Hint: "make sure that the mirror was not promoted or failed over, then run klink adopt for the topic; klink goes on once that is on record"},
	MapLost: {Explanation: "this link copied to the target before, in checkpoint mode, and where the copies lie is not on record any more: the topic __klink_map was lost, or made anew",
		Hint: "nothing is copied, since it could be copied twice; klink repair --recreate deletes the target topic and copies it anew, and until then the target keeps what it has"},
	GoesRound: {Explanation: "the source topic holds copies of records of this very target topic: another link mirrors it the other way, and records would go round for ever",
		Hint: "mirror in one direction only, or name topics by their source in both (checkpoint.replication_policy: default); where the other link has ended, klink repair --recreate deletes the target topic and copies anew what the source holds"},

	Unreachable:       {Explanation: "no broker answers", Hint: "check addresses, ports and firewalls; klink goes on by itself", Remote: true},
	Authentication:    {Explanation: "the cluster refused the login or the TLS handshake", Hint: "check mechanism, user name, the password or token file and the certificates; klink reads them again at each login", Remote: true},
	StorageError:      {Explanation: "the broker cannot use its disk", Hint: "check the broker's log folders and free space; klink goes on by itself", Remote: true},
	DiskShort:         {Explanation: "a disk of the target has less room than the padding may take at once", Hint: "make room on the named broker, or begin later (start), or exclude the topic; klink goes on by itself", Remote: true},
	NotEnoughReplicas: {Explanation: "fewer replicas are in sync than min.insync.replicas asks for", Hint: "bring the target's missing brokers back; klink goes on by itself", Remote: true},
	NoLeader:          {Explanation: "the partition has no leader", Hint: "bring the missing brokers back; klink goes on by itself", Remote: true},
	TopicMissing:      {Explanation: "the topic is not there yet", Hint: "klink waits for it", Remote: true},
	TooFewBrokers:     {Explanation: "the target has fewer brokers than the replication factor asks for", Hint: "start the missing brokers or set topics.replication_factor; klink goes on by itself", Remote: true},
	TopicRefused:      {Explanation: "the target topic cannot be made or used as it is", Hint: "see the detail; klink tries again", Remote: true},
	SourceShort:       {Explanation: "the source's log ends within what an operator accepted on the target", Hint: "mirroring goes on once the source has passed the named offset; what it writes up to there is not on the target", Remote: true},
	Superseded:        {Explanation: "another klink of this link started later, and the link's group may not be joined; while records are so old that the target forgets producers, only the one that started last appends", Hint: "stop one of the two; this one takes over when the other makes no progress for half a minute", Remote: true},
	FillUnknown:       {Explanation: "a request that fills a gap with markers was not answered clearly, and it is not settled yet how many of them were written", Hint: "klink waits until the target's leader answers and its log end has stood still, half a minute by default, and goes on by itself", Remote: true},
	NotOwner: {Explanation: "what comes next is for the member of the link's group alone that holds the partition: a gap to be filled, or records so old that the target forgets producers",
		Hint: "klink joins the group within some seconds; if another klink of this link holds the partition, that one goes on", Remote: true},
	ControlUnwritable: {Explanation: "klink's control topic on the target cannot be read or written", Hint: "check the rights on __klink and the target's health; klink goes on by itself", Remote: true},
}

// About returns the fixed text of r; for a name that is not in the table it
// says so instead of failing.
func (r Reason) About() About {
	if a, ok := about[r]; ok {
		return a
	}
	return About{Explanation: "unknown reason " + string(r), Hint: "report this as a fault of klink"}
}

// SourceGone reports whether the source topic that was mirrored is not there any more:
// nothing is known then of how far its mirror is behind.
func (r Reason) SourceGone() bool { return r == SourceDeleted || r == SourceRecreated }

// Remote reports whether klink retries by itself (S2).
func (r Reason) Remote() bool { return r.About().Remote }
