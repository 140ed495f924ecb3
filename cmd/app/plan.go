package app

import (
	"fmt"
	"path"
	"slices"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/cmd/spell"
	"klink/linker/survey"
)

const (
	flagExact   = "exact"
	flagMeasure = "measure"
)

// PlanRequest is what a plan is to be about, beside the configuration.
type PlanRequest struct {
	// Only selects among the topics of the links; nil is all.
	Only func(source, target string) bool
	// Exact reads the logs of the source as a whole.
	Exact bool
	// Measure probes the target for its rates. Without it nothing is written.
	Measure bool
}

func (s *shell) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "say how each topic would be mirrored, how long that takes and what is missing for it",
		UsageText: "klink plan -c klink.yaml [--link NAME] [TOPIC ...] [--exact] [--measure] [-o table|json]\nklink plan --source HOST:PORT --target HOST:PORT --topic PATTERN",
		Description: "Looks at both clusters and writes nothing. The verdict of a topic is the worst of its\n" +
			"partitions:\n\n" +
			"  raw         batches go as they are\n" +
			"  recode      some are written anew, record by record\n" +
			"  pad         the target is first padded up to the offset where the mirror begins\n" +
			"  checkpoint  offsets cannot be kept, and on_unmirrorable says checkpoint; or it is in that mode already\n" +
			"  refuse      it would halt, wait or be left out\n\n" +
			"What klink run would refuse by what is on record is refused here in the same words: a topic\n" +
			"that went by another name or mode, that another link has, that is a mirror of the target's\n" +
			"own, that was deleted and made anew, or that was paused, promoted or removed.\n\n" +
			"Gaps are offsets without a record for consumers: transaction markers, aborted records, what\n" +
			"compaction removed. Gaps, bytes and times are extrapolated from reads at 16 places of each\n" +
			"log and marked with ~, unless these were the whole log; --exact reads everything, at most at\n" +
			"limits.bytes_per_second.\n\n" +
			"Times are of each partition alone on an idle target, by assumed rates; --measure measures\n" +
			"those on a scratch topic of the target, as klink probe does, and is the only way in which\n" +
			"this command writes. ? means unknown. TOPIC is a name on either side, or a glob with *; then\n" +
			"each partition has its own line.",
		Flags: append(linkFlags(),
			&cli.BoolFlag{Name: flagExact, Usage: "read the source's logs as a whole instead of samples"},
			&cli.BoolFlag{Name: flagMeasure, Usage: "measure rates on a scratch topic of the target, which is removed again"},
			outputFlag()),
		Action: s.plan,
	}
}

func (s *shell) plan(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	cfg, err := config.Load(configOptions(c))
	if err != nil {
		return err
	}
	wanted := &choice{words: c.Args().Slice(), matched: map[string]bool{}}
	req := PlanRequest{Exact: c.Bool(flagExact), Measure: c.Bool(flagMeasure)}
	if len(wanted.words) > 0 {
		req.Only = wanted.has
	}
	r, err := s.parts.Plan(c.Context, cfg, req)
	if err == nil {
		err = wanted.missed()
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if asJSON {
		return show.JSON(s.out, "plan", r)
	}
	return s.printPlan(r, len(wanted.words) == 0)
}

// choice is the topics that a command line names.
type choice struct {
	words   []string
	matched map[string]bool
	// known are all names that could have been meant.
	known []string
}

// has reports whether a topic is named, and notes by which words.
func (c *choice) has(source, target string) bool {
	found := false
	c.known = append(c.known, source)
	for _, word := range c.words {
		for _, name := range []string{source, target} {
			// Names hold no character that is special to path.Match; a malformed
			// word matches nothing.
			if ok, err := path.Match(word, name); err == nil && ok {
				c.matched[word], found = true, true
			}
		}
	}
	return found
}

// missed is an error about a word that names no topic.
func (c *choice) missed() error {
	i := slices.IndexFunc(c.words, func(w string) bool { return !c.matched[w] })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("no topic %q is selected by topics.include%s", c.words[i], spell.DidYouMean(c.words[i], c.known))
}

// planned counts the partitions of a topic's plan by what is to be shown.
type planned struct {
	data, pads, gaps *int64
	seconds          *float64
	estimated        bool
}

// sum adds up partitions; the time is that of the slowest. A sum over something
// unknown is unknown.
func sum(partitions []survey.PartitionPlan) planned {
	p := planned{data: new(int64), pads: new(int64), gaps: new(int64), seconds: new(float64)}
	add := func(into **int64, n *int64) {
		switch {
		case n == nil:
			*into = nil
		case *into != nil:
			**into += *n
		}
	}
	for _, x := range partitions {
		add(&p.data, x.DataBytes)
		add(&p.pads, x.PadOffsets)
		add(&p.gaps, x.GapOffsets)
		switch {
		case x.EstimatedSeconds == nil:
			p.seconds = nil
		case p.seconds != nil:
			*p.seconds = max(*p.seconds, *x.EstimatedSeconds)
		}
		p.estimated = p.estimated || x.GapEstimated
	}
	if len(partitions) == 0 {
		return planned{}
	}
	return p
}
