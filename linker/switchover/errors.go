package switchover

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"klink/linker/intent"
)

// Errors that callers branch on.
var (
	// ErrRefused: nothing was stopped, since records would be lost. The Result has
	// the numbers.
	ErrRefused = errors.New("refused: records would be lost")
	// ErrUndecided: the control topic does not tell whether a promotion counts.
	// Running it again finds out; left alone, whoever mirrors takes the hold back.
	ErrUndecided = errors.New("it is not known whether the promotion is on record: run it again")
	// ErrUnknown: the link or a topic is not on record.
	ErrUnknown = errors.New("not on record")
)

// RefusedError says why a promotion was not made. It is ErrRefused.
type RefusedError struct {
	// Why is a sentence with the numbers of the case.
	Why string
	// TakenBack tells that the mirrors were held already and mirror again.
	TakenBack bool
}

// Error says why.
func (e *RefusedError) Error() string {
	if e.TakenBack {
		return "not promoted, and taken back: " + e.Why
	}
	return "not promoted: " + e.Why
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// ItemsFailedError tells that some topics are not as they should be; the Result
// says which. Running the command again does the rest.
type ItemsFailedError struct{ Failed, Of int }

// Error counts them.
func (e *ItemsFailedError) Error() string {
	return fmt.Sprintf("%d of %s failed: run the command again to do the rest", e.Failed, counted(e.Of, "topic"))
}

// LateError tells that all is promoted, and that the source has more records than it
// had at the cut: somebody wrote to it after all. The Result says where.
type LateError struct {
	// Records is how many offsets the source has beyond its cuts, an upper bound of
	// records; Topics have some.
	Records int64
	Topics  int
}

// Error counts them.
func (e *LateError) Error() string {
	return fmt.Sprintf("promoted, but the source took in at most %s of %s after the cut, which the target does not have: producers must stop before a promotion",
		counted(e.Records, "record"), counted(e.Topics, "topic"))
}

// NotAllowedError tells that the record does not let the verb act on a topic. It
// wraps what intent.Intent.Allows said.
type NotAllowedError struct {
	Verb  intent.Verb
	Topic string
	// Cause is the command that made it so; zero for none.
	Cause intent.Command
	Err   error
}

// Error says which topic and who made it so.
func (e *NotAllowedError) Error() string {
	s := fmt.Sprintf("%s of topic %q: %v", e.Verb, e.Topic, e.Err)
	if e.Cause.Number > 0 {
		s += " (" + tell(e.Cause) + ")"
	}
	return s
}

// Unwrap returns what the table said.
func (e *NotAllowedError) Unwrap() error { return e.Err }

// BeatenError tells that another operator's command was first and leads
// elsewhere.
type BeatenError struct {
	Verb   intent.Verb
	Winner intent.Command
}

// Error says who gave which command and when.
func (e *BeatenError) Error() string {
	return fmt.Sprintf("%s: another command was first: %s", e.Verb, tell(e.Winner))
}

// counted writes a number of things.
func counted[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// tell writes a command the way a person speaks of it.
func tell(c intent.Command) string {
	what := "of the link"
	switch n := len(c.Topics); {
	case n == 1:
		what = "of " + c.Topics[0]
	case n > 1 && n <= 3:
		what = "of " + strings.Join(c.Topics, ", ")
	case n > 3:
		what = fmt.Sprintf("of %d topics", n)
	}
	return fmt.Sprintf("command %d, %s %s, by %s at %s", c.Number, c.Verb, what, c.By, c.At.UTC().Format(time.RFC3339))
}
