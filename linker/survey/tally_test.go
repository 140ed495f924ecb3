package survey

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"klink/fetcher/batch"
	"klink/linker/ledger"
	"klink/linker/plan"
)

// shape is one batch of a log: n offsets of a kind.
type shape struct {
	kind byte // d data, h data with holes, m marker, a aborted, - nothing, t with the broker's time, o old format
	n    int64
}

// batchBytes is the size of each batch with records; above what may be merged.
const batchBytes = 100_000

// logOf lays shapes out from an offset on.
func logOf(base int64, shapes ...shape) (entries []plan.Entry, end int64) {
	for _, s := range shapes {
		e := plan.Entry{SizeBytes: batchBytes, Header: batch.Header{BaseOffset: base, Magic: 2, LastOffsetDelta: int32(s.n - 1), Count: int32(s.n), MaxTimestamp: 1000 + base}}
		switch s.kind {
		case 'h':
			e.Header.Count /= 2
		case 'm':
			e.Header.Attributes, e.SizeBytes = 0x30, 78
		case 'a':
			e.Header.Attributes, e.Aborted = 0x10, true
		case 't':
			e.Header.Attributes = 0x08
		case 'o':
			e = plan.Entry{Old: true, OldBase: base, OldLast: base + s.n - 1, SizeBytes: batchBytes}
		}
		if base += s.n; s.kind != '-' {
			entries = append(entries, e)
		}
	}
	return entries, base
}

func TestCount(t *testing.T) {
	type gaps = map[ledger.Reason]int64
	for name, c := range map[string]struct {
		from   int64
		log    []shape
		want   Tally
		gaps   gaps
		reason string
	}{
		"plain":          {0, []shape{{'d', 10}, {'d', 10}}, Tally{End: 20, Bytes: 2 * batchBytes, Appends: 2}, gaps{}, ""},
		"transactions":   {0, []shape{{'d', 10}, {'m', 1}, {'d', 10}, {'m', 1}}, Tally{End: 22, Bytes: 2 * batchBytes, Appends: 2, GapRuns: 2}, gaps{ledger.Marker: 2}, ""},
		"aborted":        {0, []shape{{'d', 10}, {'a', 5}, {'m', 1}, {'d', 1}}, Tally{End: 17, Bytes: 2 * batchBytes, Appends: 2, GapRuns: 1}, gaps{ledger.Aborted: 5, ledger.Marker: 1}, ""},
		"compacted away": {0, []shape{{'d', 10}, {'-', 990}, {'d', 10}}, Tally{End: 1010, Bytes: 2 * batchBytes, Appends: 2, GapRuns: 1}, gaps{ledger.Compacted: 990}, ""},
		"holes":          {0, []shape{{'h', 10}}, Tally{End: 10, Bytes: batchBytes, Recoded: batchBytes, Appends: 5, GapRuns: 5, Cleaned: true}, gaps{ledger.Compacted: 5}, ""},
		"broker's time":  {0, []shape{{'t', 10}}, Tally{End: 10, Bytes: batchBytes, Recoded: batchBytes, Appends: 1}, gaps{}, ""},
		"old format":     {0, []shape{{'o', 10}}, Tally{End: 10, Bytes: batchBytes, Recoded: batchBytes, Appends: 1}, gaps{}, ""},
		"begins within":  {3, []shape{{'d', 10}}, Tally{End: 10, Bytes: batchBytes, Recoded: batchBytes, Appends: 1}, gaps{}, ""},
		"begins behind":  {15, []shape{{'d', 10}, {'d', 10}}, Tally{End: 20, Bytes: batchBytes, Recoded: batchBytes, Appends: 1}, gaps{}, ""},
		"nothing":        {7, nil, Tally{End: 7}, gaps{}, ""},
	} {
		entries, _ := logOf(0, c.log...)
		got := count(c.from, entries, plan.DefaultLimits())
		want := c.want
		want.From = c.from
		if !maps.Equal(got.Gaps, c.gaps) || got.From != want.From || got.End != want.End || got.Bytes != want.Bytes || got.Appends != want.Appends ||
			got.Recoded != want.Recoded || got.GapRuns != want.GapRuns || got.Cleaned != want.Cleaned {
			t.Errorf("%s: got %+v, want %+v with gaps %v", name, got, want, c.gaps)
		}
	}
}

// randomLog makes a log whose nature does not change, of about n batches.
func randomLog(r *rand.Rand, n int) []shape {
	kinds := []byte("ddddm")
	if r.IntN(2) == 0 {
		kinds = append(kinds, "am-h"...)
	}
	var out []shape
	for range n {
		k := kinds[r.IntN(len(kinds))]
		s := shape{k, 1 + r.Int64N(20)}
		if k == 'm' {
			s.n = 1
		}
		out = append(out, s)
	}
	return append(out, shape{'d', 1})
}

// A dumb count, batch by batch, is what count adds up to, however the log is cut
// into reads.
func TestCountOracle(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		log := randomLog(r, 100)
		want := map[ledger.Reason]int64{}
		var bytes int64
		for _, s := range log {
			switch s.kind {
			case 'm':
				want[ledger.Marker]++
			case 'a':
				want[ledger.Aborted] += s.n
			case '-':
				want[ledger.Compacted] += s.n
			case 'h':
				want[ledger.Compacted] += s.n - s.n/2
			}
			if s.kind == 'd' || s.kind == 'h' && s.n > 1 {
				bytes += batchBytes
			}
		}
		entries, end := logOf(0, log...)
		var all Tally
		for from := int64(0); from < end; {
			n := 1 + r.IntN(len(entries))
			part := count(from, entries[:n], plan.DefaultLimits())
			all.add(part)
			from, entries = part.End, entries[n:]
		}
		for reason, n := range want {
			if n > 0 && all.Gaps[reason] != n {
				t.Errorf("seed %d: %s %d, want %d", seed, reason, all.Gaps[reason], n)
			}
		}
		if all.Bytes != bytes || all.From != 0 || all.End != end {
			t.Errorf("seed %d: %+v, want %d bytes up to %d", seed, all, bytes, end)
		}
	}
}

// Samples of a log that is alike everywhere give its gaps and bytes within a
// third; one that was read as a whole gives them exactly.
func TestExtrapolate(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		entries, end := logOf(0, randomLog(r, 20_000)...)
		exact := count(0, entries, plan.DefaultLimits())
		var strata []stratum
		step := len(entries) / places
		for i := 0; i < len(entries); i += step {
			from, to := baseOf(entries[i]), end
			if i+step < len(entries) {
				to = baseOf(entries[i+step])
			}
			strata = append(strata, stratum{From: from, End: to, Seen: count(from, entries[i:min(i+200, len(entries))], plan.DefaultLimits())})
		}
		a := extrapolate(strata, 0)
		if !a.Estimated {
			t.Fatalf("seed %d: not marked as estimated", seed)
		}
		whole := extrapolate([]stratum{{From: 0, End: end, Seen: exact}}, 0)
		if whole.Estimated || whole.Bytes != exact.Bytes || !maps.Equal(whole.Gaps, exact.Gaps) {
			t.Errorf("seed %d: what was read as a whole: %+v, want %+v", seed, whole, exact)
		}
		for what, n := range map[string][2]int64{"gaps": {a.GapOffsets(), whole.GapOffsets()}, "bytes": {a.Bytes, exact.Bytes}, "runs": {a.GapRuns, exact.GapRuns}} {
			if ratio := float64(n[0]) / float64(n[1]); math.Abs(math.Log(ratio)) > math.Log(4.0/3) {
				t.Errorf("seed %d: %s %d, in truth %d", seed, what, n[0], n[1])
			}
		}
	}
}

// A log of two natures is not taken for one: each part counts by its own length,
// although sparse parts show more offsets in a read of the same size.
func TestExtrapolateTwoNatures(t *testing.T) {
	dense := Tally{From: 0, End: 100, Bytes: 1000, Gaps: map[ledger.Reason]int64{}, FirstTime: -1}
	sparse := Tally{From: 1000, End: 2000, Bytes: 100, Gaps: map[ledger.Reason]int64{ledger.Compacted: 990}, GapRuns: 10, FirstTime: 5_000}
	a := extrapolate([]stratum{{From: 0, End: 1000, Seen: dense}, {From: 1000, End: 2000, Seen: sparse}}, 15_000)
	if a.Bytes != 10_100 || a.GapOffsets() != 990 || a.GapRuns != 10 || !a.Estimated || a.GapsPerSecond != 99 {
		t.Errorf("%+v", a)
	}
	// Nothing at or above an offset is a gap up to the end.
	a = extrapolate([]stratum{{From: 0, End: 100, Seen: dense}, {From: 100, End: 150}}, 0)
	if a.GapOffsets() != 50 || a.GapRuns != 1 || !a.Estimated || a.GapsPerSecond != -1 {
		t.Errorf("%+v", a)
	}
}
