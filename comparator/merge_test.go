package comparator

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
)

// rec is a visible record of a log made up for a test.
type rec struct {
	offset     int64
	key, value string // value "-" is a tombstone, key "" is null
	stamp      int64
}

func (r rec) record() batch.Record {
	out := batch.Record{Offset: r.offset, Timestamp: r.stamp, Value: []byte(r.value)}
	if r.key != "" {
		out.Key = []byte(r.key)
	}
	if r.value == "-" {
		out.Value = nil
	}
	return out
}

// numbered returns records at offsets from up to to, with values of their own.
func numbered(from, to int64) (out []rec) {
	for o := from; o < to; o++ {
		out = append(out, rec{offset: o, key: fmt.Sprint("k", o), value: fmt.Sprint("v", o), stamp: 1000 + o})
	}
	return out
}

// moved returns the records by so many offsets further on.
func moved(recs []rec, by int64) []rec {
	out := slices.Clone(recs)
	for i := range out {
		out[i].offset += by
	}
	return out
}

// listed is a stream of blocks in memory.
type listed struct{ blocks []Block }

func (l *listed) Next(context.Context) (Block, error) {
	if len(l.blocks) == 0 {
		return Block{}, io.EOF
	}
	b := l.blocks[0]
	l.blocks = l.blocks[1:]
	return b, nil
}

// side makes a stream of records in batches of random sizes and codecs; raw ones
// are left for the merge to decode.
func side(t testing.TB, rng *rand.Rand, p *Printer, recs []rec, raw bool) *listed {
	t.Helper()
	l := &listed{}
	for len(recs) > 0 {
		n := 1 + rng.IntN(min(len(recs), 9))
		for i := 1; i < n; i++ {
			if recs[i].offset != recs[i-1].offset+1 {
				n = i // Encode makes batches without holes
				break
			}
		}
		l.blocks = append(l.blocks, block(t, rng, p, recs[:n], raw))
		if rng.IntN(4) == 0 { // a marker, or whatever is not seen
			o := recs[n-1].offset + 1
			l.blocks = append(l.blocks, Block{Base: o, Next: o})
		}
		recs = recs[n:]
	}
	return l
}

func block(t testing.TB, rng *rand.Rand, p *Printer, recs []rec, raw bool) Block {
	t.Helper()
	b := Block{Base: recs[0].offset, Next: recs[len(recs)-1].offset + 1, Records: int32(len(recs))}
	if raw {
		made, err := batch.Encode(sequence(recs), batch.RecodeOptions{Codec: batch.Codec(rng.IntN(5))})
		if err != nil || len(made) != 1 {
			t.Fatalf("encode: %d batches, %v", len(made), err)
		}
		b.Raw = rebased(made[0].Bytes, recs[0].offset)
		return b
	}
	for _, r := range recs {
		b.Prints = append(b.Prints, p.Of(r.record()))
	}
	return b
}

func sequence(recs []rec) iter.Seq2[batch.Record, error] {
	return func(yield func(batch.Record, error) bool) {
		for _, r := range recs {
			if !yield(r.record(), nil) {
				return
			}
		}
	}
}

// rebased gives a batch the base offset that a broker would; it lies outside
// the checksum.
func rebased(b []byte, base int64) []byte {
	for i := range 8 {
		b[i] = byte(base >> (56 - 8*i))
	}
	return b
}

// found is what a comparison comes to.
type found struct {
	Counts                       map[Kind]int64
	Compared, Compacted, Expired int64
}

// judge compares two logs as a partition is compared: passes over the keys, and
// what is left settled by the whole logs.
func judge(t testing.TB, rng *rand.Rand, src, dst []rec, opt MergeOptions, raw bool) (found, []Finding) {
	t.Helper()
	p := NewPrinter()
	if opt.Range == (Range{}) {
		opt.Range = Range{0, 1 << 40}
	}
	lazy := &decoder{printer: p.Again(), span: opt.Range}
	opt.Decode = func(b Block) ([]Print, error) { return lazy.decode(nil, b.Raw) }
	var all Tally
	var f found
	for bucket := 0; bucket < buckets; {
		opt.FromBucket = bucket
		out, err := Merge(t.Context(), side(t, rng, p, src, raw), side(t, rng, p, dst, raw), opt)
		if err != nil {
			t.Fatal(err)
		}
		if bucket == 0 {
			all.absorb(&out.Tally)
			f.Compared, f.Expired = out.Compared, out.Expired
		}
		f.Compacted += out.Compacted
		if out.keys != nil {
			v := out.keys.settle([2]map[uint64]Latest{latestOf(p, src), latestOf(p, dst)}, [2]tombstoneRule{{100, 10_000}, {100, 10_000}})
			f.Compacted += v.compacted
			for _, x := range v.findings {
				all.Add(x)
			}
		}
		bucket = out.NextBucket()
	}
	f.Counts = all.Counts
	if f.Counts == nil {
		f.Counts = map[Kind]int64{}
	}
	return f, all.Findings
}

func latestOf(p *Printer, recs []rec) map[uint64]Latest {
	m := make(map[uint64]Latest)
	for _, r := range recs {
		x := p.Of(r.record())
		m[x.Key] = Latest{Offset: x.Offset, Sum: x.Sum, Tombstone: x.Tombstone}
	}
	return m
}

func without(recs []rec, drop ...int64) []rec {
	return slices.DeleteFunc(slices.Clone(recs), func(r rec) bool { return slices.Contains(drop, r.offset) })
}

func with(recs []rec, more ...rec) []rec {
	out := slices.Clone(recs)
	for _, m := range more {
		i := slices.IndexFunc(out, func(r rec) bool { return r.offset >= m.offset })
		switch {
		case i < 0:
			out = append(out, m)
		case out[i].offset == m.offset:
			out[i] = m
		default:
			out = slices.Insert(out, i, m)
		}
	}
	return out
}

func join(parts ...[]rec) []rec { return slices.Concat(parts...) }

func TestMerge(t *testing.T) {
	base := numbered(0, 100)
	for name, tc := range map[string]struct {
		src, dst []rec
		want     map[Kind]int64
		compared int64
		first    Finding
	}{
		"equal":            {src: base, dst: base, compared: 100},
		"both empty":       {},
		"missing":          {src: base, dst: without(base, 7, 8), want: map[Kind]int64{Missing: 2}, compared: 98, first: Finding{Kind: Missing, Offset: 7, Records: 1}},
		"extra":            {src: without(base, 50), dst: base, want: map[Kind]int64{Extra: 1}, compared: 99, first: Finding{Kind: Extra, Offset: 50, Records: 1}},
		"changed value":    {src: base, dst: with(base, rec{33, "k33", "V33", 1033}), want: map[Kind]int64{Changed: 1}, compared: 100, first: Finding{Kind: Changed, Offset: 33, Records: 1}},
		"changed time":     {src: base, dst: with(base, rec{33, "k33", "v33", 1034}), want: map[Kind]int64{Changed: 1}, compared: 100, first: Finding{Kind: Changed, Offset: 33, Records: 1}},
		"null and empty":   {src: []rec{{0, "k", "-", 1}}, dst: []rec{{0, "k", "", 1}}, want: map[Kind]int64{Changed: 1}, compared: 1, first: Finding{Kind: Changed, Offset: 0, Records: 1}},
		"a swapped pair":   {src: base, dst: with(base, rec{10, "k11", "v11", 1011}, rec{11, "k10", "v10", 1010}), want: map[Kind]int64{Changed: 2}, compared: 100, first: Finding{Kind: Changed, Offset: 10, Records: 1}},
		"source alone":     {src: base, want: map[Kind]int64{Missing: 100}, first: Finding{Kind: Missing, Offset: 0, Records: 1}},
		"target alone":     {dst: base, want: map[Kind]int64{Extra: 100}, first: Finding{Kind: Extra, Offset: 0, Records: 1}},
		"shift from start": {src: base, dst: moved(base, 3), want: map[Kind]int64{Shifted: 100}, first: Finding{Kind: Shifted, Offset: 0, Records: 100, ShiftedBy: 3}},
		"one offset too few": {src: base, dst: join(base[:40], moved(base[40:], -1)[1:]), want: map[Kind]int64{Shifted: 59, Missing: 1}, compared: 40,
			first: Finding{Kind: Missing, Offset: 40, Records: 1}},
		"one offset too many": {src: base, dst: join(base[:40], moved(base[40:], 1)), want: map[Kind]int64{Shifted: 60}, compared: 40,
			first: Finding{Kind: Shifted, Offset: 40, Records: 60, ShiftedBy: 1}},
		"an extra record shifts the rest": {src: base, dst: join(base[:40], []rec{{40, "x", "x", 5}}, moved(base[40:], 1)), want: map[Kind]int64{Shifted: 60, Extra: 1}, compared: 40,
			first: Finding{Kind: Extra, Offset: 40, Records: 1}},
		"a shift and back": {src: base, dst: join(base[:20], moved(base[20:60], 2)[:38], base[60:]), want: map[Kind]int64{Shifted: 38, Missing: 2}, compared: 60,
			first: Finding{Kind: Shifted, Offset: 20, Records: 38, ShiftedBy: 2}},
		"a change within a shift": {src: base, dst: with(join(base[:20], moved(base[20:], 5)), rec{65, "k60", "other", 1060}), want: map[Kind]int64{Shifted: 79, Changed: 1}, compared: 20,
			first: Finding{Kind: Shifted, Offset: 20, Records: 79, ShiftedBy: 5}},
		"two of the last are swapped": {src: base, dst: with(base, rec{98, "k99", "v99", 1099}, rec{99, "k98", "v98", 1098}), want: map[Kind]int64{Changed: 2}, compared: 100,
			first: Finding{Kind: Changed, Offset: 98, Records: 1}},
		"alike records do not make a shift": {src: same(0, 60), dst: with(same(0, 60), rec{30, "a", "b", 2}), want: map[Kind]int64{Changed: 1}, compared: 60,
			first: Finding{Kind: Changed, Offset: 30, Records: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, raw := range []bool{false, true} {
				got, findings := judge(t, rand.New(rand.NewPCG(1, 2)), tc.src, tc.dst, MergeOptions{}, raw)
				want := found{Counts: tc.want, Compared: tc.compared}
				if want.Counts == nil {
					want.Counts = map[Kind]int64{}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("raw %t: (-want +got)\n%s\n%+v", raw, d, findings)
				}
				if tc.first.Records > 0 && findings[0] != tc.first {
					t.Fatalf("raw %t: first finding %+v, want %+v", raw, findings[0], tc.first)
				}
			}
		})
	}
}

// same are records that differ in nothing but their offsets.
func same(from, to int64) (out []rec) {
	for o := from; o < to; o++ {
		out = append(out, rec{o, "a", "a", 1})
	}
	return out
}

// The last offsets of a range have no counterpart in it where records are
// shifted; that is no finding of its own.
func TestMergeShiftAtTheEdges(t *testing.T) {
	src := numbered(0, 100)
	for _, by := range []int64{-7, 7} {
		dst := slices.DeleteFunc(moved(src, by), func(r rec) bool { return r.offset < 0 || r.offset >= 100 })
		got, findings := judge(t, rand.New(rand.NewPCG(1, 2)), src, dst, MergeOptions{Range: Range{0, 100}}, false)
		want := map[Kind]int64{Shifted: 93}
		if by < 0 {
			want[Missing] = 7
		}
		if d := cmp.Diff(want, got.Counts); d != "" {
			t.Fatalf("by %d: (-want +got)\n%s\n%+v", by, d, findings)
		}
	}
}

// A million records that are shifted are one finding.
func TestMergeLongShift(t *testing.T) {
	src := numbered(0, 30_000)
	dst := join(src[:20_000], moved(src[20_000:], 12))
	got, findings := judge(t, rand.New(rand.NewPCG(1, 2)), src, dst, MergeOptions{}, false)
	if len(findings) != 1 || findings[0] != (Finding{Kind: Shifted, Offset: 20_000, Records: 10_000, ShiftedBy: 12}) || got.Compared != 20_000 {
		t.Fatalf("%+v %+v", got, findings)
	}
}

// What a retention removed while the logs were read is no finding.
func TestMergeExpiredWhileReading(t *testing.T) {
	p, rng := NewPrinter(), rand.New(rand.NewPCG(1, 2))
	recs := numbered(0, 100)
	dst := side(t, rng, p, recs[60:], false)
	dst.blocks = append([]Block{{Base: 0, Next: 0}}, dst.blocks...)
	for i := range dst.blocks[1:] {
		dst.blocks[i+1].Floor = 60
	}
	out, err := Merge(t.Context(), side(t, rng, p, recs, false), dst, MergeOptions{Range: Range{0, 100}})
	if err != nil || out.Expired != 60 || out.Compared != 40 || !out.Equal() {
		t.Fatalf("%+v %v", out, err)
	}
}

// TestMergeAgainstOracle plants differences at random and compares with a walk
// over all offsets, with other batch boundaries and codecs on each side.
func TestMergeAgainstOracle(t *testing.T) {
	for seed := range seeds(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		src := slices.DeleteFunc(numbered(0, 1+rng.Int64N(400)), func(rec) bool { return rng.IntN(10) == 0 })
		dst := planted(rng, src)
		got, findings := judge(t, rng, src, dst, MergeOptions{}, seed%2 == 0)
		if d := cmp.Diff(oracle(src, dst), got); d != "" {
			t.Fatalf("seed %d: (-want +got)\n%s\n%+v", seed, d, findings)
		}
	}
}

func planted(rng *rand.Rand, src []rec) []rec {
	dst := slices.Clone(src)
	for range rng.IntN(12) {
		o := rng.Int64N(500)
		switch rng.IntN(3) {
		case 0:
			dst = without(dst, o)
		case 1:
			dst = with(dst, rec{o, "x", fmt.Sprint("x", o), 1})
		case 2: // a run that is lost
			for i := range rng.Int64N(30) {
				dst = without(dst, o+i)
			}
		}
	}
	return dst
}

func oracle(src, dst []rec) found {
	f := found{Counts: map[Kind]int64{}}
	a, b := byOffset(src), byOffset(dst)
	for o, x := range a {
		y, there := b[o]
		switch {
		case !there:
			f.Counts[Missing]++
		case x != y:
			f.Counts[Changed]++
			f.Compared++
		default:
			f.Compared++
		}
	}
	for o := range b {
		if _, there := a[o]; !there {
			f.Counts[Extra]++
		}
	}
	return f
}

func byOffset(recs []rec) map[int64]rec {
	return maps.Collect(func(yield func(int64, rec) bool) {
		for _, r := range recs {
			if !yield(r.offset, r) {
				return
			}
		}
	})
}

// FuzzMerge: whatever is planted, equal logs have no finding and unequal ones
// have one, and every offset that differs is counted at least once where none
// is taken for shifted.
func FuzzMerge(f *testing.F) {
	f.Add(uint64(1), []byte{1, 2, 3})
	f.Add(uint64(2), []byte{})
	f.Add(uint64(3), []byte{0, 0, 1, 40, 2, 80, 3, 9})
	f.Fuzz(func(t *testing.T, seed uint64, plan []byte) {
		rng := rand.New(rand.NewPCG(seed, 9))
		src := numbered(0, 1+rng.Int64N(200))
		dst := slices.Clone(src)
		for i := 0; i+1 < len(plan); i += 2 {
			o := int64(plan[i+1])
			switch plan[i] % 4 {
			case 0:
				dst = without(dst, o)
			case 1:
				dst = with(dst, rec{o, "x", "x", int64(i)})
			case 2: // everything from here on moves
				for j := range dst {
					if dst[j].offset >= o {
						dst[j].offset += int64(plan[i]>>2) + 1
					}
				}
			case 3: // a pair is swapped
				if j := slices.IndexFunc(dst, func(r rec) bool { return r.offset >= o }); j >= 0 && j+1 < len(dst) {
					dst[j].offset, dst[j+1].offset = dst[j+1].offset, dst[j].offset
					dst[j], dst[j+1] = dst[j+1], dst[j]
				}
			}
		}
		got, findings := judge(t, rng, src, dst, MergeOptions{}, seed%2 == 0)
		want := oracle(src, dst)
		if (len(got.Counts) == 0) != (len(want.Counts) == 0) {
			t.Fatalf("got %+v %+v, want %+v", got, findings, want)
		}
		if got.Counts[Shifted] == 0 {
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("(-want +got)\n%s\n%+v", d, findings)
			}
		}
	})
}
