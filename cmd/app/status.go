package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/cmd/spell"
	"klink/linker/state"
)

func (s *shell) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show what is mirrored, how far, and what stands in the way",
		UsageText: "klink status [-c klink.yaml] [--link NAME] [TOPIC ...] [-o table|json]\nklink status --target HOST:PORT",
		Description: "Asks the running klink over HTTP. Where none answers, shows what klink last recorded\n" +
			"on the target cluster, and how old that is; the source is not needed for it.\n\n" +
			"TOPIC is a name on either side, or a glob with *; then each partition has its own line.\n" +
			"Lag is in records and in seconds since klink first saw what is not mirrored yet;\n" +
			"? means unknown.",
		Flags:  append(linkFlags(), httpFlag("ask the klink at `HOST:PORT`, by default at http.listen"), outputFlag()),
		Action: s.status,
	}
}

func (s *shell) status(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	q, err := newQuestion(c)
	if err != nil {
		return err
	}
	report, err := s.answer(c.Context, q)
	if err = unlessStopped(c.Context, err); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if report, err = q.choose(report); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if asJSON {
		return show.JSON(s.out, "status", show.Complete(report))
	}
	return s.printStatus(report, len(q.topics) == 0)
}

// question is what the user wants to know.
type question struct {
	// cfg is nil where nothing says which links are meant.
	cfg    *config.Config
	listen string
	link   string
	topics []string
}

func newQuestion(c *cli.Context) (*question, error) {
	q := &question{listen: config.Default().HTTP.Listen, link: c.String(flagLink), topics: c.Args().Slice()}
	origin := ""
	if v := c.String(flagHTTP); v != "" {
		q.listen, origin = v, flagName(flagHTTP)
	} else if v := os.Getenv("KLINK_HTTP_LISTEN"); v != "" {
		q.listen, origin = v, "KLINK_HTTP_LISTEN"
	}
	if !configured(c) {
		return q, config.CheckListen(origin, q.listen)
	}
	o := configOptions(c)
	o.TargetOnly = true
	cfg, err := config.Load(o)
	if err != nil {
		return nil, err
	}
	q.cfg, q.listen = cfg, cfg.HTTP.Listen
	return q, nil
}

// answer asks the daemon, else the target.
func (s *shell) answer(ctx context.Context, q *question) (state.Report, error) {
	report, err := askDaemon(ctx, q.listen)
	if err == nil {
		err = q.lacks(report)
	}
	if err == nil {
		return report, nil
	}
	if q.cfg == nil || s.parts.ReportFromTarget == nil {
		return state.Report{}, fmt.Errorf("no answer from a running klink: %w; with -c klink.yaml, or --target HOST:PORT, its last record on the target is shown", err)
	}
	report, targetErr := s.parts.ReportFromTarget(ctx, q.cfg)
	if targetErr != nil {
		return state.Report{}, errors.Join(fmt.Errorf("no answer from a running klink: %w", err), fmt.Errorf("and none from the target: %w", targetErr))
	}
	fmt.Fprintf(s.errOut, "klink: no answer from a running klink (%v); this is its last record on the target, %s\n", err, age(report.AsOf))
	return report, nil
}

// age says how old a report is.
func age(asOf time.Time) string {
	if asOf.IsZero() {
		return "of an unknown time"
	}
	return fmt.Sprintf("%s old", time.Since(asOf).Round(time.Second))
}

// lacks returns an error where a report is not about the links asked for: it is
// then from another klink.
func (q *question) lacks(r state.Report) error {
	var there []string
	for _, l := range r.Links {
		there = append(there, l.Name)
	}
	for _, name := range q.links() {
		if !slices.Contains(there, name) {
			return fmt.Errorf("the klink at %s mirrors %s and not %s", q.listen, orNothing(there), name)
		}
	}
	return nil
}

// links returns the names of the links asked for, empty for all.
func (q *question) links() []string {
	var names []string
	switch {
	case q.cfg != nil:
		for _, l := range q.cfg.Links {
			names = append(names, l.Name)
		}
	case q.link != "":
		names = []string{q.link}
	}
	return names
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// choose keeps the links and topics asked for.
func (q *question) choose(r state.Report) (state.Report, error) {
	if names := q.links(); len(names) > 0 {
		var kept []state.Link
		for _, l := range r.Links {
			if slices.Contains(names, l.Name) {
				kept = append(kept, l)
			}
		}
		if len(kept) > 0 || q.cfg == nil || !q.cfg.Unnamed {
			r.Links = kept // else it is the only one on record, and nobody named it
		}
	}
	if len(q.topics) == 0 {
		return r, nil
	}
	matched := map[string]bool{}
	var known []string
	r.Links = slices.Clone(r.Links)
	for i := range r.Links {
		var kept []state.Topic
		for _, t := range r.Links[i].Topics {
			known = append(known, t.SourceTopic)
			if q.wants(t, matched) {
				kept = append(kept, t)
			}
		}
		r.Links[i].Topics = kept
	}
	for _, want := range q.topics {
		if !matched[want] {
			return r, fmt.Errorf("no topic %q is mirrored%s", want, spell.DidYouMean(want, known))
		}
	}
	return r, nil
}

// wants reports whether a topic is asked for, and notes by which words.
func (q *question) wants(t state.Topic, matched map[string]bool) bool {
	found := false
	for _, want := range q.topics {
		for _, name := range []string{t.SourceTopic, t.TargetTopic} {
			// Names hold no character that is special to path.Match; a malformed
			// word matches nothing.
			if ok, err := path.Match(want, name); err == nil && ok {
				matched[want], found = true, true
			}
		}
	}
	return found
}
