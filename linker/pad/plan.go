package pad

import (
	"fmt"
	"strings"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// policyDelete is what a cleanup.policy with compaction becomes for the time of
// padding.
const policyDelete = "delete"

// compacts tells whether a cleanup.policy, a list, takes no records without a
// key. Without delete beside it nobody may delete records either; without any
// policy (from Kafka 4.2 on) both are allowed.
func compacts(policy string) bool {
	for _, p := range strings.Split(policy, ",") {
		if strings.TrimSpace(p) == "compact" {
			return true
		}
	}
	return false
}

// Seen is one look at the target and at the control topic.
type Seen struct {
	// Start, HighWatermark and End are the target's, by one leader.
	Start, HighWatermark, End int64
	// Policy is the topic's cleanup.policy.
	Policy   string
	Siblings Siblings
	// Doubt is how many pads at most were sent and are not in the log yet.
	Doubt int64
	Now   time.Time
}

// Siblings are the other partitions of the topic that have a goal on record.
type Siblings struct {
	// NeedPolicy: some of them need the changed policy still (Record.NeedsPolicy).
	NeedPolicy bool
	// RestorePolicy is the policy that those which are not done want put back, ""
	// where none does.
	RestorePolicy string
}

// Kind is what a Step is.
type Kind int8

// The kinds of steps.
const (
	// Finished: the goal is done.
	Finished Kind = iota
	// Put: Record is to be recorded.
	Put
	// SetPolicy: the topic's cleanup.policy is to become Policy.
	SetPolicy
	// Append: Piece is to be appended.
	Append
	// Trim: the log is to start at To.
	Trim
	// AwaitReplicas: the high watermark is below the log end, or the goal.
	AwaitReplicas
	// AwaitDoubt: the log end must stand still before more is sent (P2).
	AwaitDoubt
	// AwaitCheckpoints: nothing to do for For; records may be mirrored meanwhile.
	AwaitCheckpoints
	// Halt: Reason and Detail say why this cannot go on.
	Halt
)

var kindNames = [...]string{"finished", "put", "set-policy", "append", "trim", "await-replicas", "await-doubt", "await-checkpoints", "halt"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Piece is one batch of pads.
type Piece struct {
	// Base is the offset of the first one, and the log end that is expected.
	Base  int64
	Count int32
	// Timestamp is every pad's CreateTime in milliseconds.
	Timestamp int64
}

// Step is what is to be done now. Only the fields of its kind are set.
type Step struct {
	Kind   Kind
	Record Record
	Policy string
	Piece  Piece
	To     int64
	For    time.Duration
	Reason state.Reason
	Detail string
}

// Next says what is to be done towards a goal. A goal on record is held to; while
// padding goes on it is raised to one that lies higher. One that is Ready, or
// done, gives way to a goal beyond the log's end.
func Next(want Goal, rec Record, s Seen, set Settings) Step {
	set = set.orDefault()
	overtaken := rec.Ready() && want.Offset > max(rec.Goal, s.End)
	switch {
	case rec.Stage == StageNone && !rec.Done, overtaken:
		return begin(want, rec, s)
	case rec.Done:
		return Step{Kind: Finished}
	case rec.Ready() && s.End < rec.Goal:
		// The target lost the end of its log: an unclean election.
		rec.Stage, rec.TrimmedAt = StagePad, time.Time{}
		return Step{Kind: Put, Record: rec}
	}
	switch rec.Stage {
	case StagePad:
		if want.Offset > rec.Goal {
			rec.Goal = want.Offset
			return Step{Kind: Put, Record: rec}
		}
		return padding(rec, s, set)
	case StageSettle:
		return settle(rec, s, set)
	case StageTrim:
		return trimAgain(rec, s)
	case StageRestore:
		return restore(rec, s)
	default:
		return Step{Kind: Halt, Reason: state.ControlUnwritable, Detail: fmt.Sprintf("the pad goal on record has the unknown stage %q", rec.Stage)}
	}
}

// begin is the first step of a goal, its record (P1).
func begin(want Goal, old Record, s Seen) Step {
	switch {
	case s.End >= want.Offset && s.Start >= want.Offset:
		return Step{Kind: Finished}
	case want.Reason == ledger.Padded && s.End > s.Start:
		return Step{Kind: Halt, Reason: state.TargetNotEmpty,
			Detail: fmt.Sprintf("the target holds offsets %d to %d and was to start at %d", s.Start, s.End-1, want.Offset)}
	case s.End > want.Offset:
		return overshot(s, want.Offset)
	}
	rec := Record{From: s.End, Goal: want.Offset, Reason: want.Reason, Stage: StagePad}
	switch {
	case compacts(s.Policy):
		rec.RestorePolicy = s.Policy
	case !old.Done && old.RestorePolicy != "":
		rec.RestorePolicy = old.RestorePolicy
	default:
		rec.RestorePolicy = s.Siblings.RestorePolicy // it is set to delete for them
	}
	return Step{Kind: Put, Record: rec}
}

func padding(rec Record, s Seen, set Settings) Step {
	if compacts(s.Policy) {
		return changePolicy(rec, s)
	}
	// Whoever sent what is in doubt left room for it (P2).
	left := rec.Goal - s.End
	doubt := min(s.Doubt, left)
	switch {
	case s.End > rec.Goal:
		return overshot(s, rec.Goal)
	case s.End == rec.Goal && s.Start >= rec.Goal:
		rec.Stage, rec.TrimmedAt = StageSettle, s.Now
		return Step{Kind: Put, Record: rec}
	case s.End == rec.Goal:
		return trimTo(rec.Goal, s)
	case s.End-max(s.Start, rec.From) >= set.ChunkOffsets:
		return trimTo(s.End, s)
	case left == doubt:
		return Step{Kind: AwaitDoubt}
	default:
		return appendPiece(rec, s, left-doubt, set)
	}
}

// changePolicy makes the topic take pads and deletions (P1).
func changePolicy(rec Record, s Seen) Step {
	if rec.RestorePolicy == "" {
		rec.RestorePolicy = s.Policy
		return Step{Kind: Put, Record: rec}
	}
	return Step{Kind: SetPolicy, Policy: policyDelete}
}

// appendPiece stays within a chunk, and gives it a time of its own.
func appendPiece(rec Record, s Seen, most int64, set Settings) Step {
	chunk := max(0, s.End-rec.From) / set.ChunkOffsets
	room := rec.From + (chunk+1)*set.ChunkOffsets - s.End
	return Step{Kind: Append, Piece: Piece{Base: s.End, Count: int32(min(int64(set.PieceOffsets), most, room)), Timestamp: timestamp(chunk, set)}}
}

// latestTimestamp is the first millisecond of 2000: pads stay older than any
// record by far, so that the first record begins a segment.
const latestTimestamp = 946_684_800_000

// timestamp is the CreateTime of a chunk's pads. The first one is 1, since some
// readers take 0 and -1 for "none".
func timestamp(chunk int64, set Settings) int64 {
	step := set.SegmentTime.Milliseconds() + 1
	if chunk > latestTimestamp/step {
		return latestTimestamp
	}
	return 1 + chunk*step
}

func trimTo(to int64, s Seen) Step {
	if s.HighWatermark < to {
		return Step{Kind: AwaitReplicas}
	}
	return Step{Kind: Trim, To: to}
}

func settle(rec Record, s Seen, set Settings) Step {
	age := s.Now.Sub(rec.TrimmedAt)
	switch {
	case s.Start < rec.Goal:
		// Recorded ahead of the trim, from which the time counts anew (P5).
		rec.Stage, rec.TrimmedAt = StageTrim, time.Time{}
	case age < 0:
		// Another machine's clock is ahead: its time says nothing here.
		rec.TrimmedAt = s.Now
	case age < set.Checkpoints:
		return Step{Kind: AwaitCheckpoints, For: set.Checkpoints - age}
	case rec.RestorePolicy == "":
		rec.Done = true
	default:
		rec.Stage = StageRestore
	}
	return Step{Kind: Put, Record: rec}
}

func trimAgain(rec Record, s Seen) Step {
	switch {
	case s.Start >= rec.Goal:
		rec.Stage, rec.TrimmedAt = StageSettle, s.Now
		return Step{Kind: Put, Record: rec}
	case compacts(s.Policy):
		return changePolicy(rec, s)
	}
	return trimTo(rec.Goal, s)
}

// restore puts the policy back unless others need it, or somebody has set it
// meanwhile.
func restore(rec Record, s Seen) Step {
	if s.Policy == policyDelete && rec.RestorePolicy != "" && !s.Siblings.NeedPolicy {
		return Step{Kind: SetPolicy, Policy: rec.RestorePolicy}
	}
	rec.Done = true
	return Step{Kind: Put, Record: rec}
}

func overshot(s Seen, goal int64) Step {
	return Step{Kind: Halt, Reason: state.Overshot, Detail: fmt.Sprintf("the target's log ends at %d and was to be padded to %d", s.End, goal)}
}
