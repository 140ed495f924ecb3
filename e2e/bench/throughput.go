package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"klink/cmd/lab"
	"klink/cmd/lab/proc"
)

var (
	errStalled = errors.New("no progress")
	errUnequal = errors.New("the copy differs from the source")
)

// throughput mirrors the whole log, or as much of it as the system's box allows.
func (b *bench) throughput(ctx context.Context, j job, held loaded, round int) (map[string]float64, error) {
	if err := lab.CreateTopics(ctx, b.pair.dst, j.workload.spec()); err != nil {
		return nil, err
	}
	verify := b.opts.verify && j.system == klinkSystem && round == 1
	return b.during(j, func(m *mirror) (map[string]float64, error) {
		w := &watch{mirror: m, pair: b.pair, workload: j.workload, total: held.measured, end: held.offsets, box: boxOf(j).seconds(b.opts.long)}
		if err := w.run(ctx, verify); err != nil {
			return nil, err
		}
		whole, second, ok := spans(w.samples)
		if !ok {
			return nil, errStalled
		}
		values := offsetFigures(whole, second)
		if j.workload.kind != keeping {
			values = figures(whole, second, float64(held.wireBytes)/float64(held.offsets))
		}
		values[firstRecord] = w.firstRecord.Seconds()
		if !verify {
			return values, nil
		}
		return values, b.verify(ctx, j.workload, held)
	})
}

func boxOf(j job) amount {
	switch {
	case isMM2(j.system):
		return mm2Box
	case j.workload.kind == keeping:
		return keepingBox
	default:
		return quickBox
	}
}

// verify compares all that the target holds with the source (M3).
func (b *bench) verify(ctx context.Context, w workload, held loaded) error {
	b.pair.setRTT(0)
	defer b.pair.setRTT(w.rtt)
	begun := time.Now()
	c, err := lab.CompareClusters(ctx, b.pair.src, b.pair.dst, lab.CompareOptions{Topics: []string{w.topic()}})
	if err != nil {
		return err
	}
	if !c.Equal() || !c.SameEnds() || !sameStarts(c) || c.Records() != held.records {
		return fmt.Errorf("%w: %s", errUnequal, c)
	}
	progress("%s: klink's copy is equal: %d records compared in %.0f s", w.name, c.Records(), time.Since(begun).Seconds())
	return nil
}

func sameStarts(c lab.Comparison) bool {
	return !slices.ContainsFunc(c.Partitions, func(p lab.PartitionComparison) bool { return p.SrcBounds.Start != p.DstBounds.Start })
}

// watch follows a run on the target.
type watch struct {
	mirror   *mirror
	pair     *pair
	workload workload
	total    int64 // offsets to measure
	end      int64 // of the log
	box      time.Duration

	samples     []sample
	firstRecord time.Duration // since the mirror's start; 0 before
	moved       time.Time     // when records last came
	last        int64
}

// interval is how often the target is asked. An answer for a thousand
// partitions costs the broker more than one for eight.
func (w *watch) interval() time.Duration {
	if w.workload.partitions > 100 {
		return 100 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// run takes samples until all that is to be measured is there or the box is over.
// With toEnd it then goes on, without samples, until the whole log is there.
func (w *watch) run(ctx context.Context, toEnd bool) error {
	tick := time.NewTicker(w.interval())
	defer tick.Stop()
	w.moved = w.mirror.started
	for {
		over, err := w.look(ctx)
		if err != nil {
			return err
		}
		if w.last >= w.end || !toEnd && (over || w.last >= w.total) {
			return nil
		}
		select {
		case <-tick.C:
		case <-w.mirror.Done():
			return w.mirror.ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look polls once, and says whether the box is over.
func (w *watch) look(ctx context.Context) (over bool, err error) {
	records, err := w.pair.onTarget(ctx, w.workload)
	if err != nil {
		return false, err
	}
	now := time.Now()
	at := now.Sub(w.mirror.started)
	if records > 0 && w.firstRecord == 0 {
		w.firstRecord = at
	}
	if records > w.last {
		w.moved, w.last = now, records
	}
	limit := stallLimit
	if records == 0 {
		limit = firstRecordLimit
	}
	if now.Sub(w.moved) > limit {
		return false, fmt.Errorf("%w for %s at %d of %d offsets", errStalled, limit, records, w.end)
	}
	if w.firstRecord > 0 && at > w.firstRecord+w.box || w.complete() {
		return true, nil
	}
	u, err := measureUsage(w.mirror, w.pair)
	if err != nil {
		return false, err
	}
	w.samples = append(w.samples, sample{at: at, records: min(records, w.total), usage: u})
	return false, nil
}

// complete tells whether the last sample shows all that is to be measured.
func (w *watch) complete() bool {
	n := len(w.samples)
	return n > 0 && w.samples[n-1].records >= w.total
}

// measureUsage reads all processor times.
func measureUsage(m *mirror, p *pair) (usage, error) {
	var u usage
	var errs [5]error
	u.mirror, errs[0] = proc.CPUTime(m.PID())
	u.src, errs[1] = proc.CPUTime(p.src.Broker(onlyBroker).PID())
	u.dst, errs[2] = proc.CPUTime(p.dst.Broker(onlyBroker).PID())
	u.self, errs[3] = proc.CPUTime(os.Getpid())
	u.all, errs[4] = proc.MachineTime()
	return u, errors.Join(errs[:]...)
}
