package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/linker/intent"
	"klink/linker/state"
)

// accepting is the order to go on from the target's end.
func accepting(partitions []int32) order {
	halted := func(t state.Topic) []int32 { return haltedOf(t, partitions, state.Acceptable...) }
	return order{name: "repair", verb: intent.Accept, done: "accepted", partitions: partitions,
		title: "to be accepted as the target holds them",
		effect: "Nothing on the target is changed: what differs stays, is entered in the ledger, and is compared no\n" +
			"more. Mirroring goes on at the target's end; what the source writes below it is not mirrored.",
		settled: func(_ intent.Intent, t topicResult) (string, bool) {
			return "is not halted, as last recorded", len(haltedOf(t.recorded, partitions)) == 0
		},
		inspect: func(ctx context.Context, con Console, t *topicResult) error {
			return inspectHalts(ctx, con, t, halted(t.recorded))
		},
		confirmed: noLongerHalted(halted),
		finish: func(_ context.Context, con Console, t *topicResult) error {
			t.Detail = acceptedRanges(con, *t, halted(t.recorded))
			return nil
		}}
}

// inspectHalts names what would be accepted, and refuses what cannot be.
func inspectHalts(ctx context.Context, con Console, t *topicResult, halted []int32) error {
	if len(halted) == 0 {
		t.fail(reasonRefused, haltsOf(t.recorded, haltedOf(t.recorded, nil))+" cannot be accepted: there is nothing to go on from",
			"klink status tells what to do; --retry once it is done, or --recreate")
		return nil
	}
	if n, err := con.Workers(ctx); err == nil && n == 0 {
		t.fail(reasonRefused, "no klink runs, which has to look at what differs", "start klink run, and give the command again once it shows what is halted")
		return nil
	}
	var said []string
	for _, p := range t.recorded.Partitions {
		for _, n := range halted {
			if n == p.Partition {
				said = append(said, fmt.Sprintf("partition %d: %s: %s; the target ends at %s", n, p.Reason, p.Detail, show.Records(p.TargetEnd)))
			}
		}
	}
	t.Detail = strings.Join(said, "\n")
	return nil
}

// acceptedRanges tells what is on record as accepted.
func acceptedRanges(con Console, t topicResult, partitions []int32) string {
	var said []string
	for _, n := range partitions {
		if from, end, ok := con.Accepted(t.SourceTopic, n); ok {
			said = append(said, fmt.Sprintf("offsets %d to %d of partition %d", from, end-1, n))
		}
	}
	return strings.Join(said, ", ")
}

// groupResult is what became of an order about a group's offsets.
type groupResult struct {
	orderResult
	Group string `json:"group"`
}

// acceptGroup lets klink write a group's offsets on the target, whoever wrote them
// last.
func (s *shell) acceptGroup(c *cli.Context) error {
	con, asJSON, err := s.console(c)
	if err != nil {
		return err
	}
	defer con.Close()
	r, command, err := planAccept(con, c.String(flagGroup), c.Args().Slice())
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	said := fmt.Sprintf("link %s: klink takes the offsets of group %s on the target over, for %s: it overwrites them\nwith the source's while the group has no members on the target\n",
		r.Link, command.Group, aboutTopics(command))
	if r.DryRun = c.Bool(flagDryRun); !r.DryRun {
		err := s.confirm(c, said)
		if err == nil {
			err = con.Open(c.Context)
		}
		if err == nil {
			_, err = give(c.Context, con, command)
		}
		if err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	if asJSON {
		return show.JSON(s.out, "repair", r)
	}
	if r.DryRun {
		said += "nothing was done (--dry-run)\n"
	}
	_, err = fmt.Fprint(s.out, said)
	return err
}

// planAccept is the command about a group's offsets, and what would become of it.
func planAccept(con Console, group string, words []string) (groupResult, intent.Command, error) {
	link := con.Link()
	r := groupResult{Group: group, orderResult: orderResult{Link: link.Name, Topics: []topicResult{}}}
	command := newCommand(link.Name, intent.Accept, intent.Fold(con.Commands()).Next())
	names, err := namedTopics(link, words)
	if err != nil {
		return r, command, err
	}
	slices.Sort(names)
	command.Group, command.Topics = group, names
	for _, name := range names {
		t, _ := topicOf(link, name)
		r.Topics = append(r.Topics, topicResult{SourceTopic: name, TargetTopic: t.TargetTopic, State: t.State, OK: true})
	}
	return r, command, nil
}

func aboutTopics(c intent.Command) string {
	if len(c.Topics) == 0 {
		return "all topics of the link"
	}
	return few(c.Topics)
}
