package fill

import (
	"errors"
	"fmt"

	"klink/linker/ledger"
	"klink/linker/state"
)

// Errors of a fill, beside those of the ports.
var (
	// ErrMoved: the log end is not where the gap begins, or fell below what was
	// replicated. The caller looks at the target anew and decides again.
	ErrMoved = errors.New("the log end is not the expected one")
	// ErrOvershot: the log end is beyond what was written.
	ErrOvershot = errors.New("the log end is beyond what was written")
	// ErrFenced: the producer's epoch was raised on the target.
	ErrFenced = errors.New("the producer was fenced")
	// ErrSpent: the partition has no marker counters left.
	ErrSpent = errors.New("no marker counters are left")
	// ErrNotAllowed: the lease does not allow markers now.
	ErrNotAllowed = errors.New("markers may not be written now")
	// ErrOutrun: counters of fresh blocks were refused: somebody else writes
	// markers for the same partition.
	ErrOutrun = errors.New("counters were refused again and again")
	// ErrPorts: a port broke its contract; nothing was written because of it.
	ErrPorts = errors.New("port broke its contract")
)

// Fault is why a fill ended before the end of the gap.
type Fault struct {
	Op string
	// Expected is the log end that was to be, LogEnd what was seen; -1 where the
	// fault is not about them.
	Expected, LogEnd int64
	Err              error
}

// Error says what was tried, and gives the numbers.
func (f *Fault) Error() string {
	if f.LogEnd < 0 {
		return fmt.Sprintf("%s: %v", f.Op, f.Err)
	}
	return fmt.Sprintf("%s: %v: at most %d was to be, it is %d", f.Op, f.Err, f.Expected, f.LogEnd)
}

// Unwrap returns the underlying error.
func (f *Fault) Unwrap() error { return f.Err }

// Result is how a fill ended.
type Result struct {
	// End is the log end after the last offset that is known to be occupied and
	// replicated (M6). Without an error it is the gap's end.
	End int64
	// Filled are the runs of [Gap.Expect, End), those that a former owner filled
	// meanwhile included.
	Filled []ledger.Run
	// Trust is for the next append; known only without an error.
	Trust Trust
	// Counters are to be given to the next fill of this assignment.
	Counters Counters
	// InDoubt says that markers may still be on their way. The next fill needs
	// Gap.Doubt; a release of the partition must not be called clean.
	InDoubt bool
	// Markers were handed to Write; Requests how many there were, Doubts how many
	// of them left one.
	Markers, Requests, Doubts int64
	// Reason and Err (a *Fault, or the error of a stop) say why it ended early.
	// Reason is "" where status has nothing to show: after a stop, ErrMoved and
	// ErrNotAllowed.
	Reason state.Reason
	Err    error
}
