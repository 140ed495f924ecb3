package fetcher

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// DefaultBudget is the process's fetch memory unless configured otherwise.
const DefaultBudget = 16 << 20

// Budget bounds the record bytes that all fetchers of a process have asked for
// or hold (B1). Bytes pass through two states: reserved, from before a Fetch is
// sent until its answer is in, and held, from then until the chunks made of the
// answer are released. It is safe for concurrent use and strictly first come,
// first served, so that no link is starved by another.
type Budget struct {
	limit int64

	mu       sync.Mutex // guards all below
	reserved int64
	held     int64
	shared   int64 // of held
	peak     int64
	waiters  list.List // of *waiter, first come first
}

type waiter struct {
	want, least int64
	granted     int64
	ready       chan struct{}
}

// Usage is a budget's state at one moment, in bytes.
type Usage struct {
	Limit    int64
	Reserved int64
	Held     int64
	// Shared are those of Held that are kept until the last of several chunks is
	// released, or that hold much that is in no chunk.
	Shared int64
	// Peak is the largest sum of Reserved and Held ever.
	Peak int64
}

// NewBudget returns a budget of so many bytes; below 1 means DefaultBudget.
func NewBudget(bytes int64) *Budget {
	if bytes < 1 {
		bytes = DefaultBudget
	}
	return &Budget{limit: bytes}
}

// Contended reports whether a fetch waits for bytes. Whoever holds chunks that
// it cannot use now should release them unread then: they will be read again.
func (b *Budget) Contended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiters.Len() > 0
}

// Usage returns the state.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Usage{Limit: b.limit, Reserved: b.reserved, Held: b.held, Shared: b.shared, Peak: b.peak}
}

// Instrument makes gauges of the budget: bytes reserved, held and the limit.
// Call it once per process.
func (b *Budget) Instrument(m metric.Meter) error {
	held, err1 := m.Int64ObservableGauge("klink.fetch.budget.held", metric.WithUnit("By"),
		metric.WithDescription("Record bytes fetched and not yet released."))
	reserved, err2 := m.Int64ObservableGauge("klink.fetch.budget.reserved", metric.WithUnit("By"),
		metric.WithDescription("Record bytes asked for by fetches under way."))
	limit, err3 := m.Int64ObservableGauge("klink.fetch.budget.limit", metric.WithUnit("By"),
		metric.WithDescription("The bound on reserved and held bytes."))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return fmt.Errorf("make budget gauges: %w", err)
		}
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		u := b.Usage()
		o.ObserveInt64(held, u.Held)
		o.ObserveInt64(reserved, u.Reserved)
		o.ObserveInt64(limit, u.Limit)
		return nil
	}, held, reserved, limit)
	if err != nil {
		return fmt.Errorf("register budget gauges: %w", err)
	}
	return nil
}

// reserve waits until at least least bytes are free and returns how many it
// took, at most want. Both are cut to the limit, so that a single request
// larger than the budget goes alone instead of never.
func (b *Budget) reserve(ctx context.Context, want, least int64) (int64, error) {
	want = min(max(want, 1), b.limit)
	least = min(max(least, 1), want)
	b.mu.Lock()
	if b.waiters.Len() == 0 && b.freeLocked() >= least {
		n := b.takeLocked(want)
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{want: want, least: least, ready: make(chan struct{})}
	e := b.waiters.PushBack(w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return w.granted, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.granted > 0 { // both happened
		b.reserved -= w.granted
	} else {
		b.waiters.Remove(e)
	}
	b.grantLocked()
	return 0, ctx.Err()
}

// settle turns a reservation into held bytes. held may be larger than what was
// reserved: a broker returns the first batch whole however large it is.
func (b *Budget) settle(reserved, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(reserved, held)
}

// share is settle for bytes that are shared.
func (b *Budget) share(reserved, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shared += held
	b.settleLocked(reserved, held)
}

func (b *Budget) settleLocked(reserved, held int64) {
	b.reserved -= reserved
	b.held += held
	if b.reserved < 0 || b.held < 0 || b.shared < 0 {
		panic(fmt.Sprintf("budget below zero: reserved %d, held %d, shared %d", b.reserved, b.held, b.shared))
	}
	b.peak = max(b.peak, b.reserved+b.held)
	b.grantLocked()
}

// release gives held bytes back.
func (b *Budget) release(held int64) { b.settle(0, -held) }

func (b *Budget) freeLocked() int64 { return b.limit - b.reserved - b.held }

func (b *Budget) takeLocked(want int64) int64 {
	n := min(want, b.freeLocked())
	b.reserved += n
	b.peak = max(b.peak, b.reserved+b.held)
	return n
}

func (b *Budget) grantLocked() {
	for e := b.waiters.Front(); e != nil; e = b.waiters.Front() {
		w := e.Value.(*waiter)
		if b.freeLocked() < w.least {
			return
		}
		w.granted = b.takeLocked(w.want)
		b.waiters.Remove(e)
		close(w.ready)
	}
}
