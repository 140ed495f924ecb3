package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/translate/takeover"
)

// The flags of klink adopt --from-mm2, beside that one.
const (
	flagOffsetsTopic = "offsets-topic"
	flagConnector    = "connector"
	flagDepth        = "depth"
	flagWatch        = "watch"
)

const (
	// watchDefault is longer than a producer's linger and a few heartbeats of a
	// MirrorMaker 2 with usual settings.
	watchDefault = 5 * time.Second
	// depthDefault is a few seconds of reading for each partition.
	depthDefault = 1_000_000
)

func takeoverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: flagFromMM2, Usage: "take over from a MirrorMaker 2 that was stopped, in checkpoint mode"},
		&cli.StringFlag{Name: flagOffsetsTopic, Usage: "with --from-mm2: the `TOPIC` on the target that holds Connect's offsets (default: mm2-offsets.ALIAS.internal)"},
		&cli.StringFlag{Name: flagConnector, Usage: "with --from-mm2: the `NAME` of the source connector, where several have offsets of one source"},
		&cli.Int64Flag{Name: flagDepth, Value: depthDefault, Usage: "with --from-mm2: compare at most the last `N` offsets of each target partition"},
		&cli.DurationFlag{Name: flagWatch, Value: watchDefault, Usage: "with --from-mm2: watch for `TIME` whether MirrorMaker 2 writes still"},
	}
}

// TakeoverRequest says where a MirrorMaker 2 left its position.
type TakeoverRequest struct {
	// OffsetsTopic is "" for that of a dedicated MirrorMaker 2, Connector for any.
	OffsetsTopic, Connector string
	// Topics are source names or globs; none is all of the link.
	Topics []string
	// Depth is how many offsets of a target partition are compared at most.
	Depth int64
	// Watch is how long it is looked whether MirrorMaker 2 writes still.
	Watch time.Duration
}

// Taker takes over from a MirrorMaker 2.
type Taker interface {
	// Plan finds out where it left off, and writes nothing. The error is an
	// *InUseError where it, or a klink of this link, seems to run.
	Plan(ctx context.Context, r TakeoverRequest) (TakeoverResult, error)
	// Seed puts on record what Plan found, for the topics that are OK, and marks them.
	// What an earlier call left half done it completes.
	Seed(ctx context.Context, r *TakeoverResult) error
	Close()
}

// InUseError says why nothing can be taken over now.
type InUseError struct{ What, Hint string }

func (e *InUseError) Error() string { return e.What + ": " + e.Hint }

// TakeoverResult is what was found, and what became of it, in the shape of the JSON
// contract.
type TakeoverResult struct {
	Link         string          `json:"link"`
	DryRun       bool            `json:"dry_run"`
	SourceAlias  string          `json:"source_alias"`
	OffsetsTopic string          `json:"offsets_topic"`
	Connector    *string         `json:"connector"`
	SyncsTopic   *string         `json:"syncs_topic"`
	Topics       []TakeoverTopic `json:"topics"`
	// Doubles is the most records that may be copied a second time, Lost how many
	// source offsets cannot be copied any more.
	Doubles int64    `json:"doubles"`
	Lost    int64    `json:"lost"`
	Notes   []string `json:"notes"`
	Failed  int      `json:"failed"`
}

// TakeoverTopic is one topic of it.
type TakeoverTopic struct {
	SourceTopic string              `json:"source_topic"`
	TargetTopic string              `json:"target_topic"`
	OK          bool                `json:"ok"`
	Adopted     bool                `json:"adopted"`
	Reason      string              `json:"reason"`
	Detail      string              `json:"detail"`
	Hint        string              `json:"hint"`
	Partitions  []TakeoverPartition `json:"partitions"`

	place takeoverPlace
}

// TakeoverPartition is where one partition stands.
type TakeoverPartition struct {
	Partition int32 `json:"partition"`
	// State is one of package takeover, or ADOPTED where it was taken over before.
	State         string `json:"state"`
	ConnectOffset *int64 `json:"connect_offset"`
	SourceStart   int64  `json:"source_start"`
	SourceEnd     int64  `json:"source_end"`
	TargetStart   int64  `json:"target_start"`
	TargetEnd     int64  `json:"target_end"`
	// Next is the source offset that klink goes on with.
	Next    int64 `json:"next_source_offset"`
	Doubles int64 `json:"doubles"`
	Lost    int64 `json:"lost"`
	// TranslatedFrom is the lowest source offset that has a translation; null for none.
	TranslatedFrom *int64 `json:"translated_from"`
	Compared       int64  `json:"compared"`
	Detail         string `json:"detail"`

	standing takeover.Standing
}

// stateAdopted: nothing is left to do for a partition.
const stateAdopted = "ADOPTED"

// count sums up.
func (r *TakeoverResult) count() {
	r.Failed, r.Doubles, r.Lost = 0, 0, 0
	for _, t := range r.Topics {
		if !t.OK {
			r.Failed++
			continue
		}
		for _, p := range t.Partitions {
			r.Doubles, r.Lost = r.Doubles+p.Doubles, r.Lost+p.Lost
		}
	}
}

// due tells whether there is anything to put on record.
func (r *TakeoverResult) due() bool {
	for _, t := range r.Topics {
		if t.OK && !t.Adopted {
			return true
		}
	}
	return false
}

// takeover is klink adopt --from-mm2.
func (s *shell) takeover(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err == nil {
		err = s.mayChange(c)
	}
	if err != nil {
		return err
	}
	cfg, err := oneLink(c, configOptions(c))
	if err != nil {
		return err
	}
	taker, err := s.parts.Takeover(c.Context, cfg)
	if err != nil {
		return inCommand("adopt", err)
	}
	defer taker.Close()
	r, err := taker.Plan(c.Context, TakeoverRequest{OffsetsTopic: c.String(flagOffsetsTopic), Connector: c.String(flagConnector),
		Topics: c.Args().Slice(), Depth: c.Int64(flagDepth), Watch: c.Duration(flagWatch)})
	if err != nil {
		return inCommand("adopt", err)
	}
	r.count()
	if r.DryRun = c.Bool(flagDryRun); !r.DryRun && r.due() {
		if err := s.confirm(c, s.takeoverText(r)); err != nil {
			return inCommand("adopt", err)
		}
		err = taker.Seed(c.Context, &r)
		r.count()
	}
	if asJSON {
		err = errors.Join(err, show.JSON(s.out, "adopt", r))
	} else {
		_, printed := fmt.Fprint(s.out, s.takeoverText(r))
		err = errors.Join(err, printed)
	}
	if r.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("adopt: %d of %s failed", r.Failed, quantity(len(r.Topics), "topic")))
	}
	return err
}

// takeoverText is the table, with what it means.
func (s *shell) takeoverText(r TakeoverResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link %s, from the MirrorMaker 2 of source %s (positions in %s)\n\n%s\n", r.Link, r.SourceAlias, r.OffsetsTopic, takeoverTable(r))
	for _, n := range r.Notes {
		b.WriteString("\n" + n + "\n")
	}
	for _, t := range r.Topics {
		if !t.OK && t.Hint != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", t.SourceTopic, t.Hint)
		}
	}
	fmt.Fprintf(&b, "\nrecords that may be copied a second time: %s\n", atMost(r.Doubles))
	if r.Lost > 0 {
		fmt.Fprintf(&b, "source offsets that are deleted and were not copied: %d\n", r.Lost)
	}
	switch {
	case r.DryRun:
		b.WriteString("nothing was done (--dry-run)\n")
	case r.due():
		b.WriteString("klink goes on at these offsets in checkpoint mode. MirrorMaker 2 must not be started again.\n")
	}
	return b.String()
}

func atMost(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("at most %d", n)
}

func takeoverTable(r TakeoverResult) string {
	t := plainTable("topic", "partition", "state", "committed", "goes on at", "source end", "target end", "doubles", "how it is known")
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.TargetTopic != x.SourceTopic {
			name += " -> " + x.TargetTopic
		}
		if !x.OK || len(x.Partitions) == 0 {
			t.AppendRow(table.Row{name, "", strings.ToLower(x.Reason), "", "", "", "", "", x.Detail})
		}
		for _, p := range x.Partitions {
			t.AppendRow(table.Row{name, p.Partition, p.State, show.Records(p.ConnectOffset), p.Next, p.SourceEnd, p.TargetEnd, p.Doubles, p.Detail})
		}
	}
	t.SetColumnConfigs(append(rightAlignedWithFooter("partition", "committed", "goes on at", "source end", "target end", "doubles"),
		table.ColumnConfig{Name: "how it is known", WidthMax: remarkWidth, WidthMaxEnforcer: text.WrapSoft}))
	return t.Render()
}
