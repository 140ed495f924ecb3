package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/intent"
	"klink/linker/state"
)

// Tail is the end of one partition of a target topic, and who wrote there last.
type Tail struct {
	Partition int32
	// Start and End (exclusive) are the log's.
	Start, End int64
	// Producer and Epoch are of the last batch, feed.Unknown and -1 where there is
	// none, or one of an old format.
	Producer int64
	Epoch    int16
	// Own is whether that producer is one of this mirror's.
	Own bool
}

func (s *shell) adoptCommand() *cli.Command {
	return &cli.Command{
		Name:      "adopt",
		Usage:     "go on with target topics that klink wrote and has no record of",
		UsageText: "klink adopt -c klink.yaml [--link NAME] [TOPIC ...] [--dry-run] [--yes] [-o table|json]\nklink adopt --target HOST:PORT [TOPIC ...] --yes\nklink adopt --from-mm2 -c klink.yaml [--link NAME] [TOPIC ...] [--offsets-topic TOPIC] [--connector NAME] [--dry-run] [--yes]",
		Description: "For when the control topic __klink was lost, or made anew. klink run then finds target topics\n" +
			"that a klink wrote, does not know whether they were promoted meanwhile, and halts them as\n" +
			"NOT_ADOPTED. Make sure that nothing but this link may write to them, then adopt them.\n\n" +
			"Looks at the end of every partition on the target. Where the last batch is this mirror's own,\n" +
			"the log counts as its own up to there, and klink goes on after comparing the tail. Where it is\n" +
			"nobody's of klink, nothing is adopted: klink compares that log with the source as a whole.\n" +
			"Refused are partitions that end with a fence (promoted or failed over), or with what another\n" +
			"mirror wrote.\n\n" +
			"Needs the target alone, and klink run to have found the topics. Without TOPIC all that are\n" +
			"halted as NOT_ADOPTED. TOPIC is a name on either side, or a glob with *. Exits with 1 where a\n" +
			"topic is refused, or does not go on within --timeout.\n\n" +
			"With --from-mm2 it takes over from a MirrorMaker 2 that was stopped, for a link in checkpoint\n" +
			"mode, before its first klink run. It compares the end of each target partition with the source,\n" +
			"near where Connect's offsets and the offset syncs lead to, and shows where klink goes on. Where\n" +
			"the target ends with the copy of a known record, nothing is copied twice, however MirrorMaker 2\n" +
			"ended; else it says how many records may be. Refused while MirrorMaker 2 seems to run. Needs both\n" +
			"clusters. checkpoint.source_alias, target_alias and replication_policy have to be MirrorMaker 2's.",
		Flags: changingFlags(append([]cli.Flag{timeoutFlag(repairTimeout, "wait up to `TIME` until it goes on")}, takeoverFlags()...)...),
		Action: func(c *cli.Context) error {
			if c.Bool(flagFromMM2) {
				return s.takeover(c)
			}
			return s.order(c, adopting)
		},
	}
}

// adopting is the order to go on with what is there.
var adopting = order{name: "adopt", verb: intent.Adopt, done: "adopted",
	title:  "to be adopted",
	effect: "klink goes on behind what the target topics hold. Nothing else may write to them.",
	settled: func(is intent.Intent, t topicResult) (string, bool) {
		return "needs no adoption", is.Want != intent.Removed && !is.Reversed() && len(notAdopted(t.recorded)) == 0
	},
	inspect: inspectTails,
	prepare: func(ctx context.Context, con Console, t *topicResult) error {
		if len(t.ends) == 0 {
			return nil
		}
		return con.Adopt(ctx, t.SourceTopic, t.ends)
	},
	confirmed: noLongerHalted(notAdopted)}

func notAdopted(t state.Topic) []int32 {
	return partitionsIn(t, func(p state.Partition) bool { return p.State == state.Halted && p.Reason == string(state.NotAdopted) })
}

// inspectTails looks at the ends of a topic's logs.
func inspectTails(ctx context.Context, con Console, t *topicResult) error {
	if len(t.recorded.Partitions) == 0 {
		t.Detail = "klink looks at it anew; if it then halts as NOT_ADOPTED, give the command again"
		return nil
	}
	tails, err := con.Tails(ctx, t.SourceTopic)
	if err != nil {
		return err
	}
	judgeTails(t, tails)
	return nil
}

// judgeTails says up to where the logs count as the mirror's, or fails the topic.
func judgeTails(t *topicResult, tails []Tail) {
	t.ends = map[int32]int64{}
	var own, foreign, empty []int32
	for _, x := range tails {
		switch {
		case x.Producer == feed.Unknown && x.Start >= x.End:
			empty = append(empty, x.Partition)
		case !appender.Computed(x.Producer):
			foreign = append(foreign, x.Partition)
		case !x.Own:
			t.fail(reasonRefused, fmt.Sprintf("partition %d ends at offset %d with what another mirror wrote (producer %d)", x.Partition, x.End, x.Producer),
				"find out which link mirrored into this topic; another source topic, or another cluster, has other records")
			return
		case x.Epoch > 0:
			t.fail(string(state.Fenced), fmt.Sprintf("partition %d ends at offset %d with a fence (producer epoch %d): it was promoted or failed over", x.Partition, x.End, x.Epoch),
				"leave it to whoever writes to it now; klink repair --recreate mirrors it anew")
			return
		default:
			own = append(own, x.Partition)
			t.ends[x.Partition] = x.End
		}
	}
	var said []string
	for _, part := range []struct {
		of   []int32
		what string
	}{{own, "klink's own up to the end"}, {foreign, "not klink's, and compared as a whole"}, {empty, "empty"}} {
		if len(part.of) > 0 {
			said = append(said, fmt.Sprintf("%s: %s", show.Ranges(part.of), part.what))
		}
	}
	t.Detail = "partitions " + strings.Join(said, "; ")
}
