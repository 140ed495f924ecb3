package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/state"
)

// die ends the source for all its clients.
func (s *story) die(ctx context.Context) error {
	s.evidence.atDeath = s.mirror.Report()
	s.view.show(s.frame())
	died := time.Now()
	s.evidence.live = died.Sub(s.began)
	if err := s.stage.kill(); err != nil {
		return err
	}
	s.view.died(died)
	s.view.shout("THE SOURCE IS DEAD: its listeners are closed, every connection is cut")
	return ctx.Err()
}

// goOn moves the group: it ends at the source, klink writes what it knows of its
// commits, and it begins again at the target.
func (s *story) goOn(ctx context.Context) error {
	s.leave()
	if _, err := s.watch(ctx, patience, s.rested); err != nil {
		return err
	}
	var err error
	if s.evidence.commits, err = s.committed(ctx); err != nil {
		return err
	}
	if s.after, err = lab.StartConsumer(s.stage.target.ClientOpts(), consumer(), &s.afterAll); err != nil {
		return err
	}
	given, err := s.watch(ctx, patience, func() bool { return !s.after.First().IsZero() })
	if err != nil || !given {
		return err
	}
	took := s.after.First().Sub(s.view.death)
	s.evidence.switched = &took
	s.view.shout("group %q goes on at the target: its first record came %s after the source's death", group, took.Round(time.Millisecond))
	return nil
}

// leave ends the group and the producers at the source, in the background:
// clients of a dead cluster wait a while for an answer to their goodbye.
func (s *story) leave() {
	before, loads := s.before, slices.Clone(s.stage.loads)
	s.before = nil
	s.leaving = play(context.Background(), func(context.Context) error {
		before.Crash()
		quiet(loads)
		return nil
	})
}

// committed asks both clusters for the group's commits, the source past its
// closed listeners.
func (s *story) committed(ctx context.Context) (map[lab.Partition]commits, error) {
	src, err := offsets(ctx, s.stage.source.AdminOpts())
	if err != nil {
		return nil, fmt.Errorf("read the group's commits at the source: %w", err)
	}
	dst, err := offsets(ctx, s.stage.target.AdminOpts())
	if err != nil {
		return nil, fmt.Errorf("read the group's commits at the target: %w", err)
	}
	all := map[lab.Partition]commits{}
	for _, t := range cast {
		for n := range t.partitions {
			c := commits{source: -1, target: -1}
			if o, ok := src.Lookup(t.name, n); ok {
				c.source = o.At
			}
			if o, ok := dst.Lookup(t.name, n); ok {
				c.target = o.At
			}
			all[lab.Partition{Topic: t.name, Number: n}] = c
		}
	}
	return all, nil
}

func offsets(ctx context.Context, opts []kgo.Opt) (kadm.OffsetResponses, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return got, got.Error()
}

// readRest waits until klink has noticed and the group has read the target to
// its end. What is still missing after that is lost.
func (s *story) readRest(ctx context.Context) error {
	noticed, err := s.watch(ctx, 2*patience, func() bool { return s.allIn(state.SourceUnavailable) })
	if err != nil {
		return err
	}
	if noticed {
		after := time.Since(s.view.death)
		s.evidence.noticed = &after
	}
	bounds, err := lab.ReadBounds(ctx, s.stage.target, lab.ReadUncommitted, names(cast)...)
	if err != nil {
		return fmt.Errorf("read the target's ends: %w", err)
	}
	_, err = s.watch(ctx, patience, func() bool {
		for p, b := range bounds {
			if s.given(p).lost(b.End) > 0 {
				return false
			}
		}
		return true
	})
	return err
}

// given is what the group was given of a partition.
func (s *story) given(p lab.Partition) delivered {
	return delivered{source: s.beforeGiven.Ranges(p), sourceRepeats: s.beforeGiven.Twice()[p],
		target: s.afterAll.Ranges(p), targetRepeats: s.afterAll.Twice()[p]}
}

// compare reads both logs to their ends, the source's past its closed listeners.
func (s *story) compare(ctx context.Context) error {
	s.view.show(s.frame())
	s.view.stop()
	s.view.say("comparing both logs, record by record, the source's past its closed listeners")
	var err error
	s.evidence.comparison, err = lab.CompareClusters(ctx, s.stage.source, s.stage.target, lab.CompareOptions{Topics: names(cast)})
	if err != nil {
		return err
	}
	s.evidence.topics = cast
	s.evidence.atEnd = s.mirror.Report()
	s.evidence.violations = s.stage.target.Violations()
	s.evidence.group = map[lab.Partition]delivered{}
	for _, c := range s.evidence.comparison.Partitions {
		s.evidence.group[c.Src] = s.given(c.Src)
	}
	return nil
}

// result judges.
func (s *story) result() Result {
	r := judge(s.evidence)
	r.Group = group
	r.SourceBrokers, r.TargetBrokers = s.stage.source.Bootstrap(), s.stage.target.Bootstrap()
	return r
}
