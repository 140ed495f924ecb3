package config

import (
	"fmt"
	"slices"
	"strings"
)

// Kind tells what is wrong, for callers that branch.
type Kind int

// The kinds of problems.
const (
	// Unreadable: the file is not there, cannot be read or is no YAML.
	Unreadable Kind = iota + 1
	// UnknownKey: a key that klink does not have.
	UnknownKey
	// Duplicate: a key or a name that stands there twice.
	Duplicate
	// WrongType: a list where a word is wanted, and the like.
	WrongType
	// BadValue: a value out of its range.
	BadValue
	// Missing: a value that has no default.
	Missing
	// Conflict: two values that contradict each other.
	Conflict
	// NotBuilt: a feature that this version does not have (C4).
	NotBuilt
	// BadSecret: a file or variable with a password, token, key or certificate
	// cannot be used.
	BadSecret
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	Kind Kind
	// File is "" where the value comes from a flag or the environment; Line is 0
	// where it stands in no line.
	File string
	Line int
	// Field is the path of the key, e.g. links[0].source.brokers, the name of the
	// flag or that of the variable.
	Field string
	// What is wrong, without a final stop.
	What string
	// Allowed says what may stand there, Do what to do; either may be "".
	Allowed string
	Do      string
}

// String puts the problem on one line.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.File != "" && p.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	case p.File != "":
		fmt.Fprintf(&b, "%s: ", p.File)
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.What)
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	if p.Do != "" {
		b.WriteString("; " + p.Do)
	}
	return b.String()
}

// Error holds everything that is wrong, in the order of the file (C2).
type Error struct{ Problems []Problem }

// Error lists the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Has reports whether a problem of that kind is among them.
func (e *Error) Has(k Kind) bool {
	return slices.ContainsFunc(e.Problems, func(p Problem) bool { return p.Kind == k })
}

// asError returns nil for no problems, else an *Error with them in the order
// of lines.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return &Error{Problems: problems}
}
