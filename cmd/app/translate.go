package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/cmd/spell"
	"klink/linker/groups"
	"klink/translate/mm2"
)

const (
	flagFromMM2     = "from-mm2"
	flagBack        = "reverse"
	flagSourceAlias = "source-alias"
	flagTargetAlias = "target-alias"
	flagPolicy      = "replication-policy"
	flagSeparator   = "separator"
)

// translateTimeout is how long klink translate reads by default.
const translateTimeout = 30 * time.Second

// TranslateRequest is what is to be translated, beside the configuration.
type TranslateRequest struct {
	Groups *groups.Filter
	// Only selects among topics, by their names on both sides; nil is all.
	Only func(source, target string) bool
	// Back translates the groups' target offsets to the source.
	Back bool
	// MirrorMaker has the topics of a MirrorMaker 2 read and not klink's map.
	MirrorMaker bool
	// Policy names the topics of checkpoints and offset syncs.
	Policy mm2.Policy
	// Timeout bounds reading.
	Timeout time.Duration
}

func (s *shell) translateCommand() *cli.Command {
	return &cli.Command{
		Name:  "translate",
		Usage: "say where consumer groups go on in the other cluster, where offsets differ",
		UsageText: "klink translate --group NAME [--group NAME ...] -c klink.yaml [--link NAME] [TOPIC ...] [--reverse] [-o table|json]\n" +
			"klink translate --group NAME --from-mm2 -c klink.yaml [--link NAME] [TOPIC ...] [--reverse]\n" +
			"klink translate --group NAME --target HOST:PORT [--source HOST:PORT] [--link NAME | --from-mm2 --source-alias NAME]",
		Description: "Translates the groups' offsets from the source to the target, and with --reverse those that\n" +
			"they have on the target back to the source. Reads, and writes nothing; needs the target alone.\n\n" +
			"Without --from-mm2 klink's own map answers, which knows the place of every copy, and the log of\n" +
			"the target for what was copied after the map was written last. A group's source offsets come\n" +
			"from the source where it answers, else from klink's record of the groups that it carries over,\n" +
			"else from klink's checkpoints. With --target alone and no --link the only link on record is meant.\n\n" +
			"With --from-mm2 the checkpoints and offset syncs that a MirrorMaker 2 wrote answer. The offset\n" +
			"syncs are on the source by default (offset-syncs.topic.location): give --source too, or without\n" +
			"them answers are the checkpoints themselves. --reverse goes by the offset syncs alone.\n\n" +
			"  exact       the very next record that the group has not read\n" +
			"  next        the record at the group's offset has no copy: the next one that has\n" +
			"  clamped     the end of what there is: of what was copied, or the log's start\n" +
			"  sampled     follows from an earlier record whose place is known\n" +
			"  read again  how many records the group reads again at most\n" +
			"  age         for how long it is not known whether the group has gone on; STALE over two minutes\n\n" +
			"? means unknown. NAME is a group, a glob with *, a /regular expression/ or =literal; TOPIC is a\n" +
			"name on either side, or a glob with *. Exits with 1 where any of them has no answer; the reason\n" +
			"is shown.",
		Flags:  translateFlags(),
		Action: s.translate,
	}
}

// translateFlags have a --group of their own: it names what is asked for, and makes
// no link. What a link of flags is to mirror, and how, means nothing here.
func translateFlags() []cli.Flag {
	all := slices.DeleteFunc(linkFlags(), func(f cli.Flag) bool {
		return slices.Contains([]string{flagGroup, flagTopic, flagMode}, f.Names()[0])
	})
	return append(all,
		&cli.StringSliceFlag{Name: flagGroup, Usage: "translate the groups called `NAME`"},
		&cli.BoolFlag{Name: flagBack, Usage: "from the target back to the source"},
		&cli.BoolFlag{Name: flagFromMM2, Usage: "by the topics of a MirrorMaker 2"},
		&cli.StringFlag{Name: flagSourceAlias, Usage: "the source's `ALIAS` in topic names, by default checkpoint.source_alias"},
		&cli.StringFlag{Name: flagTargetAlias, Usage: "the target's `ALIAS` in topic names, by default checkpoint.target_alias"},
		&cli.StringFlag{Name: flagPolicy, Usage: "`POLICY` of remote topics' names, default or identity, by default checkpoint.replication_policy"},
		&cli.StringFlag{Name: flagSeparator, Usage: "`TEXT` between alias and topic name, by default checkpoint.separator"},
		timeoutFlag(translateTimeout, "read for up to `TIME`; what is not read to its end then gives no answers"),
		outputFlag())
}

func (s *shell) translate(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	names := c.StringSlice(flagGroup)
	if len(names) == 0 {
		return &UsageError{Command: "translate", What: "name the group with --group NAME, or all with --group '*'"}
	}
	filter, err := groups.NewFilter(names, nil)
	if err != nil {
		return &UsageError{Command: "translate", What: fmt.Sprintf("--group: %v", err)}
	}
	if c.Duration(flagTimeout) <= 0 {
		return &UsageError{Command: "translate", What: "--timeout must be longer than nothing, e.g. 30s"}
	}
	o := translateOptions(c)
	cfg, note, err := translateConfig(o)
	if err != nil {
		return err
	}
	req := TranslateRequest{Groups: filter, Back: c.Bool(flagBack), MirrorMaker: c.Bool(flagFromMM2), Timeout: c.Duration(flagTimeout)}
	if req.MirrorMaker && o.File == "" && c.String(flagSourceAlias) == "" {
		return &UsageError{Command: "translate", What: "--from-mm2 needs the source's alias in MirrorMaker 2's settings: --source-alias NAME"}
	}
	if req.Policy, err = translatePolicy(c, cfg.Links[0]); err != nil {
		return err
	}
	wanted := &choice{words: c.Args().Slice(), matched: map[string]bool{}}
	if len(wanted.words) > 0 {
		req.Only = wanted.has
	}
	r, err := s.parts.Translate(c.Context, cfg, req)
	err = unlessStopped(c.Context, err)
	if i := slices.IndexFunc(wanted.words, func(w string) bool { return !wanted.matched[w] }); err == nil && i >= 0 {
		err = fmt.Errorf("these groups have no offset on a topic %q%s", wanted.words[i], spell.DidYouMean(wanted.words[i], wanted.known))
	}
	if err != nil {
		return inCommand("translate", err)
	}
	if note != "" {
		r.Notes = append([]string{note}, r.Notes...)
	}
	if asJSON {
		err = show.JSON(s.out, "translate", r)
	} else {
		err = s.printTranslation(r)
	}
	return errors.Join(err, translateError(r))
}

// translateOptions say which link is meant. --group is not about that.
func translateOptions(c *cli.Context) config.Options {
	o := configOptions(c)
	o.Flags.Groups = nil
	if o.File == "" && len(o.Flags.Given()) == 0 {
		o.File = os.Getenv(variableConfig)
	}
	o.TargetOnly = o.File == ""
	return o
}

// translateConfig loads the only link that is meant. The source's secrets are used
// where they are there, and not missed where they are not: note says so.
func translateConfig(o config.Options) (cfg *config.Config, note string, err error) {
	if cfg, err = config.Load(o); err != nil && !o.TargetOnly {
		full := err
		o.TargetOnly = true
		if cfg, err = config.Load(o); err == nil {
			cfg.Links = slices.Clone(cfg.Links)
			for i := range cfg.Links {
				cfg.Links[i].Source.Brokers = nil
			}
			note = "the source is not asked: " + strings.ReplaceAll(full.Error(), "\n", "; ")
		}
	}
	if err != nil {
		return nil, "", err
	}
	if len(cfg.Links) > 1 {
		var names []string
		for _, l := range cfg.Links {
			names = append(names, l.Name)
		}
		return nil, "", &UsageError{Command: "translate", What: "is about one link; choose with --link one of " + strings.Join(names, ", ")}
	}
	return cfg, note, nil
}

// translatePolicy is the link's replication policy, as the flags change it. What the
// link itself says was checked with the configuration.
func translatePolicy(c *cli.Context, l config.Link) (mm2.Policy, error) {
	given := false
	from := func(flag string) config.Setting {
		given = given || c.String(flag) != ""
		return config.Setting{Origin: flagName(flag), Value: c.String(flag)}
	}
	names := config.Names{SourceAlias: from(flagSourceAlias), TargetAlias: from(flagTargetAlias),
		ReplicationPolicy: from(flagPolicy), Separator: from(flagSeparator)}
	if !given {
		return policy(l), nil
	}
	l, err := l.Named(names)
	return policy(l), err
}

// translateError is about what has no answer.
func translateError(r TranslateResult) error {
	if r.Unanswered == 0 {
		return nil
	}
	return fmt.Errorf("translate: no answer for %s", quantity(r.Unanswered, "item"))
}

// readTimeout bounds reads, as the request says.
func (r TranslateRequest) readTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.Timeout)
}

// inTime says of what ended a read that its time was over, where it was.
func (r TranslateRequest) inTime(reading context.Context, err error) error {
	if err == nil || !endedEarly(reading) {
		return err
	}
	return fmt.Errorf("--%s %s was over before there was anything to translate; give it longer: %w", flagTimeout, r.Timeout, err)
}
