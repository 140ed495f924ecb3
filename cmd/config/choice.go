package config

import "time"

// A choice is a string of which only some values are allowed.
type choice interface{ choices() []string }

// Mode is how a link mirrors.
type Mode string

// The modes.
const (
	ModeMirror     Mode = "mirror"
	ModeCheckpoint Mode = "checkpoint"
)

func (Mode) choices() []string { return []string{string(ModeMirror), string(ModeCheckpoint)} }

// Mechanism is a SASL mechanism; "" is none.
type Mechanism string

// The mechanisms.
const (
	MechanismNone        Mechanism = ""
	MechanismPlain       Mechanism = "PLAIN"
	MechanismScramSHA256 Mechanism = "SCRAM-SHA-256"
	MechanismScramSHA512 Mechanism = "SCRAM-SHA-512"
	MechanismOAuthBearer Mechanism = "OAUTHBEARER"
)

func (Mechanism) choices() []string {
	return []string{string(MechanismNone), string(MechanismPlain), string(MechanismScramSHA256),
		string(MechanismScramSHA512), string(MechanismOAuthBearer)}
}

// Tail says whether commits are followed as they happen.
type Tail string

// The ways of Tail.
const (
	TailAuto Tail = "auto"
	TailOff  Tail = "off"
)

func (Tail) choices() []string { return []string{string(TailAuto), string(TailOff)} }

// GapFill says how source offsets without a visible record are occupied.
type GapFill string

// The ways to fill gaps.
const (
	GapFillAuto    GapFill = "auto"
	GapFillMarkers GapFill = "markers"
	GapFillRecords GapFill = "records"
	GapFillHalt    GapFill = "halt"
)

func (GapFill) choices() []string {
	return []string{string(GapFillAuto), string(GapFillMarkers), string(GapFillRecords), string(GapFillHalt)}
}

// OnUnmirrorable says what happens to a topic that cannot keep its offsets.
type OnUnmirrorable string

// The ways of OnUnmirrorable.
const (
	UnmirrorableHalt       OnUnmirrorable = "halt"
	UnmirrorableCheckpoint OnUnmirrorable = "checkpoint"
	UnmirrorableSkip       OnUnmirrorable = "skip"
)

func (OnUnmirrorable) choices() []string {
	return []string{string(UnmirrorableHalt), string(UnmirrorableCheckpoint), string(UnmirrorableSkip)}
}

// OnRetentionOverrun says what happens when the source deleted what was not
// mirrored yet.
type OnRetentionOverrun string

// The ways of OnRetentionOverrun.
const (
	OverrunHalt OnRetentionOverrun = "halt"
	OverrunPad  OnRetentionOverrun = "pad"
)

func (OnRetentionOverrun) choices() []string {
	return []string{string(OverrunHalt), string(OverrunPad)}
}

// ReplicationPolicy names remote topics in checkpoint mode.
type ReplicationPolicy string

// The policies of MirrorMaker 2.
const (
	PolicyDefault  ReplicationPolicy = "default"
	PolicyIdentity ReplicationPolicy = "identity"
)

func (ReplicationPolicy) choices() []string {
	return []string{string(PolicyDefault), string(PolicyIdentity)}
}

// Level is the least level that is logged.
type Level string

// The levels.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// Format is how log lines are written.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

func (Format) choices() []string { return []string{string(FormatText), string(FormatJSON)} }

// Start says from where a topic is mirrored: earliest, latest or a time in
// RFC 3339. Offsets are kept in each case.
type Start string

// The named starts.
const (
	StartEarliest Start = "earliest"
	StartLatest   Start = "latest"
)

// check returns what is allowed where s is not, else "".
func (s Start) check() string {
	if s == StartEarliest || s == StartLatest {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, string(s)); err != nil {
		return "earliest, latest or a time such as 2026-01-31T00:00:00Z"
	}
	return ""
}
