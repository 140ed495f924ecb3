package app

import (
	"context"
	"fmt"
	"time"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/linker"
	"klink/linker/plan"
	"klink/linker/workers"
)

// gapWays are the ways of gap_fill. auto tries markers, and shows which right is
// missing where they are refused.
var gapWays = map[config.GapFill]plan.GapWay{
	config.GapFillAuto: plan.FillMarkers, config.GapFillMarkers: plan.FillMarkers,
	config.GapFillRecords: plan.FillRecords, config.GapFillHalt: plan.FillHalt,
}

// overrunWays are the ways of on_retention_overrun.
var overrunWays = map[config.OnRetentionOverrun]plan.OverrunWay{
	config.OverrunHalt: plan.HaltOverrun, config.OverrunPad: plan.PadOverrun,
}

// unmirrorableWays are the ways of on_unmirrorable.
var unmirrorableWays = map[config.OnUnmirrorable]linker.Unmirrorable{
	config.UnmirrorableHalt: linker.UnmirrorableHalt, config.UnmirrorableCheckpoint: linker.UnmirrorableCheckpoint,
	config.UnmirrorableSkip: linker.UnmirrorableSkip,
}

// workersGroup is the group on the target that a link's workers join.
func workersGroup(link string) string { return link + "-klink" }

// newLease returns the membership of a link in its group on the target.
func newLease(l config.Link, dst *kafka.Target, d Deps) linker.Lease {
	return linker.Membership(workers.New(workers.Options{NewClient: dst.Group, Group: workersGroup(l.Name),
		Logger: d.Logger.With("link", l.Name), Meter: d.Meter, Link: l.Name}))
}

// startFrom finds where the start policy of a link lets a mirror begin.
type startFrom struct {
	start config.Start
	log   *fetcher.LogReader
}

// Offset implements linker.From.
func (s startFrom) Offset(ctx context.Context, p feed.Partition, id feed.TopicID, b feed.Bounds) (int64, error) {
	switch s.start {
	case config.StartEarliest:
		return b.LogStart, nil
	case config.StartLatest:
		return b.LastStable, nil
	}
	at, err := time.Parse(time.RFC3339, string(s.start))
	if err != nil {
		return 0, fmt.Errorf("start: %w", err) // cannot be: the configuration was checked
	}
	offset, err := s.log.OffsetAt(ctx, p, id, at)
	if err != nil {
		return 0, err
	}
	if offset == feed.Unknown {
		return b.LastStable, nil
	}
	return offset, nil
}
