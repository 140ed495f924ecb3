package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
	"klink/cmd/httpd"
	"klink/cmd/telemetry"
)

// drainLimit bounds draining, so that klink ends within 10 s of the signal.
const drainLimit = 9 * time.Second

func (s *shell) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "mirror until stopped",
		UsageText: "klink run -c klink.yaml [--link NAME]\nklink run --source HOST:PORT --target HOST:PORT --topic PATTERN",
		Description: "Creates missing topics on the target and copies every record to the same offset there,\n" +
			"until Ctrl-C, SIGTERM or SIGHUP. It may be stopped and started at any time, also with kill -9:\n" +
			"it finds out from the target where to go on.\n\n" +
			"A cluster that is down, a wrong password or a missing right does not end it: the state\n" +
			"shows in klink status and on http://127.0.0.1:8466, and klink goes on by itself.",
		Flags:  append(append(linkFlags(), httpFlag("serve status page and metrics on `HOST:PORT`; \"\" is off")), logFlags()...),
		Action: s.run,
	}
}

func (s *shell) run(c *cli.Context) error {
	if err := noTopics(c); err != nil {
		return err
	}
	cfg, err := config.Load(configOptions(c))
	if err != nil {
		return err
	}
	log := telemetry.NewLogger(s.errOut, cfg.Log)
	limit, restore := limitMemory(cfg.Limits.FetchMemory)
	defer restore()
	metrics, err := telemetry.NewMetrics(Version())
	if err != nil {
		return err
	}
	defer metrics.Close()

	daemon, err := s.parts.Wire(c.Context, cfg, Deps{Logger: log, Meter: metrics.Meter(), Version: Version()})
	if err != nil {
		return err
	}
	var server *httpd.Server
	address := ""
	if cfg.HTTP.Listen != "" {
		if server, err = httpd.New(serviceOptions(cfg, daemon, metrics)); err != nil {
			return err
		}
		address = server.Addr()
	}
	log.Info("klink started", telemetry.KeyVersion, Version(), keyConfigHash, cfg.Hash(), keyLinks, len(cfg.Links),
		keyHTTP, address, keyFetchMemory, cfg.Limits.FetchMemory.String(), keyMemoryLimit, limit.String())
	if d, ok := daemon.(sizer); ok && limit > 0 {
		follow := start(c.Context, func(ctx context.Context) error { followMemory(ctx, log, cfg.Limits.FetchMemory, d); return nil })
		defer func() { follow.stop(); <-follow.done }()
	}
	return supervise(c.Context, log, daemon, server)
}

func serviceOptions(cfg *config.Config, d Daemon, m *telemetry.Metrics) httpd.Options {
	o := httpd.Options{Listen: cfg.HTTP.Listen, Version: "klink " + Version(), Report: d.Report, Metrics: m.Handler()}
	if a, ok := d.(aliver); ok {
		o.Alive = a.Alive
	}
	return o
}

// supervise runs the daemon, with the HTTP service (nil is none) around it so
// that draining can be watched, until ctx ends and it drained, or it fails.
func supervise(ctx context.Context, log *slog.Logger, d Daemon, server *httpd.Server) error {
	mirror := start(ctx, d.Run)
	defer mirror.stop()
	service := start(context.WithoutCancel(ctx), func(ctx context.Context) error {
		if server == nil {
			<-ctx.Done()
			return nil
		}
		return server.Run(ctx)
	})
	defer service.stop()

	select {
	case <-mirror.done:
	case <-service.done: // by itself only when it broke
		mirror.stop()
	case <-ctx.Done():
		log.Info("klink is draining", keyLimit, drainLimit)
	}
	select {
	case <-mirror.done:
	case <-time.After(drainLimit):
		return fmt.Errorf("run: did not drain within %s; nothing is lost, the next start goes on from the target", drainLimit)
	}
	service.stop()
	<-service.done
	if err := errors.Join(mirror.err, service.err); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("klink stopped")
	return nil
}

// task is a goroutine with its end.
type task struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // valid once done is closed; nil where the task was only stopped
}

func start(ctx context.Context, f func(context.Context) error) *task {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		if err := f(ctx); ctx.Err() == nil || !onlyCanceled(err) {
			t.err = err
		}
	}()
	return t
}

// onlyCanceled reports whether nothing but the end of a context is in err. A
// real failure joined with it while draining must not get lost, so errors.Is
// would not do.
func onlyCanceled(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !onlyCanceled(one) })
	case interface{ Unwrap() error }:
		return onlyCanceled(e.Unwrap())
	default:
		return err == context.Canceled
	}
}
