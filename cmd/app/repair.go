package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/linker/intent"
	"klink/linker/state"
)

const (
	flagRetry     = "retry"
	flagRecreate  = "recreate"
	flagAccept    = "accept"
	flagPartition = "partition"
)

// repairTimeout is how long repair waits until what was halted goes on.
const repairTimeout = 30 * time.Second

func (s *shell) repairCommand() *cli.Command {
	return &cli.Command{
		Name:  "repair",
		Usage: "go on with what is halted: try again, or mirror anew",
		UsageText: "klink repair --retry -c klink.yaml [--link NAME] [TOPIC ... [--partition N]] [--dry-run] [--yes]\n" +
			"klink repair --recreate -c klink.yaml [--link NAME] TOPIC ... [--dry-run] [--yes]\n" +
			"klink repair --group NAME --accept -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes]",
		Description: "  --retry     try again, once what caused the halt is put right. What does not hold still halts\n" +
			"              again: nothing is accepted by it. Without TOPIC, all that is HALTED.\n\n" +
			"  --recreate  delete the target topic and mirror it again from the source's start, with its\n" +
			"              offsets. Shows what is deleted before. Only a topic that this link has on record\n" +
			"              is deleted, by its id. Consumers of the target topic lose their place until it\n" +
			"              is there again, and records that only the target had are gone. It takes the time\n" +
			"              that klink plan tells.\n\n" +
			"  --group NAME --accept\n" +
			"              take the group's offsets on the target over (TARGET_OWNED): klink overwrites\n" +
			"              them with the source's from now on, while the group has no members there.\n\n" +
			"The orders go to the target; a klink that runs obeys them, else they take effect at the next\n" +
			"start. Needs the target alone. TOPIC is a name on either side, or a glob with *. Exits with 1\n" +
			"where something is still halted when --timeout is over, or may not be repaired.",
		Flags:  repairFlags(),
		Action: s.repair,
	}
}

// repairFlags have a --group of their own: a link made of flags needs no groups
// here.
func repairFlags() []cli.Flag {
	all := slices.DeleteFunc(changingFlags(
		&cli.BoolFlag{Name: flagRetry, Usage: "try halted partitions again"},
		&cli.BoolFlag{Name: flagRecreate, Usage: "delete the target topics and mirror them anew"},
		&cli.BoolFlag{Name: flagAccept, Usage: "with --group: take the group's offsets on the target over"},
		&cli.IntSliceFlag{Name: flagPartition, Usage: "with --retry: only partition `N` of the topic"},
		timeoutFlag(repairTimeout, "wait up to `TIME` until it goes on")),
		func(f cli.Flag) bool { return f.Names()[0] == flagGroup })
	return append(all, &cli.StringFlag{Name: flagGroup, Usage: "with --accept: the consumer group called `NAME`"})
}

func (s *shell) repair(c *cli.Context) error {
	usage := func(what string) error { return &UsageError{Command: "repair", What: what} }
	ways := 0
	for _, f := range []string{flagRetry, flagRecreate, flagAccept} {
		if c.Bool(f) {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usage("give one of --retry, --recreate, and --accept with --group")
	case c.Bool(flagAccept) != (c.String(flagGroup) != ""):
		return usage("--group and --accept go together")
	case c.IsSet(flagPartition) && (!c.Bool(flagRetry) || c.NArg() != 1):
		return usage("--partition goes with --retry and one topic")
	case c.Bool(flagRecreate) && c.NArg() == 0:
		return usage("--recreate needs the topics to be named, since it deletes them on the target")
	}
	switch {
	case c.Bool(flagRetry):
		return s.order(c, retrying(c.IntSlice(flagPartition)))
	case c.Bool(flagRecreate):
		return s.order(c, recreating)
	default:
		return s.acceptGroup(c)
	}
}

// retrying is the order to try halted partitions again; of all without numbers.
func retrying(numbers []int) order {
	var partitions []int32
	for _, n := range numbers {
		partitions = append(partitions, int32(n))
	}
	slices.Sort(partitions)
	halted := func(t state.Topic) []int32 {
		return partitionsIn(t, func(p state.Partition) bool {
			return p.State == state.Halted && (len(partitions) == 0 || slices.Contains(partitions, p.Partition))
		})
	}
	return order{name: "repair", verb: intent.Retry, done: "tried again", partitions: partitions,
		title:  "to be tried again",
		effect: "What does not hold still halts again: nothing is accepted by this.",
		settled: func(_ intent.Intent, t topicResult) (string, bool) {
			return "is not halted", len(halted(t.recorded)) == 0
		},
		inspect: func(_ context.Context, _ Console, t *topicResult) error {
			t.Detail = haltsOf(t.recorded, halted(t.recorded))
			return nil
		},
		confirmed: func(con Console, t topicResult, _ int32) ([]int32, bool) {
			now, _ := topicOf(con.Link(), t.SourceTopic)
			still := halted(now)
			return still, len(still) == 0
		}}
}

// recreating is the order to mirror topics anew.
var recreating = order{name: "repair", verb: intent.Recreate, want: intent.Mirror, done: "mirrored anew",
	title: "to be deleted on the target and mirrored anew",
	effect: "The target topics are deleted with all their records, and made again with the source's records\n" +
		"at the source's offsets. What the source does not have any more is gone.",
	settled: func(intent.Intent, topicResult) (string, bool) { return "", false },
	inspect: func(_ context.Context, _ Console, t *topicResult) error {
		t.Detail = deletes(*t)
		return nil
	},
	act: func(ctx context.Context, con Console, t *topicResult) error { return con.Delete(ctx, t.SourceTopic) },
	confirmed: func(con Console, t topicResult, _ int32) ([]int32, bool) {
		mirror, made := con.Mirror(t.SourceTopic)
		now, reported := topicOf(con.Link(), t.SourceTopic)
		return nil, made && mirror.TargetID != t.mirror.TargetID && reported && goesOn(now)
	}}

// goesOn tells whether a topic is mirrored again.
func goesOn(t state.Topic) bool {
	at := func(s state.State) bool {
		return slices.Contains([]state.State{state.Active, state.CatchingUp, state.Padding}, s)
	}
	return len(t.Partitions) > 0 && len(partitionsIn(t, func(p state.Partition) bool { return !at(p.State) })) == 0
}

func partitionsIn(t state.Topic, is func(state.Partition) bool) []int32 {
	var out []int32
	for _, p := range t.Partitions {
		if is(p) {
			out = append(out, p.Partition)
		}
	}
	return out
}

// haltsOf says why partitions are halted, each reason once.
func haltsOf(t state.Topic, halted []int32) string {
	var reasons []string
	of := map[string][]int32{}
	for _, p := range t.Partitions {
		if !slices.Contains(halted, p.Partition) {
			continue
		}
		if !slices.Contains(reasons, p.Reason) {
			reasons = append(reasons, p.Reason)
		}
		of[p.Reason] = append(of[p.Reason], p.Partition)
	}
	said := ""
	for i, r := range reasons {
		if i > 0 {
			said += ", "
		}
		said += r + " of partitions " + show.Ranges(of[r])
	}
	return said
}

// deletes says what is lost with a target topic.
func deletes(t topicResult) string {
	if len(t.recorded.Partitions) == 0 {
		return "its target topic is not on record, and is left alone"
	}
	offsets := new(int64)
	for _, p := range t.recorded.Partitions {
		if p.TargetStart == nil || p.TargetEnd == nil || offsets == nil {
			offsets = nil
			continue
		}
		*offsets += *p.TargetEnd - *p.TargetStart
	}
	held := "an unknown number of"
	if offsets != nil {
		held = humanize.Comma(*offsets)
	}
	said := fmt.Sprintf("topic %s with %s offsets in %s is deleted", t.TargetTopic, held, quantity(len(t.recorded.Partitions), "partition"))
	if t.want == intent.Stopped {
		said += "; it was promoted or failed over: records that were written to it since are on no other cluster"
	}
	return said
}
