package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/linker/reverse"
)

const (
	flagNewName = "name"
	flagWrite   = "write"
)

// Reverser turns a link around; see reverse.Reverser.
type Reverser interface {
	// Topics lists the source topics of the link that words name; all without words.
	Topics(words []string) ([]string, error)
	Check(ctx context.Context, r reverse.Request) (reverse.Result, error)
	Do(ctx context.Context, r reverse.Request) (reverse.Result, error)
	Close()
}

func (s *shell) reverseCommand() *cli.Command {
	return &cli.Command{
		Name:      "reverse",
		Usage:     "mirror the other way, after promote or failover",
		UsageText: "klink reverse -c klink.yaml [--link NAME] [TOPIC ...] [--write FILE] [--recreate] [--dry-run] [--yes] [-o table|json]",
		Description: "The way home: the old source becomes the target of a new link. Where its log is what the\n" +
			"promoted side has, mirroring goes on in place, and nothing is copied again. Both clusters must\n" +
			"be up, the topics promoted or failed over, and no producer may write to the old source.\n\n" +
			"Per partition the log ends are compared, and the records below and above the cut. Where the\n" +
			"old source has records that the target never got, that tail is shown with its count, offsets\n" +
			"and times, and nothing is done: exit code 4. Export it, then give --recreate: the old source's\n" +
			"topic is deleted and mirrored anew with the promoted side's offsets, and the tail is lost.\n\n" +
			"All topics named are turned around, or none; without TOPIC all of the link. Names that were\n" +
			"changed on the way are changed back, and the offsets of consumer groups go the same way home.\n\n" +
			"The new link is put on record on the old source, which is klink's target from now on and needs\n" +
			"its rights there; its file is printed, or written with --write. klink run with that file\n" +
			"mirrors the other way, and with the old file reports STOPPED.",
		Flags: changingFlags(
			&cli.StringFlag{Name: flagNewName, Usage: "call the new link `NAME`, by default the old name with -back, or without it"},
			&cli.StringFlag{Name: flagWrite, Usage: "write the new link's file to `FILE`, which must not be there"},
			&cli.BoolFlag{Name: flagRecreate, Usage: "delete and mirror anew what cannot go on in place"}),
		Action: s.reverse,
	}
}

func (s *shell) reverse(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err == nil {
		err = s.mayChange(c)
	}
	if err != nil {
		return err
	}
	if c.IsSet(flagNewName) {
		if err := config.CheckName(flagName(flagNewName), c.String(flagNewName)); err != nil {
			return err
		}
	}
	cfg, err := oneLink(c, configOptions(c))
	if err != nil {
		return err
	}
	r, err := s.reverseLink(c, cfg)
	if err != nil && (len(r.Topics) == 0 || errors.Is(err, errDeclined)) {
		return reverseError(err)
	}
	var printed error
	if asJSON {
		printed = show.JSON(s.out, "reverse", r)
	} else {
		printed = s.printReverse(s.out, r, err)
	}
	return errors.Join(printed, reverseOutcome(r, err))
}

// reverseLink shows what would be done and asks, where that is wanted, and does it.
func (s *shell) reverseLink(c *cli.Context, cfg *config.Config) (r reverse.Result, err error) {
	link := cfg.Links[0]
	req := reverse.Request{Link: link.Name, Next: c.String(flagNewName), Recreate: c.Bool(flagRecreate), Write: c.String(flagWrite)}
	if req.Definition, err = definition(configOptions(c).File, link); err != nil {
		return r, err
	}
	turner, err := s.parts.Reverse(c.Context, cfg)
	if err != nil {
		return r, err
	}
	defer turner.Close()
	if req.Topics, err = turner.Topics(c.Args().Slice()); err != nil {
		return r, err
	}
	if c.Bool(flagDryRun) {
		return turner.Check(c.Context, req)
	}
	if !c.Bool(flagYes) {
		r, err = turner.Check(c.Context, req)
		if err != nil || r.Failed > 0 {
			return r, err
		}
		var plan bytes.Buffer
		if err = s.printReverse(&plan, r, nil); err == nil {
			err = s.confirm(c, plan.String())
		}
		if err != nil {
			return r, err
		}
	}
	return turner.Do(c.Context, req)
}

// reverseOutcome is the error of a result.
func reverseOutcome(r reverse.Result, err error) error {
	switch {
	case err != nil:
		return reverseError(err)
	case r.Loses():
		return &LossError{Command: "reverse", Err: fmt.Errorf("nothing was done: %d of %s would lose records, or could", r.Failed, quantity(len(r.Topics), "topic"))}
	case r.Failed > 0:
		return fmt.Errorf("reverse: nothing was done: %d of %s cannot be turned around", r.Failed, quantity(len(r.Topics), "topic"))
	default:
		return nil
	}
}

func reverseError(err error) error {
	if errors.Is(err, reverse.ErrUnwritten) {
		return fmt.Errorf("reverse: %w", err)
	}
	if errors.Is(err, reverse.ErrRequest) || errors.Is(err, reverse.ErrFile) {
		return &UsageError{Command: "reverse", What: err.Error()}
	}
	return fmt.Errorf("reverse: %w", err)
}

// printReverse prints what was found, topic by topic, and the new link's file.
// failed is what ended it, nil for nothing.
func (s *shell) printReverse(w io.Writer, r reverse.Result, failed error) error {
	_, err := io.WriteString(w, s.reverseText(r, failed))
	return err
}
