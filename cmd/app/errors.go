package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"klink/cmd/config"
	"klink/cmd/httpd"
	"klink/cmd/kafka"
)

// The exit codes (A3).
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDiffer = 3
	exitLoss   = 4
)

// UsageError is a command line that cannot be understood.
type UsageError struct {
	// Command is the command it was about, or "".
	Command string
	What    string
}

// Error says what is wrong and where help is.
func (e *UsageError) Error() string {
	if e.Command == "" {
		return e.What + "; see klink --help"
	}
	return fmt.Sprintf("%s: %s; see klink %s --help", e.Command, e.What, e.Command)
}

// inCommand puts the command's name before an error that does not name it already.
func inCommand(command string, err error) error {
	var usage *UsageError
	if errors.As(err, &usage) && usage.Command == command {
		return err
	}
	return fmt.Errorf("%s: %w", command, err)
}

// errStopped: whoever gave the command has stopped it.
var errStopped = errors.New("stopped before it was done")

// errHalfway: so was a switch, of which any part may be done.
var errHalfway = fmt.Errorf("%w: it may be on record all the same, which klink status shows; give it again to do the rest", errStopped)

// unlessStopped is err, or errStopped where ctx is over: what was asked then failed by
// that, which is no news of the clusters, and what was found is not all.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}

// inTime is a command's error, which says no more than that it was stopped where
// nothing else went wrong.
func inTime(ctx context.Context, command string, err error) error {
	if err != nil && ctx.Err() != nil && onlyCanceled(err) {
		return fmt.Errorf("%s: %w", command, errStopped)
	}
	return err
}

// LossError is a refusal: what was asked for would lose data.
type LossError struct {
	Command string
	Err     error
}

// Error says which command, and why.
func (e *LossError) Error() string { return e.Command + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *LossError) Unwrap() error { return e.Err }

// report prints an error, once, and returns the exit code (A2).
func report(w io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var usage *UsageError
	var cfg *config.Error
	var listen *httpd.ListenError
	var obstacle *kafka.Obstacle
	var loss *LossError
	var difference *DifferenceError
	switch {
	case errors.As(err, &cfg):
		fmt.Fprintf(w, "klink: the configuration cannot be used:\n  %s\n", strings.ReplaceAll(cfg.Error(), "\n", "\n  "))
		return exitUsage
	case errors.As(err, &usage), errors.As(err, &listen), errors.Is(err, errDeclined):
		fmt.Fprintf(w, "klink: %v\n", err)
		return exitUsage
	case errors.As(err, &loss):
		fmt.Fprintf(w, "klink: %v\n", err)
		return exitLoss
	case errors.As(err, &difference):
		fmt.Fprintf(w, "klink: %v\n", err)
		return exitDiffer
	default:
		fmt.Fprintf(w, "klink: %v\n", err)
		if errors.As(err, &obstacle) && obstacle.Hint != "" {
			fmt.Fprintf(w, "  %s\n", obstacle.Hint)
		}
		return exitFailed
	}
}
