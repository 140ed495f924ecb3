package comparator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The clock of judge stands at 10,000 ms and tombstones are kept for 100.
func TestCompactedRule(t *testing.T) {
	for name, tc := range map[string]struct {
		src, dst  []rec
		want      map[Kind]int64
		compacted int64
	}{
		"superseded on the target": {
			src: []rec{{0, "a", "1", 1}, {1, "b", "1", 1}, {2, "a", "2", 1}}, dst: []rec{{1, "b", "1", 1}, {2, "a", "2", 1}}, compacted: 1},
		"superseded on the source": {
			src: []rec{{2, "a", "2", 1}}, dst: []rec{{0, "a", "1", 1}, {2, "a", "2", 1}}, compacted: 1},
		"superseded by a record that the other side lost": {
			src: []rec{{0, "a", "1", 1}, {5, "b", "1", 1}, {9, "a", "3", 1}}, dst: []rec{{4, "a", "2", 1}, {5, "b", "1", 1}, {9, "a", "3", 1}}, compacted: 2},
		"lost": {
			src: []rec{{0, "a", "1", 1}, {1, "b", "1", 1}}, dst: []rec{{1, "b", "1", 1}}, want: map[Kind]int64{Missing: 1}},
		"the latest value is lost and an older one stands": {
			src: []rec{{0, "a", "1", 1}, {1, "a", "2", 1}}, dst: []rec{{0, "a", "1", 1}}, want: map[Kind]int64{Missing: 1}},
		"made up": {
			src: []rec{{1, "b", "1", 1}}, dst: []rec{{0, "a", "1", 1}, {1, "b", "1", 1}}, want: map[Kind]int64{Extra: 1}},
		"an expired tombstone with what it deleted": {
			src: []rec{{0, "a", "1", 1}, {1, "a", "-", 1}}, dst: []rec{}, compacted: 2},
		"a tombstone that cannot have expired": {
			src: []rec{{1, "a", "-", 9_950}}, dst: []rec{}, want: map[Kind]int64{Missing: 1}},
		"a tombstone of tomorrow": {
			src: []rec{{1, "a", "-", 20_000}}, dst: []rec{}, compacted: 1},
		"a lost tombstone": {
			src: []rec{{0, "a", "1", 1}, {1, "a", "-", 1}}, dst: []rec{{0, "a", "1", 1}}, want: map[Kind]int64{Missing: 1}},
		"without a key": {
			src: []rec{{0, "", "1", 1}}, dst: []rec{}, compacted: 1},
		"copies of the next record in a hole of the source": {
			src: []rec{{3, "a", "1", 1}}, dst: []rec{{0, "a", "1", 1}, {1, "a", "1", 1}, {2, "a", "1", 1}, {3, "a", "1", 1}}, compacted: 3},
		"changed": {
			src: []rec{{0, "a", "1", 1}}, dst: []rec{{0, "a", "2", 1}}, want: map[Kind]int64{Changed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, findings := judge(t, rand.New(rand.NewPCG(1, 2)), tc.src, tc.dst, MergeOptions{Compacted: true}, true)
			if tc.want == nil {
				tc.want = map[Kind]int64{}
			}
			if d := cmp.Diff(tc.want, got.Counts); d != "" || got.Compacted != tc.compacted {
				t.Fatalf("compacted %d, want %d; (-want +got)\n%s\n%+v", got.Compacted, tc.compacted, d, findings)
			}
		})
	}
}

// TestCompactedAgainstOracle cleans two copies of a log at random, as cleaners
// do, and loses records here and there. Few keys at a time change nothing.
func TestCompactedAgainstOracle(t *testing.T) {
	for seed := range seeds(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		log := keyed(rng, 1+rng.Int64N(300))
		src, dst := cleaned(rng, log), cleaned(rng, log)
		if seed%2 == 1 && len(dst) > 0 {
			dst = slices.Delete(dst, 0, 1+rng.IntN(min(5, len(dst))))
		}
		want := keyOracle(src, dst)
		for _, most := range []int{0, 10} {
			got, findings := judge(t, rng, src, dst, MergeOptions{Compacted: true, MaxKeys: most}, seed%3 == 0)
			got.Compared = want.Compared
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d, %d keys: (-want +got)\n%s\n%+v\nsrc %v\ndst %v", seed, most, d, findings, src, dst)
			}
		}
	}
}

func keyed(rng *rand.Rand, n int64) (out []rec) {
	for o := range n {
		r := rec{offset: o, key: fmt.Sprint("k", rng.IntN(40)), value: fmt.Sprint("v", o), stamp: 1 + o}
		if rng.IntN(8) == 0 {
			r.value = "-"
		}
		out = append(out, r)
	}
	return out
}

// cleaned removes what is superseded below a random offset, and tombstones below
// an earlier one, with which nothing of their keys is left.
func cleaned(rng *rand.Rand, log []rec) []rec {
	if len(log) == 0 {
		return nil
	}
	dirty := rng.Int64N(int64(len(log)) + 1)
	old := rng.Int64N(dirty + 1)
	latest := map[string]int64{}
	for _, r := range log {
		if r.offset < dirty {
			latest[r.key] = r.offset
		}
	}
	return slices.DeleteFunc(slices.Clone(log), func(r rec) bool {
		return r.offset < dirty && (latest[r.key] > r.offset || r.value == "-" && r.offset < old)
	})
}

// keyOracle judges each lone record by walks over both whole logs.
func keyOracle(src, dst []rec) found {
	f := found{Counts: map[Kind]int64{}}
	lone := func(have, lack []rec, kind Kind) {
		there := byOffset(lack)
		for _, r := range have {
			if _, ok := there[r.offset]; ok {
				continue
			}
			if byRight(r, have, lack) {
				f.Compacted++
			} else {
				f.Counts[kind]++
			}
		}
	}
	lone(src, dst, Missing)
	lone(dst, src, Extra)
	return f
}

func byRight(r rec, have, lack []rec) bool {
	holds := false
	for _, x := range lack {
		if x.key == r.key {
			holds = true
			if x.offset > r.offset {
				return true
			}
		}
	}
	last := r
	for _, x := range have {
		if x.key == r.key {
			last = x
		}
	}
	// The last one deleted the key, and the other side is rid of all of it.
	return !holds && last.value == "-"
}

// More keys than 256 passes settle are an error and not a wrong answer: of 257
// keys two are in one group, whatever the run's secret is.
func TestTooManyKeys(t *testing.T) {
	p, rng := NewPrinter(), rand.New(rand.NewPCG(1, 2))
	for from := 0; from < buckets; {
		out, err := Merge(t.Context(), side(t, rng, p, numbered(0, buckets+1), false), &listed{},
			MergeOptions{Range: Range{0, buckets + 1}, Compacted: true, MaxKeys: 1, FromBucket: from})
		if errors.Is(err, ErrTooManyKeys) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.NextBucket() <= from {
			t.Fatalf("a pass from %d goes on at %d", from, out.NextBucket())
		}
		from = out.NextBucket()
	}
	t.Fatalf("no pass failed, want %v", ErrTooManyKeys)
}

func TestDiffers(t *testing.T) {
	value, other, gone := &Latest{Sum: 1}, &Latest{Sum: 2}, &Latest{Tombstone: true}
	for i, tc := range []struct {
		a, b *Latest
		want bool
	}{{value, value, false}, {value, other, true}, {value, nil, true}, {gone, value, true}, {gone, nil, false}, {nil, nil, false}} {
		if differs(tc.a, tc.b) != tc.want || differs(tc.b, tc.a) != tc.want {
			t.Errorf("case %d is not %t", i, tc.want)
		}
	}
}
