package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/comparator"
)

const (
	flagLast     = "last"
	flagKeys     = "keys"
	flagNoDigest = "no-digest"
	flagReport   = "report"
	flagCarryOn  = "resume"
	flagACLs     = "acls"
)

// CompareRequest is what a comparison is to be about, beside the configuration.
type CompareRequest struct {
	// Only selects among the topics of the links; nil is all.
	Only func(source, target string) bool
	// Last leaves out what is older; 0 for nothing.
	Last time.Duration
	// Keys, NoDigest and ACLs are those of comparator.Options.
	Keys, NoDigest, ACLs bool
	// Saved tells what is done of a link already, nil for nothing, and Keep is told
	// how far it is; nil where that is not wanted.
	Saved func(link string) *comparator.Saved
	Keep  func(link string, s comparator.Saved)
	// Progress may be nil.
	Progress func(comparator.Progress)
}

// DifferenceError is a comparison that found differences; the result tells which.
type DifferenceError struct{ Differences int64 }

// Error counts the differences.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("compare: source and target differ in %s", quantity(int(e.Differences), "place"))
}

func (s *shell) compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "read both clusters and tell every difference between them",
		UsageText: "klink compare -c klink.yaml [--link NAME] [TOPIC ...] [--last DURATION] [--keys] [--no-digest] [--acls] [--resume FILE] [--report DIR] [--record [--yes]] [-o table|json]\nklink compare --source HOST:PORT --target HOST:PORT --topic PATTERN",
		Description: "Compares, partition by partition, every record that a read_committed consumer sees: that it\n" +
			"is at the same offset with the same key, value, headers and timestamp, and that where one\n" +
			"side has none the other has none. Writes nothing without --record; exits with 3 where there are\n" +
			"differences:\n\n" +
			"  missing  the source has a record and the target none\n" +
			"  extra    the target has a record and the source none\n" +
			"  changed  both have one, and they differ\n" +
			"  shifted  a run of records stands at other offsets\n" +
			"  start    the logs start at different offsets\n" +
			"  end      the logs end at different offsets\n\n" +
			"The first ones of each kind are shown in full, the rest is counted. No difference, and counted\n" +
			"apart, are records of compacted topics that one side lacks and has a later one of their key\n" +
			"(compacted), and records past one side's log start (expired).\n\n" +
			"It may run while klink run mirrors: it waits until the target is where the source ended when\n" +
			"it began, and compares up to there; a target that does not move for 5 seconds ends there.\n" +
			"Partition counts, topic settings, and the offsets of the link's groups are compared, too.\n\n" +
			"In checkpoint mode copies are looked for where __klink_map says, and groups' offsets go through it:\n" +
			"every record has its copy, in order, the same but for the offset. Records of others among the copies\n" +
			"are counted (foreign), and so are copies of records that stand there twice (duplicates).\n\n" +
			"With --resume FILE a comparison that is ended by Ctrl-C, or by a cluster that goes away, keeps what\n" +
			"it has done in FILE; the same command goes on from there, says so, and removes FILE in the end.\n\n" +
			"With --record what was found of each partition goes on record in __klink on the target, as that\n" +
			"of the audit of klink run does: time, range, digest and findings, without what records say. klink\n" +
			"status and klink describe show it as the last audit. It asks first; elsewhere it needs --yes.\n\n" +
			"TOPIC is a name on either side, or a glob with *; then each partition has its own line.",
		Flags: append(append(linkFlags(),
			&cli.DurationFlag{Name: flagLast, Usage: "compare only records of the last `DURATION`, e.g. 24h, by the source's timestamps"},
			&cli.BoolFlag{Name: flagKeys, Usage: "list the keys of compacted topics whose latest value differs"},
			&cli.BoolFlag{Name: flagNoDigest, Usage: "compute no digests, and compare batches that are the same bytes on both sides as bytes"},
			&cli.BoolFlag{Name: flagACLs, Usage: "compare the access rules in force for the topics; needs Describe on both clusters"},
			&cli.StringFlag{Name: flagCarryOn, Usage: "keep in `FILE` what is done when the comparison is broken off, and go on from there"},
			&cli.StringFlag{Name: flagReport, Usage: "write compare.json and the page compare.html into the folder `DIR`"}),
			append(recordFlags(), outputFlag())...),
		Action: s.compare,
	}
}

func (s *shell) compare(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	if c.IsSet(flagLast) && c.Duration(flagLast) <= 0 {
		return &UsageError{Command: "compare", What: "--last must be longer than nothing, e.g. 24h"}
	}
	cfg, err := config.Load(configOptions(c))
	if err == nil {
		err = openReport("compare", c.String(flagReport))
	}
	if err != nil {
		return err
	}
	book, err := s.openBook(c, func(ctx context.Context) (AuditBook, error) { return s.parts.AuditBook(ctx, cfg) })
	if err != nil {
		return err
	}
	if book != nil {
		defer book.Close()
	}
	wanted := &choice{words: c.Args().Slice(), matched: map[string]bool{}}
	req := CompareRequest{Last: c.Duration(flagLast), Keys: c.Bool(flagKeys), NoDigest: c.Bool(flagNoDigest), ACLs: c.Bool(flagACLs)}
	if len(wanted.words) > 0 {
		req.Only = wanted.has
	}
	r, err := s.compareAll(c, cfg, req)
	if err == nil {
		err = wanted.missed()
	}
	if err != nil {
		return inCommand("compare", err)
	}
	all := compareResult{Result: r}
	var failed error
	if book != nil {
		if all.Recorded, failed = book.Put(c.Context, r, c.Bool(flagDryRun)); failed != nil {
			failed = fmt.Errorf("compare: --record: %w", failed)
		}
		failed = errors.Join(failed, recordError(all.Recorded))
	}
	return errors.Join(s.tellCompared(all, c.String(flagReport), asJSON, len(wanted.words) == 0), compareError(r), failed)
}

// compareAll compares, and goes on from what was broken off where that is wanted.
func (s *shell) compareAll(c *cli.Context, cfg *config.Config, req CompareRequest) (comparator.Result, error) {
	var file *unfinished
	if path := c.String(flagCarryOn); path != "" {
		var err error
		if file, err = openUnfinished(path, req.Last); err != nil {
			return comparator.Result{}, err
		}
		req.Saved, req.Keep = file.of, file.keep
	}
	tell, stop := s.comparing()
	req.Progress = tell
	r, err := s.parts.Compare(c.Context, cfg, req)
	stop()
	err = unlessStopped(c.Context, err)
	if file != nil {
		err = file.end(r.Failed, err)
	}
	return r, err
}

// tellCompared prints the result and writes the report.
func (s *shell) tellCompared(r compareResult, folder string, asJSON, fold bool) error {
	var err error
	if folder != "" {
		err = writeReport(folder, "compare", r, func(w io.Writer) error { return comparator.WritePage(w, r.Result) })
	}
	if asJSON {
		return errors.Join(err, show.JSON(s.out, "compare", r))
	}
	return errors.Join(err, s.printCompared(r.Result, fold), s.printRecorded(r.Recorded))
}

// compareError gives a result its exit code.
func compareError(r comparator.Result) error {
	switch {
	case r.Differences > 0:
		return &DifferenceError{Differences: r.Differences}
	case r.Failed > 0:
		return fmt.Errorf("compare: %s could not be compared", quantity(r.Failed, "item"))
	default:
		return nil
	}
}

// comparing keeps a line with how far it is up to date for somebody who waits at
// a terminal. stop takes the line away again.
func (s *shell) comparing() (tell func(comparator.Progress), stop func()) {
	if !isTerminal(s.errOut) {
		return nil, func() {}
	}
	const anew = "\r\x1b[K" // over the line of before
	return func(p comparator.Progress) { fmt.Fprint(s.errOut, anew+progressLine(p)) },
		func() { fmt.Fprint(s.errOut, anew) }
}

// progressLine is short enough for a terminal of 80 columns.
func progressLine(p comparator.Progress) string {
	const width = 24
	share := 0.0
	if p.Total > 0 {
		share = max(0, min(1, float64(p.Done)/float64(p.Total)))
	}
	full := int(share * width)
	line := fmt.Sprintf("[%s%s] %3.0f%%  %d/%s  %s", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*share, p.Partitions,
		quantity(p.AllPartitions, "partition"), humanize.IBytes(uint64(max(0, p.Bytes))))
	if left, ok := p.Left(); ok {
		line += "  " + duration(left.Seconds()) + " left"
	}
	return line
}
