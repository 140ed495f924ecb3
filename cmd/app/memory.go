package app

import (
	"os"
	"runtime/debug"

	"klink/cmd/config"
)

// limitMemory sets Go's soft memory limit from the fetch budget and returns it
// with a function that puts the old one back. A GOMEMLIMIT of the operator's
// wins, and then the limit is 0.
//
// The aim is to stay near 128 MiB resident with the default budget of 32 MiB,
// however many partitions there are. Resident are: the Go heap and stacks, which
// the limit covers, and up to 25 MiB of the binary's own pages, which it does
// not. Under the limit live: the budget itself, as read; a copy of what is being
// sent and answers not yet swept, at most as much again together; and 40 MiB for
// the states of partitions, connections and metrics. GOGC stays at its default:
// the limit alone makes the collector work harder when memory is short.
func limitMemory(budget config.Bytes) (limit config.Bytes, restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0, func() {}
	}
	limit = memoryLimit(budget)
	old := debug.SetMemoryLimit(int64(limit))
	return limit, func() { debug.SetMemoryLimit(old) }
}

func memoryLimit(budget config.Bytes) config.Bytes { return 40*config.MiB + 2*budget }
