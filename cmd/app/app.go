package app

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v2"
)

// shell is what commands work with.
type shell struct {
	parts  Parts
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	// colour is whether out may carry colours.
	colour bool
	// interactive is whether somebody sits at in and errOut who can be asked.
	interactive bool
}

// Run executes one command line, args[0] being the program's name, and returns
// the exit code (A3). A command that runs until stopped drains when ctx ends.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return runWith(ctx, production(), args, in, out, errOut)
}

func runWith(ctx context.Context, parts Parts, args []string, in io.Reader, out, errOut io.Writer) int {
	s := &shell{parts: parts, in: in, out: out, errOut: errOut, colour: isTerminal(out) && os.Getenv("NO_COLOR") == "",
		interactive: isInteractive(in, errOut)}
	return s.execute(ctx, args)
}

func (s *shell) execute(ctx context.Context, args []string) int {
	app := s.app()
	arranged, err := arrange(args, app.Commands)
	if err == nil {
		err = app.RunContext(ctx, arranged)
	}
	return report(s.errOut, err)
}

func (s *shell) app() *cli.App {
	return &cli.App{
		Name:  "klink",
		Usage: "mirror Kafka topics to another cluster so that every record keeps its offset",
		UsageText: "klink COMMAND -c klink.yaml [--link NAME] [TOPIC ...] [-o table|json]\n" +
			"klink COMMAND --source HOST:PORT --target HOST:PORT --topic PATTERN",
		Description: "klink copies records from a source cluster to a target cluster, each to the same\n" +
			"offset of the same partition, so that consumers can go on at the target where they\n" +
			"stopped at the source. It runs beside the clusters and only reads the source.\n\n" +
			"All settings, with their defaults, stand in docs/reference.yaml.\n" +
			"klink COMMAND --help explains one command.",
		Version:                   Version(),
		HideVersion:               true,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // a comma may be part of a pattern
		Commands:                  s.commands(),
		Action:                    func(c *cli.Context) error { return cli.ShowAppHelp(c) },
		Reader:                    s.in,
		Writer:                    s.out,
		ErrWriter:                 s.errOut,
		ExitErrHandler:            func(*cli.Context, error) {}, // A1
	}
}

// commands lists what this klink can do, in the order of the help.
func (s *shell) commands() []*cli.Command {
	all := []*cli.Command{s.runCommand(), s.demoCommand(), s.probeCommand(), s.planCommand(), s.compareCommand(), s.contrastCommand(), s.statusCommand(), s.describeCommand(),
		s.pauseCommand(), s.resumeCommand(), s.forecastCommand(), s.promoteCommand(), s.failoverCommand(), s.reverseCommand(), s.translateCommand(),
		s.repairCommand(), s.removeCommand(), s.adoptCommand(),
		s.versionCommand(), s.completionCommand()}
	for _, c := range all {
		name := c.Name
		c.HideHelpCommand = true
		if do := c.Action; do != nil {
			c.Action = func(x *cli.Context) error { return inTime(x.Context, name, do(x)) }
		}
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return &UsageError{Command: name, What: err.Error()}
		}
	}
	return all
}
