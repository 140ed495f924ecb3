package app

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/metric"

	"klink/cmd/config"
	"klink/comparator"
	"klink/contrast"
	"klink/linker/describe"
	"klink/linker/state"
	"klink/linker/survey"
)

// Parts are what the command line is tied to. wire.go fills them in; tests put
// others in their place.
type Parts struct {
	// Wire builds the daemon for a checked configuration. It waits for no cluster:
	// one that is down is a state of the daemon's. An error ends klink: with exit
	// code 2 where it is a *config.Error or a *UsageError, else with 1.
	Wire func(ctx context.Context, cfg *config.Config, d Deps) (Daemon, error)
	// ReportFromTarget reads the last recorded states of the configuration's links
	// from the control topics of their targets, without a daemon; AsOf is when the
	// oldest of them was recorded. The configuration may lack sources.
	ReportFromTarget func(ctx context.Context, cfg *config.Config) (state.Report, error)
	// Probe tries the target of the configuration's only link on a scratch topic,
	// which it removes again. The configuration may lack the source.
	Probe func(ctx context.Context, cfg *config.Config) (survey.ProbeResult, error)
	// Plan says how the links of the configuration would mirror. It writes nothing,
	// unless it is to measure.
	Plan func(ctx context.Context, cfg *config.Config, req PlanRequest) (survey.PlanResult, error)
	// Compare reads both clusters of the configuration's links and tells how they
	// differ. It writes nothing.
	Compare func(ctx context.Context, cfg *config.Config, req CompareRequest) (comparator.Result, error)
	// AuditBook opens what is on record of the configuration's links, for what a
	// comparison found.
	AuditBook func(ctx context.Context, cfg *config.Config) (AuditBook, error)
	// Contrast sets the modes side by side on clusters that it starts and ends.
	Contrast func(ctx context.Context, req ContrastRequest) (contrast.Result, error)
	// Describe tells what is on record on the targets of the configuration's links.
	// The configuration may lack sources. It writes nothing.
	Describe func(ctx context.Context, cfg *config.Config, req DescribeRequest) (describe.Result, error)
	// Console opens what is on record of the configuration's only link, for orders
	// to whoever mirrors it. The configuration may lack the source.
	Console func(ctx context.Context, cfg *config.Config) (Console, error)
	// Switch opens the configuration's only link for a switch, or for its numbers.
	// The configuration may lack the source, unless BothSides is asked for.
	Switch func(ctx context.Context, cfg *config.Config, access SwitchAccess) (Switcher, error)
	// Reverse opens both clusters of the configuration's only link, to turn it around.
	Reverse func(ctx context.Context, cfg *config.Config) (Reverser, error)
	// Translate tells where groups of the configuration's only link go on in the other
	// cluster. The configuration may lack the source. It writes nothing.
	Translate func(ctx context.Context, cfg *config.Config, req TranslateRequest) (TranslateResult, error)
	// Takeover opens both clusters of the configuration's only link, to go on where a
	// MirrorMaker 2 left off. The error is a *UsageError where the link is not in
	// checkpoint mode.
	Takeover func(ctx context.Context, cfg *config.Config) (Taker, error)
}

// Deps are given to everything that is built.
type Deps struct {
	Logger  *slog.Logger
	Meter   metric.Meter
	Version string
}

// Daemon mirrors until its context ends.
type Daemon interface {
	// Run returns nil once it drained after ctx ended, and an error only for a
	// broken invariant.
	Run(ctx context.Context) error
	// Report returns the state of all links, from memory, at any time.
	Report() state.Report
}

// aliver is a Daemon that knows whether its loops turn.
type aliver interface{ Alive() error }
