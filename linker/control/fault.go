package control

import (
	"errors"
	"fmt"

	"klink/linker/ownlog"
	"klink/linker/remote"
)

// Fault is what stands between klink and its control topic; see remote.Fault.
type Fault = remote.Fault

// Errors that callers branch on.
var (
	// ErrNewer: a record was written by a newer klink than this one.
	ErrNewer = errors.New("control record of a newer version")
	// ErrOwned: the target topic belongs to another link or source topic.
	ErrOwned = errors.New("target topic belongs to another mirror")
	// ErrLost: the control topic was deleted, or another stands in its place.
	ErrLost = ownlog.ErrLost
	// ErrTooLarge: a record would be larger than brokers take. Nothing was written.
	ErrTooLarge = errors.New("the control record is too large")
	// ErrCountersSpent: the partition's marker counters are used up.
	ErrCountersSpent = errors.New("the marker counters of the partition are used up")
)

// NewerError names the record that this klink is too old for. It is ErrNewer.
type NewerError struct {
	Kind    Kind
	Key     string
	Version int
	// Known is the newest version that this klink understands.
	Known int
}

// Error says which record, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("control record %s of kind %q has version %d, this klink knows up to %d: run a newer klink",
		e.Key, e.Kind, e.Version, e.Known)
}

// Is makes errors.Is(err, ErrNewer) true.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// OwnedError names who owns a target topic. It is ErrOwned.
type OwnedError struct {
	Target string
	// Link and SourceTopic are the owner's.
	Link, SourceTopic string
}

// Error says who owns it.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("target topic %q already mirrors %q of link %q", e.Target, e.SourceTopic, e.Link)
}

// Is makes errors.Is(err, ErrOwned) true.
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }
