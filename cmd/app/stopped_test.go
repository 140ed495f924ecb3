package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/comparator"
	"klink/linker/describe"
	"klink/linker/state"
	"klink/linker/survey"
	"klink/linker/switchover"
)

// TestStoppedCommandsSayNothingOfClusters: requests that fail as somebody stops the
// command are no answers of brokers.
func TestStoppedCommandsSayNothingOfClusters(t *testing.T) {
	file := configFile(t, "", "east")
	for _, c := range []struct {
		command, want string
	}{
		{"forecast", "klink: forecast: stopped before it was done\n"},
		{"failover --dry-run", "klink: failover: stopped before it was done\n"},
		{"failover --yes", "klink: failover: stopped before it was done: it may be on record all the same, which klink status shows; give it again to do the rest\n"},
		{"repair --recreate orders --yes", "klink: repair: stopped before it was done\n"},
		{"promote --dry-run", "klink: promote: stopped before it was done\n"},
		{"describe", "klink: describe: stopped before it was done\n"},
		{"compare", "klink: compare: stopped before it was done\n"},
		{"plan", "klink: plan: stopped before it was done\n"},
		{"translate --group *", "klink: translate: stopped before it was done\n"},
	} {
		t.Run(c.command, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			gone := kafka.Classify(fmt.Errorf("ask the target: %w", context.Canceled))
			f := &fakeSwitcher{result: switched(), err: &switchover.ItemsFailedError{Failed: 1, Of: 2}}
			if strings.HasSuffix(c.command, "--yes") {
				f.result, f.err = switchover.Result{}, gone
			}
			parts := f.parts()
			parts.Console = func(ctx context.Context, cfg *config.Config) (Console, error) {
				stop()
				con := commanded()
				con.failing = map[string]error{"deletable orders": gone}
				return con, nil
			}
			open := parts.Switch
			parts.Switch = func(ctx context.Context, cfg *config.Config, a SwitchAccess) (Switcher, error) {
				stop()
				return open(ctx, cfg, a)
			}
			parts.Describe = func(context.Context, *config.Config, DescribeRequest) (describe.Result, error) {
				stop()
				return describe.Result{}, &PartlyError{Where: []string{"orders/0"}, Errs: []error{gone}}
			}
			parts.Compare = func(context.Context, *config.Config, CompareRequest) (comparator.Result, error) {
				stop()
				return comparator.Result{}, gone
			}
			parts.Translate = func(_ context.Context, _ *config.Config, req TranslateRequest) (TranslateResult, error) {
				stop()
				return translated(req), nil
			}
			parts.Plan = func(context.Context, *config.Config, PlanRequest) (survey.PlanResult, error) {
				stop()
				return survey.PlanResult{}, fmt.Errorf("link east: %w", gone)
			}
			r := execute(ctx, parts, append(strings.Fields(c.command), "-c", file, "--link", "east")...)
			if r.code != 1 || r.err != c.want || r.out != "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestWhatWentWrongBesideTheStopIsTold.
func TestWhatWentWrongBesideTheStopIsTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	broken := errors.New("broken")
	if err := inTime(ctx, "run", errors.Join(context.Canceled, broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := inTime(t.Context(), "plan", context.Canceled); errors.Is(err, errStopped) {
		t.Errorf("nobody stopped it: %v", err)
	}
	if o := kafka.Classify(context.Canceled); o.Cause != kafka.GivenUp || o.Reason != state.Unreachable {
		t.Errorf("%+v", o)
	}
}
