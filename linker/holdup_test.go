package linker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// opened is when holdup tests begin.
var opened = time.Date(2026, 1, 31, 12, 1, 2, 0, time.UTC)

func after(d time.Duration) time.Time { return opened.Add(d) }

// The producer that holds the last stable offset back is named after a while.
func TestHoldupIsNamed(t *testing.T) {
	holder := feed.Producer{ID: 7, TxnStart: 120, LastWrite: after(-time.Second)}
	others := []feed.Producer{{ID: 5, TxnStart: feed.Unknown}, {ID: 6, TxnStart: 300}, holder}
	for name, c := range map[string]struct {
		all  []feed.Producer
		err  error
		want string
	}{
		"holder":      {others, nil, "offsets 120 to 479 wait for the transaction of producer 7 (epoch 0), open at offset 120 since 2026-01-31T12:01:02Z or longer, last written to at 2026-01-31T12:01:01Z"},
		"never wrote": {[]feed.Producer{{ID: 7, Epoch: 3, TxnStart: 120}}, nil, "offsets 120 to 479 wait for the transaction of producer 7 (epoch 3), open at offset 120 since 2026-01-31T12:01:02Z or longer"},
		"none is open": {others[:2], nil,
			"offsets 120 to 479 wait for the source's replicas since 2026-01-31T12:01:02Z: no transaction is open there"},
		"cannot be told": {nil, feed.NewFault(feed.Unauthorized, feed.Partition{Topic: "a"}, 0, errors.New("TOPIC_AUTHORIZATION_FAILED")),
			"offsets 120 to 479 wait for the end of a transaction since 2026-01-31T12:01:02Z or longer; the source does not tell whose: TOPIC_AUTHORIZATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			var h holdup
			h.saw(120, 400, opened)
			h.saw(120, 480, after(5*time.Second))
			if h.due(after(holdupAfter-1)) || h.detail(after(holdupAfter-1)) != "" {
				t.Error("named before a while is over")
			}
			if now := after(holdupAfter); !h.due(now) || h.detail(now) != "offsets 120 to 479 wait for the end of a transaction since 2026-01-31T12:01:02Z or longer" {
				t.Errorf("%v, %q", h.due(now), h.detail(now))
			}
			h.answered(120, after(holdupAfter), c.all, c.err)
			if diff := cmp.Diff(c.want, h.detail(after(time.Minute))); diff != "" {
				t.Error(diff)
			}
			if h.due(after(holdupAfter+holdupAgain-1)) || !h.due(after(holdupAfter+holdupAgain)) {
				t.Error("the source is not asked again in time")
			}
		})
	}
}

// A stretch that moves on, or ends, is another one.
func TestHoldupMovesOn(t *testing.T) {
	long := after(time.Hour)
	for name, c := range map[string]struct {
		stable, high int64
		waits        bool
	}{
		"ended": {480, 480, false}, "next transaction": {300, 480, true}, "unknown": {feed.Unknown, 480, false},
		"never high": {120, feed.Unknown, false}, "ends that cross": {481, 480, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h holdup
			h.saw(120, 480, opened)
			h.answered(120, after(holdupAfter), []feed.Producer{{ID: 7, TxnStart: 120}}, nil)
			h.saw(c.stable, c.high, long)
			if h.detail(long) != "" || h.due(long) {
				t.Errorf("%+v", h)
			}
			h.answered(120, long, []feed.Producer{{ID: 7, TxnStart: 120}}, nil) // an answer that comes late
			now := long.Add(holdupAfter)
			if got := h.detail(now); h.due(now) != c.waits || (got != "") != c.waits || strings.Contains(got, "producer") {
				t.Errorf("%q, %+v", got, h)
			}
		})
	}
}

// askedSource notes who asks about what.
type askedSource struct {
	mu  sync.Mutex // guards got
	got []feed.Partition
	do  func(ctx context.Context) ([]feed.Producer, error)
}

func (s *askedSource) Producers(ctx context.Context, p feed.Partition, _ feed.TopicID) ([]feed.Producer, error) {
	s.mu.Lock()
	s.got = append(s.got, p)
	s.mu.Unlock()
	return s.do(ctx)
}

// A source that hangs costs a round its time and no more; whom it was not asked
// about comes first in the next one.
func TestHoldupsOfAHangingSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var due []held
		const n = 3 * holdupsAtOnce
		for i := range int32(n) {
			s := newShown(i, "w")
			s.sawSource(0, 1, 2, time.Now())
			due = append(due, held{src: feed.Partition{Topic: "a", Partition: i}, shown: s, stable: 1})
		}
		s := &askedSource{do: func(ctx context.Context) ([]feed.Producer, error) { <-ctx.Done(); return nil, ctx.Err() }}
		began := time.Now()
		nameAll(t.Context(), s, due)
		if d := time.Since(began); d != holdupTimeout || len(s.got) != holdupsAtOnce {
			t.Errorf("took %v for %d questions", d, len(s.got))
		}
		for i := range due {
			due[i].asked = due[i].shown.hold.asked
		}
		s.got = nil
		nameAll(t.Context(), s, due)
		for _, p := range s.got {
			if p.Partition < holdupsAtOnce {
				t.Errorf("%v comes before those that were not asked about", p)
			}
		}
	})
}

// openSource is a source in which so many offsets wait for a transaction.
type openSource struct {
	Source
	open atomic.Int64
	wg   sync.WaitGroup
}

func (s *openSource) Open(start feed.Start) feed.Stream {
	in, out := s.Source.Open(start), make(chan feed.Event)
	done := make(chan struct{})
	s.wg.Go(func() {
		defer close(out)
		for e := range in.Events {
			if e.Chunk != nil {
				e.Chunk.HighWatermark += s.open.Load()
			}
			select {
			case out <- e:
			case <-done:
				return
			}
		}
	})
	var once sync.Once
	return feed.Stream{Events: out, Close: func() { in.Close(); once.Do(func() { close(done) }) }}
}

func (s *openSource) Producers(_ context.Context, p feed.Partition, id feed.TopicID) ([]feed.Producer, error) {
	if id != (feed.TopicID{1}) {
		return nil, fmt.Errorf("asked about topic id %v", id)
	}
	return []feed.Producer{{ID: 40 + int64(p.Partition), TxnStart: 10}}, nil
}

// The link names the holder in its report and on record, and stays ACTIVE: what
// waits is no lag. Once the transaction has ended nothing is said any more.
func TestLinkNamesWhoHoldsItBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		s := &openSource{Source: w}
		l := w.link(t, "w")
		l.o.Source, l.o.Producers = s, s
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		s.open.Store(5)
		time.Sleep(holdupAfter)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Active, "")
		for i, p := range r.Partitions {
			if want := fmt.Sprintf("offsets 10 to 14 wait for the transaction of producer %d (epoch 0), open at offset 10 since", 40+i); !strings.Contains(p.Detail, want) || *p.OpenRecords != 5 || *p.LagRecords != 0 {
				t.Errorf("%+v", p)
			}
		}
		time.Sleep(2 * recordEvery)
		if got := w.States("l"); len(got) != 1 || got[0].Topic.Partitions[1].Detail != r.Partitions[1].Detail {
			t.Errorf("on record: %+v", got)
		}
		w.mu.Lock()
		puts := w.puts
		w.mu.Unlock()
		topicReport(t, l, "a")
		w.mu.Lock()
		if w.puts != puts {
			t.Errorf("%d records written while nothing changed", w.puts-puts)
		}
		w.mu.Unlock()
		s.open.Store(0)
		for _, p := range topicReport(t, l, "a").Partitions {
			if p.Detail != "" || *p.OpenRecords != 0 {
				t.Errorf("%+v", p)
			}
		}
		end()
		s.wg.Wait()
	})
}
