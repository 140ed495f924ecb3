package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/show"
	"klink/linker/state"
	"klink/linker/switchover"
)

// promoteTimeout is how long promote waits until all is mirrored.
const promoteTimeout = 5 * time.Minute

// Switcher switches the mirrors of one link over; see switchover.Switch.
type Switcher interface {
	// Link is the link as it was last recorded, with the topics that can be
	// switched over.
	Link() state.Link
	Forecast(ctx context.Context, r switchover.Request) (switchover.Result, error)
	Failover(ctx context.Context, r switchover.Request) (switchover.Result, error)
	Promote(ctx context.Context, r switchover.Request) (switchover.Result, error)
	Close()
}

// SwitchAccess is what a switch may do, and needs, beside reading the target.
type SwitchAccess int

// The accesses.
const (
	// LookOnly writes nothing.
	LookOnly SwitchAccess = iota
	// TargetAlone writes to the target.
	TargetAlone
	// BothSides writes to the target and reads the source.
	BothSides
)

// switching is a command that switches over, or says how that would go.
type switching struct {
	name string
	do   func(Switcher, context.Context, switchover.Request) (switchover.Result, error)
	// access is what the command needs when it does something, look when it is to
	// tell the numbers alone.
	access, look SwitchAccess
	// effect says below a plan what it means, next what is to be done after it.
	effect, next string
}

// switchOver is the whole of a command that switches over.
func (s *shell) switchOver(c *cli.Context, w switching) error {
	asJSON, err := wantsJSON(c)
	if err == nil && w.access != LookOnly {
		err = s.mayChange(c)
	}
	if err != nil {
		return err
	}
	o := targetOnly(c)
	o.TargetOnly = w.access != BothSides
	cfg, err := oneLink(c, o)
	if err != nil {
		return err
	}
	r, err := s.switchLink(c, w, cfg)
	if w.access == LookOnly || c.Bool(flagDryRun) {
		if err = unlessStopped(c.Context, err); errors.Is(err, errStopped) {
			return switchError(w.name, err)
		}
	} else if c.Context.Err() != nil && err != nil && onlyCanceled(err) {
		err = errHalfway
	}
	var failed *switchover.ItemsFailedError
	if errors.As(err, &failed) && (r.DryRun || w.access == LookOnly) {
		err = fmt.Errorf("the numbers of %d of %s are not all known", failed.Failed, quantity(failed.Of, "topic"))
	}
	if len(r.Topics) == 0 {
		return switchError(w.name, err)
	}
	var printed error
	if asJSON {
		printed = show.JSON(s.out, w.name, r)
	} else {
		printed = s.printSwitch(s.out, r, switchView{switching: w, all: c.Args().Present(), done: isDone(err)})
	}
	return errors.Join(printed, switchError(w.name, err))
}

// isDone tells whether a switch came to its end, whatever the source took in since.
func isDone(err error) bool {
	var late *switchover.LateError
	var failed *switchover.ItemsFailedError
	return err == nil || errors.As(err, &late) && !errors.As(err, &failed)
}

// switchLink shows the numbers and asks, where that is wanted, and does it.
func (s *shell) switchLink(c *cli.Context, w switching, cfg *config.Config) (r switchover.Result, err error) {
	access, dry := w.access, c.Bool(flagDryRun)
	if dry {
		access = w.look
	}
	sw, err := s.parts.Switch(c.Context, cfg, access)
	if err != nil {
		return r, err
	}
	defer sw.Close()
	req := switchover.Request{DryRun: dry, Timeout: c.Duration(flagTimeout), By: operator(), Progress: s.progress()}
	if req.Topics, err = namedTopics(sw.Link(), c.Args().Slice()); err != nil {
		return r, err
	}
	if w.access == LookOnly || dry || c.Bool(flagYes) {
		return w.do(sw, c.Context, req)
	}
	asked := req
	asked.DryRun = true
	if r, err = w.do(sw, c.Context, asked); len(r.Topics) == 0 {
		return r, err
	}
	var plan bytes.Buffer
	if err != nil { // what stands in the way now need not do so then
		fmt.Fprintf(&plan, "%v\n\n", err)
	}
	if err = s.printSwitch(&plan, r, switchView{switching: w, all: c.Args().Present()}); err == nil {
		err = s.confirm(c, plan.String())
	}
	if err != nil {
		return switchover.Result{}, err
	}
	return w.do(sw, c.Context, req)
}

// progress tells somebody who waits at a terminal what for.
func (s *shell) progress() func(string) {
	if !isTerminal(s.errOut) {
		return nil
	}
	began := time.Now()
	return func(what string) {
		fmt.Fprintf(s.errOut, "klink: after %s: %s\n", time.Since(began).Round(100*time.Millisecond), what)
	}
}

// switchError gives an error its exit code.
func switchError(command string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, switchover.ErrRefused):
		return &LossError{Command: command, Err: err}
	default:
		return fmt.Errorf("%s: %w", command, err)
	}
}
