package app

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"klink/cmd/config"
)

func TestMemoryLimit(t *testing.T) {
	for n, want := range map[int]config.Bytes{0: 96 * config.MiB, 1000: 96 * config.MiB, 1001: 96*config.MiB + 32*1024, 10_000: 96*config.MiB + 9000*32*1024} {
		if got := memoryLimit(32*config.MiB, n); got != want {
			t.Errorf("%d partitions: %s", n, got)
		}
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	if got, restore := limitMemory(16 * config.MiB); got != 0 {
		t.Errorf("the operator's limit was overridden: %s", got)
	} else {
		restore()
	}
}

// counted is a daemon with so many partitions.
type counted struct{ n atomic.Int64 }

func (c *counted) Partitions() int { return int(c.n.Load()) }

// TestMemoryFollows: the limit grows with the partitions, shrinks with them, and is
// put back in the end.
func TestMemoryFollows(t *testing.T) {
	const budget = 32 * config.MiB
	before := debug.SetMemoryLimit(-1)
	_, restore := limitMemory(budget)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var d counted
		go followMemory(ctx, slog.New(slog.DiscardHandler), budget, &d)
		for _, n := range []int{0, 10_000, 2_000, 5} {
			d.n.Store(int64(n))
			time.Sleep(memoryEvery + 1)
			if got, want := debug.SetMemoryLimit(-1), memoryLimit(budget, n); got != int64(want) {
				t.Errorf("%d partitions: %d, want %d", n, got, want)
			}
		}
		stop()
		synctest.Wait()
	})
	if restore(); debug.SetMemoryLimit(-1) != before {
		t.Errorf("the limit is %d, was %d", debug.SetMemoryLimit(-1), before)
	}
}
