package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"klink/cmd/config"
)

// The flags of the commands that change something.
const (
	flagDryRun  = "dry-run"
	flagYes     = "yes"
	flagTimeout = "timeout"
)

// errDeclined ends a command whose plan was shown and not agreed to.
var errDeclined = errors.New("not confirmed; nothing was done")

// changingFlags are those of linkFlags and what every changing command has.
func changingFlags(more ...cli.Flag) []cli.Flag {
	return append(append(linkFlags(), more...),
		&cli.BoolFlag{Name: flagDryRun, Usage: "show what would be done, and do nothing"},
		&cli.BoolFlag{Name: flagYes, Usage: "do not ask; needed where there is no terminal to ask on"},
		outputFlag())
}

// mayChange refuses, before anything is looked at, a changing command that
// nobody could confirm.
func (s *shell) mayChange(c *cli.Context) error {
	if c.Bool(flagDryRun) || c.Bool(flagYes) || s.interactive {
		return nil
	}
	return &UsageError{Command: c.Command.Name, What: "there is no terminal to ask on: add --yes to do it, or --dry-run to see what it would do; nothing was done"}
}

// confirm shows a plan and asks whether to go on; with --yes it does neither.
// The plan goes where errors go, since it is no result (A2).
func (s *shell) confirm(c *cli.Context, plan string) error {
	if c.Bool(flagYes) {
		return nil
	}
	if _, err := fmt.Fprintf(s.errOut, "%s\nGo on? [y/N] ", plan); err != nil {
		return err
	}
	answer := make(chan string, 1) // the reader below may outlive this call
	go func() {
		// Nothing ends a read from a terminal; when ctx ends first, the process ends
		// with it.
		line, err := bufio.NewReader(s.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	case <-c.Context.Done():
		fmt.Fprintln(s.errOut)
		return errDeclined
	}
}

// oneLink loads the configuration of a command that is about one link.
func oneLink(c *cli.Context, o config.Options) (*config.Config, error) {
	if o.File == "" && len(o.Flags.Given()) == 0 {
		return nil, &UsageError{Command: c.Command.Name, What: "needs to know the target: give -c klink.yaml, or --target HOST:PORT"}
	}
	cfg, err := config.Load(o)
	if err != nil {
		return nil, err
	}
	if len(cfg.Links) > 1 {
		var names []string
		for _, l := range cfg.Links {
			names = append(names, l.Name)
		}
		return nil, &UsageError{Command: c.Command.Name, What: "is about one link; choose with --link one of " + strings.Join(names, ", ")}
	}
	return cfg, nil
}

// targetOnly are the options of a command that needs no source.
func targetOnly(c *cli.Context) config.Options {
	o := configOptions(c)
	o.TargetOnly = true
	return o
}

func isInteractive(in io.Reader, errOut io.Writer) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && isTerminal(errOut)
}
