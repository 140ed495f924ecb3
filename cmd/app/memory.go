package app

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"klink/cmd/config"
)

const (
	// commonPartitions is how many partitions the states, connections and metrics of
	// the basic limit are for; perPartition is for each one beyond: of ten thousand at
	// rest each has some 10 KiB of live heap and 1 KiB of stack, the collector needs as
	// much again to work with, and a start of all at once takes more (390 MiB were
	// resident). With less the collector would do nothing but collect.
	commonPartitions = 1000
	perPartition     = 32 * 1024
	// memoryEvery is how often it is looked how many partitions there are.
	memoryEvery = 2 * time.Second
)

// limitMemory sets Go's soft memory limit from the fetch budget and returns it
// with a function that puts the old one back. A GOMEMLIMIT of the operator's
// wins, and then the limit is 0.
//
// The aim is to stay near 128 MiB resident with the default budget of 32 MiB and up
// to a thousand partitions. Resident are: the Go heap and stacks, which
// the limit covers, and up to 25 MiB of the binary's own pages, which it does
// not. Under the limit live: the budget itself, as read; a copy of what is being
// sent and answers not yet swept, at most as much again together; and 32 MiB for
// the states of partitions, connections and metrics. GOGC stays at its default:
// the limit alone makes the collector work harder when memory is short.
func limitMemory(budget config.Bytes) (limit config.Bytes, restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0, func() {}
	}
	limit = memoryLimit(budget, 0)
	old := debug.SetMemoryLimit(int64(limit))
	return limit, func() { debug.SetMemoryLimit(old) }
}

// memoryLimit is what a number of partitions may take.
func memoryLimit(budget config.Bytes, partitions int) config.Bytes {
	return 32*config.MiB + 2*budget + config.Bytes(max(0, partitions-commonPartitions))*perPartition
}

// sizer is a Daemon that knows how many partitions it has.
type sizer interface{ Partitions() int }

// followMemory lets the limit grow and shrink with the partitions, until ctx ends.
func followMemory(ctx context.Context, log *slog.Logger, budget config.Bytes, d sizer) {
	now := memoryLimit(budget, 0)
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n := d.Partitions()
		if limit := memoryLimit(budget, n); limit != now {
			debug.SetMemoryLimit(int64(limit))
			log.Info("memory limit follows the number of partitions", keyMemoryLimit, limit.String(), keyPartitions, n)
			now = limit
		}
	}
}
