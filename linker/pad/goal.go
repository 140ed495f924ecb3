package pad

import (
	"time"

	"klink/linker/ledger"
)

// Goal is where a target partition's log is to start.
type Goal struct {
	// Offset is the first offset that is to be there: the log is padded up to it
	// and trimmed to it.
	Offset int64
	// Reason is ledger.Padded for the start of a mirror, whose log must be empty,
	// or ledger.Retention for a source whose start has overtaken the mirror: then
	// what was mirrored is deleted along with the pads.
	Reason ledger.Reason
}

// Stage is how far a goal is.
type Stage string

// The stages, in their order.
const (
	// StageNone: nothing is on record.
	StageNone Stage = ""
	// StagePad: pads are appended and trimmed.
	StagePad Stage = "pad"
	// StageSettle: the log starts at the goal; a broker may yet take that back.
	StageSettle Stage = "settle"
	// StageTrim: a broker took it back, and records may have followed.
	StageTrim Stage = "trim"
	// StageRestore: the partition needs the changed policy no more.
	StageRestore Stage = "restore"
)

// Record is what is kept of a goal. The zero value: nothing is on record.
type Record struct {
	// From is where the log ended when padding began: [From, Goal) are pads.
	From, Goal int64
	Reason     ledger.Reason
	Stage      Stage
	// RestorePolicy is the cleanup.policy to put back, "" where it is not changed.
	RestorePolicy string
	// TrimmedAt is when the log start was last moved to the goal, zero before.
	TrimmedAt time.Time
	// Done: there is nothing left to do.
	Done bool
}

// Ready tells whether records may be mirrored: the log was brought to the goal.
func (r Record) Ready() bool {
	return r.Stage == StageSettle || r.Stage == StageTrim || r.Stage == StageRestore || r.Done
}

// NeedsPolicy tells whether the topic's policy must still let records be deleted
// for this goal.
func (r Record) NeedsPolicy() bool {
	return !r.Done && (r.Stage == StagePad || r.Stage == StageSettle || r.Stage == StageTrim)
}

// Recheck tells, from a log start that was just read, whether a goal that was
// Ready and is not Done has to be run again at once, since a broker has taken the
// trim back. It is to be asked after each reconnect and leader change.
func Recheck(start, goal int64) bool { return start < goal }
