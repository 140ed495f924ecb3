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
		Usage: "go on with what is halted: try again, accept it, or mirror anew",
		UsageText: "klink repair --retry -c klink.yaml [--link NAME] [TOPIC ... [--partition N]] [--dry-run] [--yes]\n" +
			"klink repair --accept -c klink.yaml [--link NAME] TOPIC ... [--partition N] [--dry-run] [--yes]\n" +
			"klink repair --recreate -c klink.yaml [--link NAME] TOPIC ... [--dry-run] [--yes]\n" +
			"klink repair --group NAME --accept -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes]",
		Description: "  --retry     try again, once what caused the halt is put right. What does not hold still halts\n" +
			"              again: nothing is accepted by it. Without TOPIC, all that is HALTED.\n\n" +
			"  --accept    go on from the target's end although it holds something else than the source, for\n" +
			"              DIVERGED, FOREIGN_WRITE, OVERSHOT and RETENTION_OVERRUN. Nothing on the target is\n" +
			"              changed: what differs stays there, is entered in the ledger as accepted, and is\n" +
			"              compared no more. What the source writes below the target's end is not mirrored.\n" +
			"              For RETENTION_OVERRUN the target is padded over the offsets that are gone. Needs a\n" +
			"              running klink. Where the records must be right, use --recreate.\n\n" +
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
		&cli.BoolFlag{Name: flagAccept, Usage: "go on from the target's end; with --group: take the group's offsets on the target over"},
		&cli.IntSliceFlag{Name: flagPartition, Usage: "with --retry and --accept: only partition `N` of the topic"},
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
	group := c.String(flagGroup) != ""
	switch {
	case ways != 1:
		return usage("give one of --retry, --accept and --recreate")
	case group && !c.Bool(flagAccept):
		return usage("--group goes with --accept")
	case c.IsSet(flagPartition) && (c.Bool(flagRecreate) || group || c.NArg() != 1):
		return usage("--partition goes with --retry or --accept, and one topic")
	case c.Bool(flagRecreate) && c.NArg() == 0:
		return usage("--recreate needs the topics to be named, since it deletes them on the target")
	case c.Bool(flagAccept) && !group && c.NArg() == 0:
		return usage("--accept needs the topics to be named, since what they hold stays different from the source for good")
	}
	switch {
	case c.Bool(flagRetry):
		return s.order(c, retrying(numbered(c.IntSlice(flagPartition))))
	case c.Bool(flagRecreate):
		return s.order(c, recreating)
	case group:
		return s.acceptGroup(c)
	default:
		return s.order(c, accepting(numbered(c.IntSlice(flagPartition))))
	}
}

// numbered are partitions by flags, sorted; none is all.
func numbered(flags []int) []int32 {
	var out []int32
	for _, n := range flags {
		out = append(out, int32(n))
	}
	slices.Sort(out)
	return out
}

// haltedOf lists the halted partitions of a topic, of those that are named, and with
// the reasons that are; none is all.
func haltedOf(t state.Topic, partitions []int32, reasons ...state.Reason) []int32 {
	return partitionsIn(t, func(p state.Partition) bool {
		return p.State == state.Halted && (len(partitions) == 0 || slices.Contains(partitions, p.Partition)) &&
			(len(reasons) == 0 || slices.Contains(reasons, state.Reason(p.Reason)))
	})
}

// retrying is the order to try halted partitions again.
func retrying(partitions []int32) order {
	halted := func(t state.Topic) []int32 { return haltedOf(t, partitions) }
	return order{name: "repair", verb: intent.Retry, done: "tried again", partitions: partitions,
		title:  "to be tried again",
		effect: "What does not hold still halts again: nothing is accepted by this.",
		settled: func(_ intent.Intent, t topicResult) (string, bool) {
			return "is not halted, as last recorded", len(halted(t.recorded)) == 0
		},
		inspect: func(_ context.Context, _ Console, t *topicResult) error {
			t.Detail = haltsOf(t.recorded, halted(t.recorded))
			return nil
		},
		confirmed: noLongerHalted(halted)}
}

// noLongerHalted waits until no partition is halted that a function picks, and
// those that were have been looked at again: PENDING, one may halt anew.
func noLongerHalted(halted func(state.Topic) []int32) func(*sight, topicResult, int32) ([]int32, bool) {
	return func(now *sight, t topicResult, _ int32) ([]int32, bool) {
		is, was := now.reported(t.SourceTopic), halted(t.recorded)
		still := append(halted(is), partitionsIn(is, func(p state.Partition) bool {
			return p.State == state.Pending && slices.Contains(was, p.Partition)
		})...)
		return still, len(still) == 0
	}
}

// recreating is the order to mirror topics anew.
var recreating = order{name: "repair", verb: intent.Recreate, want: intent.Mirror, done: "mirrored anew",
	title: "to be deleted on the target and mirrored anew",
	effect: "The target topics are deleted with all their records, and made again with the source's records,\n" +
		"in mirror mode at the source's offsets. What the source does not have any more is gone.",
	settled: func(intent.Intent, topicResult) (string, bool) { return "", false },
	inspect: func(ctx context.Context, con Console, t *topicResult) error {
		if err := con.Deletable(ctx, t.SourceTopic); err != nil {
			t.fail(reasonRefused, err.Error(), "find out who made it; once it is deleted, give the command again")
			return nil
		}
		t.Detail = deletes(*t, func(n int32) bool { return con.Wrote(t.SourceTopic, n) })
		return nil
	},
	act: func(ctx context.Context, con Console, t *topicResult) error { return con.Delete(ctx, t.SourceTopic) },
	confirmed: func(now *sight, t topicResult, _ int32) ([]int32, bool) {
		mirror, made := now.Mirror(t.SourceTopic)
		return nil, made && mirror.TargetID != t.mirror.TargetID && goesOn(now.reported(t.SourceTopic))
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

// deletes says what is lost with a target topic. wrote tells whether klink wrote to a
// partition of it.
func deletes(t topicResult, wrote func(partition int32) bool) string {
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
	differ := slices.DeleteFunc(haltedOf(t.recorded, nil, state.Diverged), wrote)
	if len(haltedOf(t.recorded, nil, state.TargetNotEmpty))+len(differ) > 0 {
		said += "; klink did not write what it holds"
	}
	if t.want == intent.Stopped {
		said += "; it was promoted or failed over: records that were written to it since are on no other cluster"
	}
	return said
}
