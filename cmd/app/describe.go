package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/linker/describe"
	"klink/linker/state"
)

const flagLedger = "ledger"

// DescribeRequest is what is to be described, beside the configuration.
type DescribeRequest struct {
	// Report is that of the running klink; nil where none answered, then the last
	// recorded states stand for it.
	Report *state.Report
	// Choose keeps the topics that are wanted.
	Choose func(state.Report) (state.Report, error)
	Detail describe.Detail
	// Exact reads the target's log beyond the recorded index of the ledger.
	Exact bool
}

func (s *shell) describeCommand() *cli.Command {
	return &cli.Command{
		Name:      "describe",
		Usage:     "show all that is known of topics, and which offsets are not copies",
		UsageText: "klink describe -c klink.yaml [--link NAME] [TOPIC ...] [--ledger] [--exact] [-o table|json]\nklink describe --target HOST:PORT",
		Description: "Shows what klink status shows, and what is on record on the target: ids, the leader epochs\n" +
			"of the source, the source's own settings, pad goals, used marker counters, and how many offsets\n" +
			"are not record-for-record copies. Needs the target alone; where no running klink answers, its\n" +
			"last record stands in for it. Writes nothing.\n\n" +
			"--ledger lists where those offsets are, with their reason:\n\n" +
			"  marker     the source has a transaction marker there\n" +
			"  aborted    the source has records of an aborted transaction there\n" +
			"  compacted  the source's cleaner removed what was there\n" +
			"  padded     they lie below the source's start when the mirror began\n" +
			"  retention  the source's retention removed them before they were mirrored\n" +
			"  recoded    the records are equal, their batch was written anew\n" +
			"  split      a batch above the target's limit was written as several\n" +
			"  accepted   the target holds something else there, and klink repair --accept was given\n" +
			"  doubled    checkpoint mode: source offsets of which the target may hold a second copy\n" +
			"  none       klink's own mark, such as a fence\n\n" +
			"Totals are exact up to the offset that is named with them; neighbouring ranges may be put\n" +
			"together, then the line has a count for each reason. The record is some seconds old while\n" +
			"klink runs; --exact goes on from it with the markers in the target's log, up to its end.\n\n" +
			"TOPIC is a name on either side, or a glob with *. ? means unknown.",
		Flags: append(linkFlags(), httpFlag("ask the klink at `HOST:PORT`, by default at http.listen"),
			&cli.BoolFlag{Name: flagLedger, Usage: "list the ranges that are not copies"},
			&cli.BoolFlag{Name: flagExact, Usage: "read the target's log for what is not on record yet"},
			outputFlag()),
		Action: s.describe,
	}
}

func (s *shell) describe(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	q, err := newDescription(c)
	if err != nil {
		return err
	}
	req := DescribeRequest{Choose: q.choose, Detail: describe.Detail(c.Bool(flagLedger)), Exact: c.Bool(flagExact)}
	r, err := s.describeLinks(c.Context, q, req)
	err = unlessStopped(c.Context, err)
	var partly *PartlyError
	if err != nil && !errors.As(err, &partly) {
		return fmt.Errorf("describe: %w", err)
	}
	if asJSON {
		err = show.JSON(s.out, "describe", r)
	} else {
		err = s.printDescription(r)
	}
	if err == nil && partly != nil {
		err = fmt.Errorf("describe: %w", partly)
	}
	return err
}

// newDescription is newQuestion for a command that cannot do without a target.
func newDescription(c *cli.Context) (*question, error) {
	if !configured(c) {
		return nil, &UsageError{Command: "describe", What: "needs to know the target: give -c klink.yaml, or --target HOST:PORT"}
	}
	return newQuestion(c)
}

// describeLinks asks the daemon for the states and the targets for the rest.
func (s *shell) describeLinks(ctx context.Context, q *question, req DescribeRequest) (describe.Result, error) {
	report, daemonErr := askDaemon(ctx, q.listen)
	if daemonErr == nil {
		daemonErr = q.lacks(report)
	}
	if daemonErr == nil {
		report = show.Complete(report)
		req.Report = &report
	}
	r, err := s.parts.Describe(ctx, q.cfg, req)
	if daemonErr != nil && err == nil {
		fmt.Fprintf(s.errOut, "klink: no answer from a running klink (%v); states are its last record on the target, %s\n", daemonErr, age(r.AsOf))
	}
	return r, err
}

// PartlyError says of which partitions a result is incomplete.
type PartlyError struct {
	// Where and Errs go together.
	Where []string
	Errs  []error
}

// Error names the first three.
func (e *PartlyError) Error() string {
	const most = 3
	var lines []string
	for i := range e.Where[:min(most, len(e.Where))] {
		lines = append(lines, e.Where[i]+": "+e.Errs[i].Error())
	}
	if more := len(e.Where) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns all of them.
func (e *PartlyError) Unwrap() []error { return e.Errs }
