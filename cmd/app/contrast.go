package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/lab/install"
	"klink/cmd/show"
	"klink/contrast"
)

const (
	flagDuration = "duration"
	flagSeed     = "seed"
	flagKafka    = "kafka"
	flagWithMM2  = "with-mm2"
	flagOnly     = "only"
)

// bulkPerSecond is how much waits at the source for each mirror's start, for every
// second of the load: ten seconds' worth is 64 MiB.
const bulkPerSecond = 64 << 20 / 10

func (s *shell) contrastCommand() *cli.Command {
	return &cli.Command{
		Name:  "contrast",
		Usage: "run one load through both modes, kill the source, and set what came of it side by side",
		UsageText: "klink contrast [--duration DURATION] [--rate N] [--seed N] [--only MODE] [--report DIR] [-o table|json]\n" +
			"klink contrast --kafka VERSION [--with-mm2]\n" +
			"klink contrast -c klink.yaml [--link NAME]",
		Description: "Shows what identical offsets are worth. For each mode in turn: two clusters are started, a load\n" +
			"is written to the source (steady, in bursts, in transactions, compacted with holes), consumer\n" +
			"groups read it (one keeps up, one lags, one rewinds), and the mode mirrors it beside them.\n" +
			"Then the source is killed and the groups go on at the target. Told for each mode are\n\n" +
			"  offsets equal      the share of mirrored records that stand at the source's offset\n" +
			"  lost               records before the last mirrored one that the target lacks\n" +
			"  read again         records that groups were given once more, behind their last commit\n" +
			"  translation error  how far a group's place is off, in records, per partition\n" +
			"  switch             from the source's death to a new record in every group\n" +
			"  lag                from when a record was sent until a consumer of the target has it\n" +
			"  speed, CPU, memory of the mirror alone, as a process of its own\n\n" +
			"The clusters are embedded in this process, or with --kafka real brokers, which are downloaded\n" +
			"where they are missing and need Java. --with-mm2 adds MirrorMaker 2 with default and with tuned\n" +
			"settings, which takes some minutes more. With -c, both clusters of a link are used, on scratch\n" +
			"topics called klink-contrast-... that are removed afterwards, and so are the groups; nothing is\n" +
			"killed there: the groups move in the moment in which the load ends.\n\n" +
			"The same seed gives the same load and the same counts. docs/contrast.md describes the method.\n\n" +
			"Ctrl-C ends and removes what was started, and tells of the modes that were finished before.\n\n" +
			"Exits with 1 if a mode breaks a promise: mirror mode if it loses, repeats or shifts anything;\n" +
			"or if one failed or was not finished.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: flagDuration, Value: contrast.DefaultLoad, Usage: fmt.Sprintf("let the load last for `DURATION`, %s to %s", contrast.MinLoad, contrast.MaxLoad)},
			&cli.IntFlag{Name: flagRate, Value: contrast.DefaultRate, Usage: fmt.Sprintf("load the source with `N` records per second, %d to %d", contrast.MinRate, contrast.MaxRate)},
			&cli.Uint64Flag{Name: flagSeed, DefaultText: "random", Usage: "make the load from the seed `N`; it is printed"},
			&cli.StringFlag{Name: flagConfig, Aliases: []string{"c"}, Usage: "on both clusters of a link of `FILE`"},
			&cli.StringFlag{Name: flagLink, Usage: "of the file's links, the one called `NAME`"},
			&cli.StringFlag{Name: flagKafka, Usage: "on real clusters of Apache Kafka `VERSION`, e.g. " + install.Newest},
			&cli.BoolFlag{Name: flagWithMM2, Usage: "run MirrorMaker 2, too; without --kafka on clusters of " + install.Newest},
			&cli.StringFlag{Name: flagOnly, Usage: "run `MODE` alone"},
			&cli.StringFlag{Name: flagReport, Usage: "write contrast.json and the page contrast.html into the folder `DIR`"},
			outputFlag(),
		},
		Action: s.contrast,
	}
}

func (s *shell) contrast(c *cli.Context) error {
	asJSON, err := wantsJSON(c)
	if err == nil {
		err = noTopics(c)
	}
	if err == nil {
		err = inRange(c, flagRate, contrast.MinRate, contrast.MaxRate)
	}
	if err != nil {
		return err
	}
	req := ContrastRequest{Load: c.Duration(flagDuration), Rate: c.Int(flagRate), Seed: c.Uint64(flagSeed), Kafka: c.String(flagKafka),
		MM2: c.Bool(flagWithMM2), Only: c.String(flagOnly), Say: s.telling()}
	if req.Load < contrast.MinLoad || req.Load > contrast.MaxLoad {
		return &UsageError{Command: "contrast", What: fmt.Sprintf("--%s is %s; allowed: %s to %s", flagDuration, req.Load, contrast.MinLoad, contrast.MaxLoad)}
	}
	if req.Link, err = contrastLink(c); err != nil {
		return err
	}
	if !c.IsSet(flagSeed) {
		req.Seed = uint64(rand.Uint32())
	}
	if req.MM2 && req.Kafka == "" {
		req.Kafka = install.Newest
	}
	req.BulkBytes = int64(req.Load.Seconds() * bulkPerSecond)
	r, err := s.parts.Contrast(c.Context, req)
	if err != nil && len(r.Modes) == 0 {
		return contrastError(c.Context, err)
	}
	return errors.Join(s.tellContrast(r, c.String(flagReport), asJSON), contrastError(c.Context, err), contrastOutcome(r))
}

// contrastOutcome is an error where a mode failed, or broke its promises.
func contrastOutcome(r contrast.Result) error {
	var errs []error
	if failed := r.Failed(); len(failed) > 0 {
		errs = append(errs, fmt.Errorf("contrast: failed, and not measured: %s", strings.Join(failed, ", ")))
	}
	if broke := r.Broke(); len(broke) > 0 {
		errs = append(errs, fmt.Errorf("contrast: %w: %s", contrast.ErrBroken, strings.Join(broke, ", ")))
	}
	return errors.Join(errs...)
}

// contrastLink is the link whose clusters are to be used, nil for none.
func contrastLink(c *cli.Context) (*config.Link, error) {
	if !c.IsSet(flagConfig) {
		return nil, nil
	}
	if c.IsSet(flagKafka) || c.Bool(flagWithMM2) {
		return nil, &UsageError{Command: "contrast", What: "-c names clusters, and --kafka and --with-mm2 start some: give one of these"}
	}
	cfg, err := oneLink(c, configOptions(c))
	if err != nil {
		return nil, err
	}
	return &cfg.Links[0], nil
}

func contrastError(ctx context.Context, err error) error {
	var usage *UsageError
	var stopped *contrast.StoppedError
	switch {
	case err == nil, errors.As(err, &usage):
		return err
	case ctx.Err() != nil && !errors.As(err, &stopped): // in the midst of what comes before the modes
		err = &contrast.StoppedError{}
	}
	return fmt.Errorf("contrast: %w", err)
}

// telling says how it goes to somebody who waits.
func (s *shell) telling() func(string) {
	began := time.Now()
	return func(what string) {
		fmt.Fprintf(s.errOut, "klink: after %s: %s\n", time.Since(began).Round(100*time.Millisecond), what)
	}
}

// tellContrast prints the result and writes the report.
func (s *shell) tellContrast(r contrast.Result, folder string, asJSON bool) error {
	var err error
	if folder != "" {
		err = writeReport(folder, "contrast", r, func(w io.Writer) error { return contrast.WritePage(w, r) })
	}
	if asJSON {
		return errors.Join(err, show.JSON(s.out, "contrast", r))
	}
	return errors.Join(err, r.Print(s.out))
}
