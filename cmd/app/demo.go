package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"klink/cmd/config"
	"klink/cmd/demo"
	"klink/cmd/show"
	"klink/cmd/telemetry"
)

const (
	flagKeep    = "keep"
	flagSeconds = "seconds"
	flagRate    = "rate"
)

func (s *shell) demoCommand() *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "show the whole story on two embedded clusters in half a minute",
		UsageText: "klink demo [--seconds N] [--rate N] [--keep] [-o table|json]",
		Description: "Starts two clusters in this process, with topics of every codec under load and a consumer\n" +
			"group on the source, and mirrors them live. Then the source dies, the group goes on at the\n" +
			"target, and both logs are compared record by record. Needs nothing but this program, and\n" +
			"leaves nothing behind.\n\n" +
			"Exits with 1 if anything differs, or if the group lost a record that the target has.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: flagSeconds, Value: int(demo.DefaultLive / time.Second),
				Usage: fmt.Sprintf("let the source live for `N` seconds, %d to %d", demo.MinLive/time.Second, demo.MaxLive/time.Second)},
			&cli.IntFlag{Name: flagRate, Value: demo.DefaultRate,
				Usage: fmt.Sprintf("load the source with `N` records per second, %d to %d", demo.MinRate, demo.MaxRate)},
			&cli.BoolFlag{Name: flagKeep, Usage: "in the end open the source again and leave everything running until Ctrl-C"},
			outputFlag(),
		},
		Action: s.demo,
	}
}

func (s *shell) demo(c *cli.Context) error {
	if err := noTopics(c); err != nil {
		return err
	}
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	o := demo.Options{Live: time.Duration(c.Int(flagSeconds)) * time.Second, Rate: c.Int(flagRate), Keep: c.Bool(flagKeep)}
	if err := inRange(c, flagSeconds, int(demo.MinLive/time.Second), int(demo.MaxLive/time.Second)); err != nil {
		return err
	}
	if err := inRange(c, flagRate, demo.MinRate, demo.MaxRate); err != nil {
		return err
	}
	o.Screen, o.Closing = s.screen(s.out), func(r demo.Result) error { return r.Print(s.out) }
	if asJSON { // results go to out alone (A2), so that the story is told elsewhere
		o.Screen, o.Closing = s.screen(s.errOut), func(r demo.Result) error { return show.JSON(s.out, "demo", r) }
	}
	metrics, err := telemetry.NewMetrics(Version())
	if err != nil {
		return err
	}
	defer metrics.Close()
	o.Wire = func(ctx context.Context, cfg *config.Config, log *slog.Logger) (demo.Mirror, error) {
		return s.parts.Wire(ctx, cfg, Deps{Logger: log, Meter: metrics.Meter(), Version: Version()})
	}
	err = demo.Run(c.Context, o)
	if errors.Is(err, demo.ErrDiffers) && !asJSON {
		return fmt.Errorf("demo: %w", demo.ErrDiffers) // the table has said what
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

func inRange(c *cli.Context, flag string, low, high int) error {
	if n := c.Int(flag); n < low || n > high {
		return &UsageError{Command: c.Command.Name, What: fmt.Sprintf("--%s is %d; allowed: %d to %d", flag, n, low, high)}
	}
	return nil
}

// screen is where the demo tells its story.
func (s *shell) screen(w io.Writer) demo.Screen {
	screen := demo.Screen{Out: w, Logs: s.errOut}
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return screen
	}
	fd := int(w.(*os.File).Fd())
	screen.Colour = os.Getenv("NO_COLOR") == ""
	screen.Size = func() (columns, lines int) {
		columns, lines, err := term.GetSize(fd)
		if err != nil {
			return 0, 0
		}
		return columns, lines
	}
	return screen
}
