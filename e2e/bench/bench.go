package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/proc"
)

// bench is one run of the program.
type bench struct {
	opts     options
	dir      string // everything that is not the clusters' own
	launcher *launcher
	results  results

	pair    *pair
	proxied bool // pair's source is behind a proxy
	warmed  bool // pair has carried something already
	serial  int
}

// machine says in one line what the figures were taken on.
func machine() string {
	return strings.Join(append(proc.Machine(), "Apache Kafka "+install.Newest+" (one broker a side, replication factor 1, loopback)"), ", ")
}

func newBench(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "klink-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{opts: o, dir: dir, results: results{Machine: machine(), Size: "short", Started: time.Now().UTC().Truncate(time.Second)}}
	if o.long {
		b.results.Size = "long"
	}
	progress("building klink, looking for Kafka")
	if b.launcher, err = newLauncher(ctx, dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	var err error
	if b.pair != nil {
		err = b.pair.close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// run measures all that was asked for. A failed measurement is listed and the
// next one made; only what spoils all ends the run.
func (b *bench) run(ctx context.Context) error {
	for _, name := range b.opts.only {
		if err := b.workload(ctx, workloadNamed(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if failed := b.results.failed(); failed > 0 {
		return fmt.Errorf("%s failed", plural(int64(failed), "run"))
	}
	return nil
}

func (b *bench) workload(ctx context.Context, w workload) error {
	if err := b.ensurePair(ctx, w.rtt > 0); err != nil {
		return err
	}
	b.pair.setRTT(0)
	held, err := b.prepare(ctx, w)
	if err != nil {
		return err
	}
	b.pair.setRTT(w.rtt)
	systems := systemsFor(w, b.opts.systems)
	if b.wantsWarmUp(w) {
		// Brokers are slow until they are compiled too: the first copy counts for nobody.
		progress("%s: warming up the brokers", w.name)
		if r := b.measure(ctx, w, held, loopSystem, 0); r.Error != "" {
			progress("%s: warm-up failed: %s", w.name, r.Error)
		}
		b.warmed = true
	}
	for round := range b.opts.rounds {
		for i := range systems {
			system := systems[(i+round)%len(systems)]
			r := b.measure(ctx, w, held, system, round+1)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.results.Runs = append(b.results.Runs, r)
			progress("%s %s %d/%d: %s", w.name, system, round+1, b.opts.rounds, r.brief())
		}
	}
	return nil
}

// wantsWarmUp tells whether the brokers have not done yet what a workload asks of
// them: ordinary copies are all alike, each of the others is a thing of its own.
func (b *bench) wantsWarmUp(w workload) bool {
	switch w.kind {
	case keeping:
		return true
	case throughput, recoding:
		return !b.warmed
	default:
		return false
	}
}

// systemsFor leaves out what cannot do a workload: the loop makes no topics and
// recodes nothing, MirrorMaker 2 and checkpoint mode keep no offsets. Recoding and
// klink compare are set beside no other system, and failovers in checkpoint mode are klink contrast's.
func systemsFor(w workload, systems []string) []string {
	return slices.DeleteFunc(slices.Clone(systems), func(s string) bool {
		switch w.kind {
		case startup, idling:
			return s == loopSystem
		case switching:
			return s == loopSystem || s == driftSystem
		case keeping:
			return isMM2(s) || s == driftSystem
		case recoding, comparing:
			return s != klinkSystem
		default:
			return false
		}
	})
}

// ensurePair keeps the clusters as long as they fit.
func (b *bench) ensurePair(ctx context.Context, proxied bool) error {
	if b.pair != nil && b.proxied == proxied {
		return nil
	}
	if b.pair != nil {
		if err := b.pair.close(); err != nil {
			return err
		}
		b.pair = nil
	}
	progress("starting two clusters")
	p, err := startPair(ctx, proxied)
	if err != nil {
		return err
	}
	b.pair, b.proxied, b.warmed = p, proxied, false
	return nil
}

// prepare makes the workload's log the only one on the source.
func (b *bench) prepare(ctx context.Context, w workload) (loaded, error) {
	if err := deleteTopics(ctx, b.pair.srcClient, ""); err != nil {
		return loaded{}, err
	}
	if w.kind == latency || w.kind == switching {
		return loaded{}, nil // each run has a topic of its own
	}
	begun := time.Now()
	held, err := write(ctx, b.pair.src, w, b.opts.long)
	if err == nil {
		progress("%s: loaded %d records at %d offsets, %.0f MB in the log, in %.1f s (%s)", w.name, held.records, held.offsets, float64(held.wireBytes)/1e6, time.Since(begun).Seconds(), w.about())
	}
	return held, err
}

// write makes the workload's topic and fills it.
func write(ctx context.Context, c lab.Cluster, w workload, long bool) (loaded, error) {
	if w.log == farLog {
		return writeFar(ctx, c, w, long) // makes the topic itself
	}
	if err := lab.CreateTopics(ctx, c, w.sourceSpec()); err != nil {
		return loaded{}, err
	}
	switch w.log {
	case holeLog:
		return writeHole(ctx, c, w, long)
	case streamsLog:
		return writeStreams(ctx, c, w, long)
	default:
		return load(ctx, c, w, long)
	}
}

// measure makes one run; round 0 is for warming up.
func (b *bench) measure(ctx context.Context, w workload, held loaded, system string, round int) run {
	r := run{Workload: w.name, System: system, Round: round}
	if isMM2(system) {
		r.Settings = mm2SettingsOf(system, w)
	}
	b.serial++
	j := job{system: system, workload: w, pair: b.pair, serial: b.serial, dir: filepath.Join(b.dir, "job-"+strconv.Itoa(b.serial))}
	err := os.Mkdir(j.dir, 0o700)
	if err == nil {
		err = b.pair.refresh(ctx, w)
	}
	if err == nil {
		switch w.kind {
		case latency:
			r.Values, err = b.latency(ctx, j)
		case startup:
			r.Values, err = b.startup(ctx, j)
		case idling:
			r.Values, err = b.idle(ctx, j, held)
		case switching:
			r.Values, err = b.failover(ctx, j)
		case recoding:
			r.Values, err = b.recoding(ctx, j, held, round)
		case comparing:
			r.Values, err = b.comparing(ctx, j, held, round)
		default:
			r.Values, err = b.throughput(ctx, j, held, round)
		}
	}
	if err != nil {
		r.Values, r.Error = nil, err.Error()
	}
	return r
}

// during starts a system, runs f beside it and stops it. What the system printed
// goes with an error.
func (b *bench) during(j job, f func(*mirror) (map[string]float64, error)) (map[string]float64, error) {
	m, err := b.launcher.start(j)
	if err != nil {
		return nil, err
	}
	values, err := f(m)
	if err == nil {
		var peak int64
		if peak, err = proc.PeakMemory(m.PID()); err == nil {
			values[peakRSS] = float64(peak) / (1 << 20)
		}
	}
	err = errors.Join(err, m.stop(j.system))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, m.tail())
	}
	return values, nil
}
