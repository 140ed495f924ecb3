package app

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/linker/intent"
)

// groupResult is what became of an order about a group's offsets.
type groupResult struct {
	orderResult
	Group string `json:"group"`
}

// acceptGroup lets klink write a group's offsets on the target, whoever wrote them
// last.
func (s *shell) acceptGroup(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err == nil {
		err = s.mayChange(c)
	}
	if err != nil {
		return err
	}
	cfg, err := oneLink(c, targetOnly(c))
	if err != nil {
		return err
	}
	con, err := s.parts.Console(c.Context, cfg)
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	defer con.Close()
	link := con.Link()
	command := newCommand(link.Name, intent.Accept, intent.Fold(con.Commands()).Next())
	command.Group = c.String(flagGroup)
	if command.Topics, err = namedTopics(link, c.Args().Slice()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	r := groupResult{Group: command.Group, orderResult: orderResult{Link: link.Name, DryRun: c.Bool(flagDryRun), Topics: []topicResult{}}}
	for _, t := range link.Topics {
		for _, name := range command.Topics {
			if t.SourceTopic == name {
				r.Topics = append(r.Topics, topicResult{SourceTopic: name, TargetTopic: t.TargetTopic, State: t.State, OK: true})
			}
		}
	}
	said := fmt.Sprintf("link %s: klink takes the offsets of group %s on the target over, for %s: it overwrites them\nwith the source's while the group has no members on the target\n",
		link.Name, command.Group, aboutTopics(command))
	if !r.DryRun {
		if err := s.confirm(c, said); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
		if err = con.Open(c.Context); err == nil {
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

func aboutTopics(c intent.Command) string {
	if len(c.Topics) == 0 {
		return "all topics of the link"
	}
	return few(c.Topics)
}
