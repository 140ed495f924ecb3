package app

import (
	"github.com/urfave/cli/v2"
)

var (
	forecasting = switching{name: "forecast", do: Switcher.Forecast, access: LookOnly, look: LookOnly}
	failingOver = switching{name: "failover", do: Switcher.Failover, access: TargetAlone, look: LookOnly,
		effect: "Mirroring of these topics ends for good: what the source has beyond is lost to the target, and\nwhat was under way is shut out by a fence. The source's own settings come into force.",
		next: "These topics are STOPPED: no klink writes to them any more. Producers and consumers may go on at\n" +
			"the target, consumers from their committed offsets. In mirror mode klink reverse is the way home;\nin checkpoint mode a link of its own is."}
	promoting = switching{name: "promote", do: Switcher.Promote, access: BothSides, look: BothSides,
		effect: "Mirroring of these topics ends for good, all together, once the target has all that the source\nhas; until then nothing changes. Producers must have stopped at the source.",
		next: "These topics are STOPPED: no klink writes to them any more. Producers and consumers may go on at\n" +
			"the target, consumers from their committed offsets. In mirror mode klink reverse mirrors the other\nway; in checkpoint mode a link of its own does."}
)

func (s *shell) forecastCommand() *cli.Command {
	return &cli.Command{
		Name:      "forecast",
		Usage:     "say what a failover now would lose, and what consumers would read again",
		UsageText: "klink forecast -c klink.yaml [--link NAME] [TOPIC ...] [-o table|json]\nklink forecast --target HOST:PORT [TOPIC ...]",
		Description: "Tells what klink failover would print, and writes nothing. Needs the target alone, and no\n" +
			"running klink. For rehearsals, and to know beforehand whether a right is missing that a\n" +
			"failover would need.\n\n" + switchNumbers,
		Flags:  append(linkFlags(), outputFlag()),
		Action: func(c *cli.Context) error { return s.switchOver(c, forecasting) },
	}
}

// switchNumbers explains what the three commands print.
const switchNumbers = "  last mirrored   the last offset of the source that is on the target\n" +
	"  source end      the source's last stable offset as a klink last saw it, and when that was\n" +
	"  lost at most    offsets of the source up to there that the target lacks; markers count too\n" +
	"  unseen seconds  the time since: what the source took in during it is lost as well; a klink\n" +
	"                  that runs puts on record every few seconds that it looked\n" +
	"  open records    offsets in transactions that were open then, and so are not mirrored\n" +
	"  records to read offsets that a group goes through on the target, from its commit on; markers\n" +
	"                  and aborted records count too where offsets are kept\n" +
	"  read again      those of them that it had read on the source by its last commit there; in\n" +
	"                  checkpoint mode beside what the offset syncs of a MirrorMaker 2 would give\n\n" +
	"? means unknown, and never 0. Without TOPIC it is about all topics of the link; each\n" +
	"partition has a line, of more than 100 those that need a look, or all where topics are named.\n" +
	"TOPIC is a name on either side, or a glob with *."

func (s *shell) failoverCommand() *cli.Command {
	return &cli.Command{
		Name:      "failover",
		Usage:     "end mirroring at once, with the target alone, and say what is lost",
		UsageText: "klink failover -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes] [-o table|json]\nklink failover --target HOST:PORT [TOPIC ...] --yes",
		Description: "Stops mirroring, shuts out what may still be under way, and brings the source's own settings\n" +
			"into force on the target as they were last seen, so that retention works and producers can\n" +
			"write. It needs the target alone: the source may be gone, and klink's machine too. Takes some\n" +
			"seconds. To lose nothing while the source lives, use klink promote.\n\n" +
			"A klink that runs is told, and confirms. Whatever does not confirm (it is dead, hangs, or is\n" +
			"cut off) is shut out by a fence: one transaction marker per partition, which takes one offset\n" +
			"and which no consumer sees. That needs Alter (or ClusterAction) on the target cluster. A\n" +
			"partition that could not be fenced is listed as UNFENCED, and this command exits with 1;\n" +
			"give it again to do the rest. Doing so is always safe.\n\n" +
			"Afterwards the topics are STOPPED, for good and for every klink. Producers and consumers go on\n" +
			"at the target. klink reverse is the way home in mirror mode, klink repair --recreate starts over.\n\n" + switchNumbers,
		Flags:  changingFlags(),
		Action: func(c *cli.Context) error { return s.switchOver(c, failingOver) },
	}
}

func (s *shell) promoteCommand() *cli.Command {
	return &cli.Command{
		Name:      "promote",
		Usage:     "end mirroring without loss, once the target has everything",
		UsageText: "klink promote -c klink.yaml [--link NAME] [TOPIC ...] [--timeout 5m] [--dry-run] [--yes] [-o table|json]",
		Description: "For a planned switch: stop the producers at the source, then promote. Waits until the target\n" +
			"has all that the source has, in every partition of all topics named, and until the offsets of\n" +
			"consumer groups are carried over. Once the source has been at rest for 2 seconds (or half of\n" +
			"--timeout), it holds the mirrors, looks at the source once more, and ends them together; the\n" +
			"source's own settings come into force on the target.\n\n" +
			"Needs both clusters and a running klink. All topics are promoted or none. Where the source\n" +
			"goes on moving, the mirrors are held and let go again until it rests. Where it does not, holds\n" +
			"an open transaction or cannot be reached, nothing has changed when --timeout is over: exit\n" +
			"code 4, with the numbers. Mirroring goes on; give it again, or use klink failover to go on\n" +
			"without what is missing. Where no klink confirms that it stopped, that is told earlier.\n\n" +
			"Nothing keeps producers from the source, and klink cannot see one that rests for longer\n" +
			"between two bursts. The source is asked once more after the end, and each time the command is given\n" +
			"again: what it took in meanwhile is lost to the target, the topic is listed as LATE_RECORDS,\n" +
			"and the exit code is 1. The topics are STOPPED all the same.\n\n" +
			"Afterwards the topics are STOPPED, for good and for every klink. Consumers that committed\n" +
			"read nothing again. In mirror mode klink reverse mirrors the other way.\n\n" + switchNumbers,
		Flags:  changingFlags(timeoutFlag(promoteTimeout, "wait up to `TIME` until all is mirrored")),
		Action: func(c *cli.Context) error { return s.switchOver(c, promoting) },
	}
}
