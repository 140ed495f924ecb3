package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/comparator"
	"klink/linker/control"
)

const flagRecord = "record"

// AuditBook is what is on record of the mirrors of a configuration's links, for
// what a comparison found of them.
type AuditBook interface {
	// Put puts on record what was found of each partition, as the audit of klink run
	// does; with dry it writes nothing and tells what it would. The error is of the
	// record: what it says is there all the same.
	Put(ctx context.Context, r comparator.Result, dry bool) ([]RecordedLink, error)
	Close()
}

// RecordedLink is what was put on record of one link.
type RecordedLink struct {
	Link string `json:"link"`
	// DryRun: nothing was written, and the rest tells what would have been.
	DryRun bool `json:"dry_run"`
	// Partitions are on record now.
	Partitions int `json:"partitions"`
	// LeftOut are those that are not, with the reasons.
	LeftOut []RecordLeftOut `json:"left_out"`
}

// RecordLeftOut is a partition, or where that is null a topic, of which nothing was
// put on record.
type RecordLeftOut struct {
	SourceTopic string `json:"source_topic"`
	Partition   *int32 `json:"partition"`
	Reason      string `json:"reason"`
}

// compareResult is what compare prints.
type compareResult struct {
	comparator.Result
	// Recorded is absent where nothing was to be put on record.
	Recorded []RecordedLink `json:"recorded,omitempty"`
}

// recordFlags are those of a command that changes something, where it is asked to.
func recordFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: flagRecord, Usage: "put on record on the target what was found of each partition, as the last audit; needs Write on " + control.TopicName},
		&cli.BoolFlag{Name: flagDryRun, Usage: "with --record: say what would be put on record, and write nothing"},
		&cli.BoolFlag{Name: flagYes, Usage: "with --record: do not ask; needed where there is no terminal to ask on"},
	}
}

// openBook asks whether the result may be put on record, before anything is read, and
// opens the record; nil where it is not to be.
func (s *shell) openBook(c *cli.Context, open func(context.Context) (AuditBook, error)) (AuditBook, error) {
	switch {
	case !c.Bool(flagRecord) && (c.Bool(flagYes) || c.Bool(flagDryRun)):
		return nil, &UsageError{Command: "compare", What: "--yes and --dry-run are about --record"}
	case !c.Bool(flagRecord):
		return nil, nil
	case c.IsSet(flagLast):
		return nil, &UsageError{Command: "compare", What: "--record is about all that both sides hold: leave out --last"}
	}
	if err := s.mayChange(c); err != nil {
		return nil, err
	}
	if !c.Bool(flagDryRun) {
		const plan = "What the comparison finds of each partition is put on record in " + control.TopicName + " on the target, where it\n" +
			"takes the place of what the last audit found. Nothing else is written."
		if err := s.confirm(c, plan); err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
	}
	book, err := open(c.Context)
	if err != nil {
		return nil, fmt.Errorf("compare: --record: %w", err)
	}
	return book, nil
}

// recordError is about what could not be put on record.
func recordError(all []RecordedLink) error {
	var n int
	for _, r := range all {
		n += len(r.LeftOut)
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("compare: %s could not be put on record", quantity(n, "item"))
}

// recordedLines are what is said of the record below a result.
func recordedLines(all []RecordedLink) (lines []string) {
	for _, r := range all {
		verb := "put on record"
		if r.DryRun {
			verb = "would be put on record"
		}
		lines = append(lines, fmt.Sprintf("link %s: %s %s", r.Link, quantity(r.Partitions, "partition"), verb))
		for _, l := range r.LeftOut {
			where := l.SourceTopic
			if l.Partition != nil {
				where += fmt.Sprintf("/%d", *l.Partition)
			}
			lines = append(lines, fmt.Sprintf("  not %s: %s", where, l.Reason))
		}
	}
	return lines
}

// printRecorded says what was put on record.
func (s *shell) printRecorded(all []RecordedLink) error {
	if len(all) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.out, "\n"+strings.Join(recordedLines(all), "\n"))
	return err
}
