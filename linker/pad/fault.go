package pad

import (
	"errors"
	"fmt"

	"klink/linker/state"
)

// Errors of padding, beside those of the ports.
var (
	// ErrNotAllowed: the lease does not allow changes now.
	ErrNotAllowed = errors.New("the target may not be changed now")
	// ErrHalted: Fault.Detail says why padding cannot go on.
	ErrHalted = errors.New("padding cannot go on")
	// ErrBehind: the followers do not have yet what is waited for.
	ErrBehind = errors.New("the high watermark stays below the log end")
	// ErrPolicy: the topic's policy is not what was set.
	ErrPolicy = errors.New("the new cleanup.policy does not show at the partition's leader")
	// ErrNoProgress: appends came to nothing clear several times in a row.
	ErrNoProgress = errors.New("pads were sent several times in a row without a clear answer")
)

// Fault is why padding ended early. With a reason that is Remote, and with
// ErrNotAllowed, it is to be run again later.
type Fault struct {
	Op string
	// Reason is "" after a stop and for ErrNotAllowed.
	Reason state.Reason
	Detail string
	Err    error
}

// Error says what was tried and what stood in the way.
func (f *Fault) Error() string {
	s := fmt.Sprintf("%s: %v", f.Op, f.Err)
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// Unwrap returns the underlying error.
func (f *Fault) Unwrap() error { return f.Err }

// fault gives an error of a port its place; a *Fault stays what it is.
func fault(op string, err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Op: op, Reason: state.Unreachable, Err: err}
}

// errNoWord stands for the error of a port that gave none.
var errNoWord = errors.New("no reason was given")

func orNoWord(err error) error {
	if err == nil {
		return errNoWord
	}
	return err
}
