package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/maps"
	"klink/translate/exact"
)

// onRecordMaps is what is on record: partition 1 of a topic.
type onRecordMaps struct{}

func (onRecordMaps) Refresh(context.Context) error { return nil }

func (onRecordMaps) Map(p maps.Place) (*exact.Map, maps.Cursor, error) {
	if p.Partition != 1 {
		return &exact.Map{}, maps.Cursor{}, nil
	}
	m, err := exact.FromRuns([]exact.Run{{Src: 5, Dst: 7, Count: 10}}, 0)
	return m, maps.Cursor{Src: 12, Dst: 14, At: time.Unix(1, 0)}, err // three more were planned
}

// TestLastRunsOfOtherWorkers: of partitions that another process copies, the last row
// of copies is what is on record, up to where it is known to be in the log.
func TestLastRunsOfOtherWorkers(t *testing.T) {
	here := exact.Run{Src: 1, Dst: 2, Count: 3}
	c := writtenCopies{last: func(_ string, partition int32) (exact.Run, bool) { return here, partition == 0 },
		mapTranslator: &mapTranslator{record: onRecordMaps{}, log: slog.New(slog.DiscardHandler), now: time.Now, told: map[feed.Partition]int64{},
			topic: func(string) (control.TopicRecord, bool) { return control.TopicRecord{}, true }}}
	for partition, want := range []exact.Run{here, {Src: 5, Dst: 7, Count: 7}, {}} {
		got, ok := c.LastRun("orders", int32(partition))
		if got != want || ok != (want.Count > 0) {
			t.Errorf("partition %d: %+v, %t; want %+v", partition, got, ok, want)
		}
	}
}
