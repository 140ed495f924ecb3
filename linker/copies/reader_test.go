package copies

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/drift"
	"klink/linker/maps"
	"klink/translate/exact"
)

const own, foreign = int64(7), int64(8)

// written is a batch of a target's log.
type written struct {
	drift.OwnBatch
	producer   int64
	attributes int16
}

func (w written) bytes() []byte {
	b := kmsg.RecordBatch{FirstOffset: w.Base, Magic: 2, Attributes: w.attributes, LastOffsetDelta: int32(w.Count - 1),
		ProducerID: w.producer, FirstSequence: w.Seq, NumRecords: int32(w.Count)}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	return b.AppendTo(nil)
}

// target is a target's log and what is on record of it.
type target struct {
	start, end int64
	log        []written
	recorded   []exact.Run
	cursor     maps.Cursor
	fail       error

	mu    sync.Mutex // guards looks
	looks int
}

func (l *target) Bounds(context.Context, feed.Partition, feed.TopicID) (feed.Bounds, error) {
	return feed.Bounds{LogStart: l.start, HighWatermark: l.end, LogEnd: l.end}, l.fail
}

// Read gives one batch at a time.
func (l *target) Read(_ context.Context, _ feed.Partition, _ feed.TopicID, from int64, _ int32) (*feed.Chunk, error) {
	c := &feed.Chunk{}
	if i := slices.IndexFunc(l.log, func(w written) bool { return w.Base+w.Count > from }); i >= 0 {
		c.Batches = [][]byte{l.log[i].bytes()}
	}
	return c, nil
}

func (l *target) Refresh(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	return nil
}

func (l *target) Map(maps.Place) (*exact.Map, maps.Cursor, error) {
	m, err := exact.FromRuns(l.recorded, 0)
	return m, l.cursor, err
}

func of(base, count int64, seq int32, producer int64) written {
	return written{OwnBatch: drift.OwnBatch{Base: base, Count: count, Seq: seq}, producer: producer}
}

func cursorAt(src, dst int64, seq int32) maps.Cursor {
	return maps.Cursor{Src: src, Dst: dst, Seq: seq, At: time.Unix(1, 0)}
}

func TestCopies(t *testing.T) {
	marker := of(15, 1, 0, own)
	marker.attributes = 1<<5 | 1<<4
	for name, c := range map[string]struct {
		in   *target
		want []exact.Run
		at   drift.Position
		err  error
	}{
		"nothing on record": {in: &target{end: 5, log: []written{of(0, 5, 0, foreign)}}},
		"behind the cursor, with others and a fence between": {
			in: &target{end: 30, log: []written{of(0, 10, 0, own), of(10, 5, 0, foreign), marker, of(16, 4, 10, own), of(25, 2, 14, own)},
				recorded: []exact.Run{{Count: 10}, {Src: 12, Dst: 10, Count: 4, Seq: 10}}, cursor: cursorAt(12, 10, 10)},
			want: []exact.Run{{Count: 10}, {Src: 12, Dst: 16, Count: 4, Seq: 10}, {Src: 16, Dst: 25, Count: 2, Seq: 14}},
			at:   drift.Position{Src: 18, Dst: 30, Seq: 16}},
		"truncated below the cursor, others since": {
			in: &target{end: 20, log: []written{of(0, 4, 0, own), of(4, 16, 0, foreign)},
				recorded: []exact.Run{{Count: 10}}, cursor: cursorAt(10, 10, 10)},
			want: []exact.Run{{Count: 4}}, at: drift.Position{Src: 4, Dst: 20, Seq: 4}},
		"a copy on no record": {in: &target{end: 5, log: []written{of(0, 5, 0, own)}, cursor: cursorAt(0, 0, 0)}, err: drift.ErrUnmapped},
		"no answer":           {in: &target{fail: context.DeadlineExceeded}, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			m, at, err := New(c.in, c.in).Copies(t.Context(), Partition{Producer: own})
			if !errors.Is(err, c.err) || at != c.at {
				t.Fatalf("%+v, %v; want %+v, %v", at, err, c.at, c.err)
			}
			if (m == nil) != (c.want == nil) {
				t.Fatalf("map %v, want %v", m, c.want)
			}
			if m != nil && !slices.Equal(slices.Collect(m.Runs()), c.want) {
				t.Errorf("%+v, want %+v", slices.Collect(m.Runs()), c.want)
			}
		})
	}
}

// TestLooksAreShared: those who ask at the same time need one look at the record, and
// one who asks later another.
func TestLooksAreShared(t *testing.T) {
	in := &target{}
	r := New(in, in)
	for range 3 {
		if _, _, err := r.Copies(t.Context(), Partition{}); err != nil {
			t.Fatal(err)
		}
	}
	if in.looks != 3 {
		t.Errorf("%d looks by three one after the other", in.looks)
	}
	r.mu.Lock()
	var asked sync.WaitGroup
	for range 10 {
		asked.Go(func() { _, _, _ = r.Copies(context.Background(), Partition{}) })
	}
	r.seen = time.Now().Add(time.Hour) // as a look that began after all of them asked
	r.mu.Unlock()
	asked.Wait()
	if in.looks != 3 {
		t.Errorf("%d looks, although one had begun since", in.looks-3)
	}
}
