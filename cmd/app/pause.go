package app

import (
	"time"

	"github.com/urfave/cli/v2"

	"klink/linker/intent"
	"klink/linker/state"
)

// stateOf is the state of a topic whose intent is obeyed, where there is only one.
var stateOf = map[intent.Want]state.State{intent.Paused: state.Paused, intent.Stopped: state.Stopped, intent.Removed: state.Removed}

var (
	pausing = order{name: "pause", verb: intent.Pause, link: true, want: intent.Paused, done: "paused", already: "was paused before",
		title:     "to be paused",
		effect:    "Nothing more is copied, trimmed or committed for them until klink resume; the target keeps what\nit has, and the source's retention goes on: what it deletes meanwhile is lost to the mirror.",
		confirmed: acknowledged}
	resuming = order{name: "resume", verb: intent.Resume, link: true, want: intent.Mirror, done: "mirrored again", already: "was not paused",
		title:     "to be mirrored again",
		effect:    "Mirroring goes on where the target ends.",
		confirmed: leftPause}
)

// timeoutFlag is how long to wait until a command is obeyed.
func timeoutFlag(d time.Duration, usage string) cli.Flag {
	return &cli.DurationFlag{Name: flagTimeout, Value: d, Usage: usage}
}

func (s *shell) pauseCommand() *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "stop copying topics, or the whole link, until resume",
		UsageText: "klink pause -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes] [-o table|json]\nklink pause --target HOST:PORT",
		Description: "Writes the order to the target, where every klink of the link reads and obeys it within a\n" +
			"second: it ends what is under way, and copies, trims and commits nothing more for these topics.\n" +
			"Needs the target alone. The order outlives restarts; where no klink runs, it takes effect at\n" +
			"the next start. klink resume ends it.\n\n" +
			"While paused, the source's retention goes on. What it deletes before klink resume is lost to\n" +
			"the mirror: the topic then halts with RETENTION_OVERRUN.\n\n" +
			"Without TOPIC the link as a whole is paused, with topics that are found later too. TOPIC is a\n" +
			"name on either side, or a glob with *. Exits with 1 where a topic was not paused, or where a\n" +
			"klink that runs did not confirm it within --timeout; then the order is on record all the same.",
		Flags: changingFlags(timeoutFlag(defaultTimeout, "wait up to `TIME` until it is obeyed")),
		Action: func(c *cli.Context) error {
			return s.order(c, pausing)
		},
	}
}

func (s *shell) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "go on with what was paused",
		UsageText: "klink resume -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes] [-o table|json]\nklink resume --target HOST:PORT",
		Description: "Ends klink pause: mirroring goes on where the target ends. Needs the target alone. Where no\n" +
			"klink runs, it takes effect at the next start.\n\n" +
			"Without TOPIC it ends the pause of the link as a whole; topics that were paused by name stay\n" +
			"paused until they are resumed by name. TOPIC is a name on either side, or a glob with *.\n" +
			"Exits with 1 where a topic may not be resumed (a promoted one stays STOPPED), or where a klink\n" +
			"that runs did not take it up within --timeout.",
		Flags: changingFlags(timeoutFlag(defaultTimeout, "wait up to `TIME` until it is obeyed")),
		Action: func(c *cli.Context) error {
			return s.order(c, resuming)
		},
	}
}

// leftPause tells whether a topic was seen to be mirrored since it was resumed.
func leftPause(now *sight, t topicResult, _ int32) (missing []int32, ok bool) {
	is := now.reported(t.SourceTopic)
	missing = partitionsIn(is, func(p state.Partition) bool { return p.State == state.Paused })
	return missing, len(missing) == 0 && (len(is.Partitions) > 0 || is.State != state.Paused)
}

// topicOf finds a topic of a link by its name on the source.
func topicOf(l state.Link, source string) (state.Topic, bool) {
	for _, t := range l.Topics {
		if t.SourceTopic == source {
			return t, true
		}
	}
	return state.Topic{}, false
}

// chooseTopics keeps the topics of a link that the words name, all without words.
func chooseTopics(l state.Link, words []string) ([]state.Topic, error) {
	q := question{topics: words}
	r, err := q.choose(state.Report{Links: []state.Link{l}})
	if err != nil {
		return nil, err
	}
	return r.Links[0].Topics, nil
}

// namedTopics are the source topics that words name; none without words.
func namedTopics(l state.Link, words []string) ([]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	chosen, err := chooseTopics(l, words)
	var names []string
	for _, t := range chosen {
		names = append(names, t.SourceTopic)
	}
	return names, err
}
