package comparator

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/time/rate"
)

// interrupted compares until so many offsets are done, and returns what is saved of
// it, as it would be read from a file.
func (w *world) interrupted(offsets int64, change func(*Options)) *Saved {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var kept *Saved
	o := Options{Source: w.clients[Source], Target: w.clients[Target], Topics: []Topic{{"t", "t"}}, FollowStart: true, MemoryBytes: 1, Parallel: 1, every: 16,
		Limit: rate.NewLimiter(200_000, 40_000), // so that it takes a while
		Keep:  func(s Saved) { kept = &s },
		Progress: func(p Progress) {
			if p.Done >= offsets {
				cancel()
			}
		}}
	change(&o)
	if _, err := Compare(ctx, o); !errors.Is(err, context.Canceled) {
		w.t.Fatalf("it was not broken off: %v", err)
	}
	b, err := json.Marshal(kept)
	if err != nil {
		w.t.Fatal(err)
	}
	var read Saved
	if err := json.Unmarshal(b, &read); err != nil {
		w.t.Fatal(err)
	}
	return &read
}

// TestCompareGoesOn: a comparison that was broken off, and goes on from what was
// saved of it, says in the end what one in one go does, and reads less.
func TestCompareGoesOn(t *testing.T) {
	for _, raw := range []bool{false, true} {
		inWorld(t, 2, func(t *testing.T, w *world) {
			for n := range int32(2) {
				w.write(Source, n, 0, 1_000, 40)
				w.write(Target, n, 0, 900, 40)
				w.write(Target, n, 5, 6, 1) // a record is another one
				w.write(Target, n, 901, 1_000, 40)
			}
			options := func(o *Options) { o.NoDigest = raw }
			whole := w.compare(func(o *Options) { options(o); o.Parallel = 1 })
			saved := w.interrupted(1_600, options)
			if len(saved.Partitions) != 2 || !saved.Partitions[0].Whole || saved.Partitions[1].Whole || saved.Partitions[1].Result.To < 400 || saved.Partitions[0].Result.Counts[Changed] != 1 {
				t.Fatalf("saved %+v", saved)
			}
			r := w.compare(func(o *Options) { options(o); o.Resume = saved; o.every = 16 })
			if r.ResumedFrom == nil || r.Bytes >= whole.Bytes/2 {
				t.Errorf("%d of %d bytes were read again, from %v", r.Bytes, whole.Bytes, r.ResumedFrom)
			}
			ignore := cmp.Options{cmpopts.IgnoreUnexported(Tally{}, Shown{}), cmpopts.IgnoreFields(PartitionResult{}, "Seconds")}
			if d := cmp.Diff(whole.Topics, r.Topics, ignore); d != "" {
				t.Errorf("raw %t (-in one go +in two):\n%s", raw, d)
			}
		})
	}
}

// What was saved of other topics, or with other options, is not taken for the same;
// what the logs have lost since is left out.
func TestCompareGoesOnWithTheSame(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 1_000, 40)
		w.write(Target, 0, 0, 1_000, 40)
		saved := w.interrupted(500, func(*Options) {})
		try := func(change func(*Options, *Saved)) error {
			again := *saved
			again.Partitions = append([]SavedPartition(nil), saved.Partitions...)
			o := Options{Source: w.clients[Source], Target: w.clients[Target], Topics: []Topic{{"t", "t"}}, Resume: &again}
			change(&o, &again)
			_, err := Compare(t.Context(), o)
			return err
		}
		for name, change := range map[string]func(*Options, *Saved){
			"without digests":    func(o *Options, _ *Saved) { o.NoDigest = true },
			"with keys":          func(o *Options, _ *Saved) { o.Keys = true },
			"of another topic":   func(_ *Options, s *Saved) { s.Partitions[0].TargetID = "77" },
			"of another, source": func(_ *Options, s *Saved) { s.Partitions[0].SourceID = "" },
		} {
			if err := try(change); !errors.Is(err, ErrOtherComparison) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.trim(Source, 800)
		w.trim(Target, 800)
		p := w.compare(func(o *Options) { o.Resume = saved }).Topics[0].Partitions[0]
		if p.From != 800 || p.RecordsCompared != 200 || *p.Digest != *p.TargetDigest || p.Expired != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// seeds is how many runs of chance a test makes: with -short, which make check uses
// under the race detector, an eighth of them.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 8
	}
	return n
}

// Wherever a merge may go on, what lies before and what lies behind say together
// what all of it says, except for shifts that begin anew.
func TestSettledPlacesCutAnywhere(t *testing.T) {
	for seed := range seeds(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		src := numbered(0, 400)
		dst := planted(rng, src)
		for _, raw := range []bool{false, true} {
			printer := NewPrinter()
			type cut struct {
				at       int64
				compared int64
				counts   map[Kind]int64
			}
			var cuts []cut
			var mu sync.Mutex
			lazy := func(b Block) ([]Print, error) {
				return (&decoder{printer: printer.Again(), span: Range{0, 1 << 20}}).decode(nil, b.Raw)
			}
			merge := func(from int64, settled func(int64, *Outcome)) *Outcome {
				later := func(r rec) bool { return r.offset >= from }
				out, err := Merge(t.Context(), side(t, rng, printer, keep(src, later), raw), side(t, rng, printer, keep(dst, later), raw),
					MergeOptions{Range: Range{from, 1 << 20}, Settled: settled, SettleEvery: 32, Decode: lazy})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			whole := merge(0, func(at int64, o *Outcome) {
				mu.Lock()
				defer mu.Unlock()
				c := cut{at, o.Compared, map[Kind]int64{}}
				for k, n := range o.Counts {
					c.counts[k] = n
				}
				cuts = append(cuts, c)
			})
			if whole.Counts[Shifted] > 0 {
				continue
			}
			for _, c := range cuts {
				rest := merge(c.at, nil)
				for k, n := range rest.Counts {
					c.counts[k] += n
				}
				want := whole.Counts
				if want == nil {
					want = map[Kind]int64{}
				}
				if d := cmp.Diff(want, c.counts); d != "" || c.compared+rest.Compared != whole.Compared {
					t.Fatalf("seed %d raw %t cut at %d: %d and %d compared of %d\n%s", seed, raw, c.at, c.compared, rest.Compared, whole.Compared, d)
				}
			}
		}
	}
}

func keep(recs []rec, which func(rec) bool) (out []rec) {
	for _, r := range recs {
		if which(r) {
			out = append(out, r)
		}
	}
	return out
}
