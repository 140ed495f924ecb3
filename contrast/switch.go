package contrast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// lastTicks are played after the mirror was seen to have some of the records that
// no group has taken, right before the source dies.
const lastTicks = 2

// die plays the rest of the load and kills the source in its last moment.
func (a *act) die(ctx context.Context) error {
	since := a.load.sent()
	nothing := func(int) {}
	if err := a.playUntil(ctx, a.settleTick()+1, a.ticks()-lastTicks, nothing); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	fresh := func(p lab.Partition, c Copy) bool { return c.Serial >= since[p] }
	if err := await(limited, func() bool { return !a.tail.first(fresh).IsZero() }); err != nil {
		return err
	}
	a.leave()
	if err := a.playUntil(ctx, a.ticks()-lastTicks+1, a.ticks(), nothing); err != nil {
		return err
	}
	return nil
}

// leave ends the groups at the source.
func (a *act) leave() {
	for _, f := range a.followers {
		f.close()
	}
	a.followers = nil
}

// goOn kills the source, moves the groups, and waits for the first new record of
// each.
func (a *act) goOn(ctx context.Context) error {
	died := time.Now()
	if a.stage.Kill != nil {
		if err := a.stage.Kill(ctx); err != nil {
			return err
		}
	}
	if err := a.mirror.Move(ctx); err != nil {
		return fmt.Errorf("what the mode asks for before a switch: %w", err)
	}
	for i, m := range company {
		g := groupEvidence{name: m.name, commits: a.commits[i]}
		var err error
		if g.resumed, err = a.mirror.Resume(ctx, a.stage.Prefix+m.name); err != nil {
			return fmt.Errorf("where group %s goes on: %w", m.name, err)
		}
		starts := map[lab.Partition]int64{}
		for _, p := range a.evidence.partitions {
			starts[p] = g.resumed[p]
		}
		one, err := attend(a.stage.Target, a.names(), starts)
		if err != nil {
			return err
		}
		a.audiences, a.evidence.groups = append(a.audiences, one), append(a.evidence.groups, g)
	}
	return a.firsts(ctx, died)
}

// firsts waits until every group was given a record that it had not taken yet.
func (a *act) firsts(ctx context.Context, died time.Time) error {
	entries := map[lab.Partition][]Entry{}
	for _, p := range a.evidence.partitions {
		entries[p] = a.load.entriesOf(p)
	}
	limited, cancel := context.WithTimeout(ctx, firstLimit)
	defer cancel()
	for i := range a.audiences {
		g := &a.evidence.groups[i]
		fresh := func(p lab.Partition, c Copy) bool {
			return acknowledged(entries[p], c.Serial) && entries[p][c.Serial].Offset >= g.commits[p]
		}
		if await(limited, func() bool { return !a.audiences[i].first(fresh).IsZero() }) == nil {
			took := a.audiences[i].first(fresh).Sub(died)
			g.switched = &took
		}
	}
	return ctx.Err()
}

// note keeps what the mirror has used, while it can be asked.
func (a *act) note() {
	if u, err := a.mirror.Usage(); err == nil && u.PeakMemory > 0 {
		a.evidence.memory = &u.PeakMemory
	}
}

// read ends the mirror, reads the target to its end, and lets the groups read as
// far.
func (a *act) read(ctx context.Context) error {
	close(a.ended)
	a.note()
	if err := a.mirror.Stop(); err != nil {
		return err
	}
	a.evidence.entries, a.evidence.copies = map[lab.Partition][]Entry{}, map[lab.Partition][]Copy{}
	for _, p := range a.evidence.partitions {
		copies, err := a.copiesOf(ctx, p)
		if err != nil {
			return err
		}
		a.evidence.entries[p], a.evidence.copies[p] = a.load.entriesOf(p), copies
	}
	limited, cancel := context.WithTimeout(ctx, firstLimit)
	defer cancel()
	// A group that does not come to the end has missed what is not read: that is a
	// measure, and no failure of the run.
	_ = await(limited, a.readToEnd)
	for i, one := range a.audiences {
		g := &a.evidence.groups[i]
		g.given = map[lab.Partition][]Copy{}
		for _, p := range a.evidence.partitions {
			g.given[p] = one.given(p)
		}
	}
	return ctx.Err()
}

// copiesOf reads a partition's copies, each with the time when the target's
// consumer first had it.
func (a *act) copiesOf(ctx context.Context, p lab.Partition) ([]Copy, error) {
	arrived := map[int64]time.Time{}
	for _, c := range a.tail.given(p) {
		arrived[c.Offset] = c.At
	}
	var copies []Copy
	now := time.Now()
	at := lab.Partition{Topic: a.mirror.TargetTopic(p.Topic), Number: p.Number}
	err := lab.EachRecord(ctx, a.stage.Target, at, lab.ReadOptions{}, func(r *kgo.Record) {
		serial, ok := serialOf(r)
		if !ok {
			serial = -1 // it is no copy of ours
		}
		c := Copy{Serial: serial, Offset: r.Offset, At: now}
		if t, ok := arrived[r.Offset]; ok {
			c.At = t
		}
		copies = append(copies, c)
	})
	return copies, err
}

// readToEnd is whether every group was given the last copy of each partition that
// it has not passed.
func (a *act) readToEnd() bool {
	for i, one := range a.audiences {
		for _, p := range a.evidence.partitions {
			copies := a.evidence.copies[p]
			if len(copies) == 0 || copies[len(copies)-1].Offset < a.evidence.groups[i].resumed[p] {
				continue
			}
			given := one.given(p)
			if len(given) == 0 || given[len(given)-1].Offset < copies[len(copies)-1].Offset {
				return false
			}
		}
	}
	return true
}

// end ends whatever runs (X5).
func (a *act) end() error {
	a.leave()
	if a.tail != nil {
		a.tail.close()
	}
	for _, one := range a.audiences {
		one.close()
	}
	var errs []error
	if a.mirror != nil {
		select {
		case <-a.ended:
		default:
			close(a.ended)
		}
		errs = append(errs, a.mirror.Stop())
	}
	if a.load != nil {
		a.load.close()
	}
	if a.stage != nil {
		errs = append(errs, a.stage.Close())
	}
	return errors.Join(errs...)
}
