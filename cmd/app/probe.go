package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/linker/survey"
)

func (s *shell) probeCommand() *cli.Command {
	return &cli.Command{
		Name:      "probe",
		Usage:     "try on a target whether mirror mode works there, and how fast",
		UsageText: "klink probe -c klink.yaml [--link NAME] [-o table|json]\nklink probe --target HOST:PORT",
		Description: "Makes a topic " + survey.ScratchPrefix + "* on the target, tries on it what keeping offsets rests on,\n" +
			"measures how fast it is, and removes the topic again, also after errors and Ctrl-C. Takes\n" +
			"some six seconds and writes up to 80 MB. Nothing else on the target is touched, and the\n" +
			"source is not needed.\n\n" +
			"Rights are tried with the scratch topic's name; klink plan tells those that are missing on\n" +
			"the topics that are to be mirrored.\n\n" +
			"Exits with 1 where mirror mode cannot work, or where that could not be found out.",
		Flags:  append(linkFlags(), outputFlag()),
		Action: s.probe,
	}
}

func (s *shell) probe(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	if err := noTopics(c); err != nil {
		return err
	}
	o := configOptions(c)
	o.TargetOnly = true
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	if len(cfg.Links) > 1 {
		var names []string
		for _, l := range cfg.Links {
			names = append(names, l.Name)
		}
		return &UsageError{Command: "probe", What: "is about one target; choose with --link one of " + strings.Join(names, ", ")}
	}
	r, err := s.parts.Probe(c.Context, cfg)
	if err != nil {
		if c.Context.Err() != nil {
			err = c.Context.Err() // whatever it was in the midst of
		}
		return probeError(r, err)
	}
	if asJSON {
		err = show.JSON(s.out, "probe", r)
	} else {
		err = s.printProbe(r)
	}
	if err != nil {
		return err
	}
	switch {
	case !r.TopicRemoved:
		return fmt.Errorf("probe: %s", leftBehind(r))
	case !r.Verdict.Works():
		return fmt.Errorf("probe: %s", r.Summary)
	}
	return nil
}

// probeError says what ended a probe early, and what became of its topic.
func probeError(r survey.ProbeResult, err error) error {
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped")
	}
	switch {
	case r.Topic == "":
		return fmt.Errorf("probe: %w", err)
	case r.TopicRemoved:
		return fmt.Errorf("probe: %w; the scratch topic %s is removed", err, r.Topic)
	default:
		return fmt.Errorf("probe: %w; %s", err, leftBehind(r))
	}
}

func leftBehind(r survey.ProbeResult) string {
	return fmt.Sprintf("the scratch topic %s may still be there, remove it: %s", r.Topic, r.NotRemoved)
}
