package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/linker/intent"
	"klink/linker/state"
)

func (s *shell) removeCommand() *cli.Command {
	return &cli.Command{
		Name:      "remove",
		Usage:     "take topics, or the whole link, off the record; their target topics stay",
		UsageText: "klink remove -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes] [-o table|json]\nklink remove --target HOST:PORT [TOPIC ...]",
		Description: "Ends mirroring of the topics, brings the source's own settings into force on their target\n" +
			"topics (retention works again), and takes all that is on record of the mirrors off it. The\n" +
			"target topics and their records stay. Needs the target alone.\n\n" +
			"For a switch use klink promote or klink failover: remove records no cut, and shuts nothing out\n" +
			"by a fence; and klink reverse finds no way home for what was removed. Topics that are mirrored still (not PAUSED, not STOPPED) are shown as such before\n" +
			"anything is done.\n\n" +
			"A topic that was removed stays out although topics.include may still select it. To mirror it\n" +
			"again: klink repair --recreate starts over, klink adopt goes on with what is there.\n\n" +
			"Without TOPIC the link itself is taken off the record too, which needs every klink of the link\n" +
			"to be stopped. TOPIC is a name on either side, or a glob with *. What was begun and could not\n" +
			"be finished (exit code 1) is finished by giving the command again.",
		Flags: changingFlags(timeoutFlag(defaultTimeout, "wait up to `TIME` until it is obeyed")),
		Action: func(c *cli.Context) error {
			return s.order(c, removing(c.Args().Present()))
		},
	}
}

// removing is the order to remove topics, and without any named the link.
func removing(named bool) order {
	o := order{name: "remove", verb: intent.Remove, want: intent.Removed, done: "removed",
		title: "to be taken off the record",
		effect: "The target topics and their records stay; the source's own settings come into force on them.\n" +
			"What is on record of these mirrors is gone for good: ids, lineage, ledger, and the cuts that\n" +
			"klink reverse goes by.",
		// One that was removed before is removed again: what was left of it then goes.
		settled:   func(intent.Intent, topicResult) (string, bool) { return "", false },
		confirmed: acknowledged,
		inspect:   warnMirrored,
		finish: func(ctx context.Context, con Console, t *topicResult) error {
			notes, err := con.Forget(ctx, t.SourceTopic)
			t.Detail = strings.Join(notes, "; ")
			return err
		}}
	if !named {
		o.close = removeLink
	}
	return o
}

// warnMirrored says of a topic that is not at rest what removing it means.
func warnMirrored(_ context.Context, _ Console, t *topicResult) error {
	switch t.State {
	case state.Stopped, state.Paused, state.Removed:
	default:
		t.Detail = "while it is " + string(t.State) + ": what the source has beyond is not on the target"
	}
	return nil
}

// errRunning keeps a link on record.
var errRunning = errors.New("a klink runs on the link, and would put it on record again: stop it, and give the command again to take the link itself off the record")

// removeLink takes the link itself off the record.
func removeLink(ctx context.Context, con Console) error {
	switch n, err := con.Workers(ctx); {
	case err != nil:
		return fmt.Errorf("whether a klink runs on the link is not known, so that its own record stays: %w", err)
	case n > 0:
		return errRunning
	}
	return con.ForgetLink(ctx)
}
