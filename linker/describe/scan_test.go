package describe

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// entry is one batch of a log: a marker of a producer, or n data records.
type entry struct {
	producer int64
	epoch    int32
	n        int
	bare     bool // header only
	damaged  bool
}

func filler(r ledger.Reason) entry { return entry{producer: pid, epoch: ledger.CoordinatorEpoch(9, r)} }

func data(n int) entry { return entry{n: n} }

// bytes returns the batch as it stands in a log.
func (e entry) bytes(base int64) []byte {
	b := kmsg.RecordBatch{FirstOffset: base, Magic: 2, LastOffsetDelta: int32(max(e.n, 1) - 1), ProducerID: e.producer, FirstSequence: -1}
	if e.n == 0 {
		b.Attributes = 0x30 // control, transactional
		if !e.bare {
			b.NumRecords = 1
			value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(e.epoch))
			b.Records = append([]byte{0, 0, 0, 8, 0, 0, 0, 1, 12}, append(value, 0)...)
			b.Records = append([]byte{byte(2 * len(b.Records))}, b.Records...)
		}
	}
	b.Length = int32(49 + len(b.Records))
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	if e.damaged {
		raw[len(raw)-2] ^= 1
	}
	return raw
}

// fakeLog serves entries, a few at a time.
type fakeLog struct {
	entries []entry
	start   int64
	perRead int
	err     error
	// trims: the log start moves there with the first read.
	trims int64
	// silent: from this offset on reads give nothing.
	silent int64
	reads  int
}

func (l *fakeLog) end() (end int64) {
	for _, e := range l.entries {
		end += int64(max(e.n, 1))
	}
	return end
}

func (l *fakeLog) Bounds(context.Context, feed.Partition, feed.TopicID) (feed.Bounds, error) {
	return feed.Bounds{LogStart: l.start, HighWatermark: l.end(), LastStable: l.end(), SeenAt: at}, l.err
}

func (l *fakeLog) Read(_ context.Context, p feed.Partition, _ feed.TopicID, from int64, _ int32) (*feed.Chunk, error) {
	l.reads++
	l.start = max(l.start, l.trims)
	if from < l.start {
		f := feed.NewFault(feed.Overrun, p, from, nil)
		f.LogStart = l.start
		return nil, f
	}
	c := &feed.Chunk{}
	base := int64(0)
	for _, e := range l.entries {
		next := base + int64(max(e.n, 1))
		if next > from && len(c.Batches) < l.perRead && (l.silent == 0 || base < l.silent) {
			c.Batches = append(c.Batches, e.bytes(base))
		}
		base = next
	}
	return c, nil
}

func scanned(t testing.TB, tr trail, l *fakeLog) Ledger {
	t.Helper()
	l.perRead = max(l.perRead, 2)
	tr.producerID = pid
	p := Partition{trail: tr}
	must(t, p.Scan(t.Context(), l, WithRanges))
	return p.Ledger
}

func TestScan(t *testing.T) {
	indexed := func(end int64, ranges ...ledger.Range) *ledger.Stored {
		s := advanced(end, ranges...).Encode()
		return &s
	}
	mixed := []entry{data(5), filler(ledger.Marker), filler(ledger.Marker), filler(ledger.Compacted), {producer: 7, epoch: 1}, data(2), filler(ledger.None)}
	for name, c := range map[string]struct {
		trail       trail
		log         fakeLog
		totals      map[string]int64
		upTo        int64
		unexplained int64
		note        string
	}{
		"no index":         {trail{}, fakeLog{entries: mixed}, map[string]int64{"marker": 2, "compacted": 1, "none": 1}, 12, 0, ""},
		"behind the index": {trail{index: indexed(6, ledger.Range{From: 5, End: 6, Reason: ledger.Marker})}, fakeLog{entries: mixed}, map[string]int64{"marker": 2, "compacted": 1, "none": 1}, 12, 0, ""},
		"index at the end": {trail{index: indexed(12)}, fakeLog{entries: mixed}, map[string]int64{}, 12, 0, ""},
		"empty log":        {trail{}, fakeLog{}, map[string]int64{}, 0, 0, ""},
		"cleaned":          {trail{}, fakeLog{entries: []entry{data(1), {producer: pid, bare: true}}}, map[string]int64{}, 2, 1, ""},
		"padded start": {trail{pad: &ledger.Range{From: 0, End: 4, Reason: ledger.Padded}}, fakeLog{entries: []entry{data(4), data(1), filler(ledger.Marker)}, start: 4},
			map[string]int64{"padded": 4, "marker": 1}, 6, 0, ""},
		"padding in between": {trail{pad: &ledger.Range{From: 3, End: 6, Reason: ledger.Retention}}, fakeLog{entries: []entry{data(1), filler(ledger.Marker), data(1), data(3), filler(ledger.Marker)}},
			map[string]int64{"retention": 3, "marker": 2}, 7, 0, ""},
		"trimmed": {trail{index: indexed(1)}, fakeLog{entries: mixed, start: 6}, map[string]int64{"marker": 1, "compacted": 1, "none": 1}, 1, 0,
			"the target's log begins at offset 6: what was filled from 1 on is not in it any more"},
		"trimmed meanwhile": {trail{}, fakeLog{entries: mixed, trims: 7}, map[string]int64{"compacted": 1, "none": 1}, 0, 0, "begins at offset 7"},
		"silent":            {trail{}, fakeLog{entries: mixed, silent: 7}, map[string]int64{"marker": 2}, 7, 0, "gives nothing between offset 7 and its end 12"},
	} {
		t.Run(name, func(t *testing.T) {
			got := scanned(t, c.trail, &c.log)
			if diff := cmp.Diff(c.totals, got.Totals); diff != "" {
				t.Error(diff)
			}
			if *got.UpTo != c.upTo || got.Unexplained != c.unexplained || !got.AsOf.Equal(at) || !strings.Contains(strings.Join(got.Notes, "; "), c.note) || c.note == "" && len(got.Notes) > 0 {
				t.Errorf("up to %d, %+v", *got.UpTo, got)
			}
		})
	}
}

// What was read of a log is what a list of its offsets would tell, wherever the
// index ended and however the log comes in pieces.
func TestScanFindsWhatIsThere(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := &fakeLog{perRead: 1 + r.IntN(5)}
		var offsets []ledger.Reason // of every offset; Split stands for a copy
		for range r.IntN(40) {
			if r.IntN(2) == 0 {
				n := 1 + r.IntN(3)
				l.entries = append(l.entries, data(n))
				for range n {
					offsets = append(offsets, ledger.Split)
				}
				continue
			}
			reason := ledger.Reason(1 + r.IntN(3))
			l.entries = append(l.entries, filler(reason))
			offsets = append(offsets, reason)
		}
		want := map[string]int64{}
		x, indexed := new(ledger.Index), int64(r.IntN(len(offsets)+1))
		for i, reason := range offsets {
			if reason == ledger.Split {
				continue
			}
			want[reason.String()]++
			if int64(i) < indexed {
				x.Add(ledger.Range{From: int64(i), End: int64(i) + 1, Reason: reason})
			}
		}
		x.Advance(indexed)
		stored := x.Encode()
		got := scanned(t, trail{index: &stored}, l)
		if diff := cmp.Diff(want, got.Totals); diff != "" || *got.UpTo != int64(len(offsets)) {
			t.Fatalf("seed %d, up to %d of %d: %s", seed, *got.UpTo, len(offsets), diff)
		}
		for _, g := range got.Ranges {
			for o := g.From; o < g.End; o++ {
				if offsets[o].String() != g.Reason {
					t.Fatalf("seed %d: offset %d is %s, listed in %+v", seed, o, offsets[o], g)
				}
			}
		}
	}
}

// What fails leaves the ledger as the record has it, and says why.
func TestScanFails(t *testing.T) {
	p := Partition{Ledger: Ledger{Totals: map[string]int64{"marker": 1}}}
	must(t, p.Scan(t.Context(), &fakeLog{}, TotalsOnly))
	if len(p.Ledger.Notes) != 1 || p.Ledger.Totals["marker"] != 1 {
		t.Errorf("%+v", p.Ledger)
	}
	p = Partition{Ledger: p.Ledger, trail: trail{producerID: pid}}
	gone := feed.NewFault(feed.Gone, feed.Partition{Topic: "x"}, 0, nil)
	if err := p.Scan(t.Context(), &fakeLog{err: gone}, TotalsOnly); !errors.Is(err, gone) || p.Ledger.Totals["marker"] != 1 {
		t.Errorf("%v, %+v", err, p.Ledger)
	}
	damaged := &fakeLog{entries: []entry{data(2), {producer: pid, damaged: true}}, perRead: 1}
	var f *feed.Fault
	if err := p.Scan(t.Context(), damaged, TotalsOnly); !errors.As(err, &f) || f.Kind != feed.Corrupt || f.Next != 2 || p.Ledger.Totals["marker"] != 1 {
		t.Errorf("%v, %+v", err, p.Ledger)
	}
}
