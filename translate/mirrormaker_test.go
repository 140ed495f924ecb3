package translate

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/mm2"
)

// partition is orders/0 on the source, its copy a.orders/0.
var (
	orders = Partition{Topic: "orders"}
	copies = Partition{Topic: "a.orders"}
)

func TestToTarget(t *testing.T) {
	commit := func(o int64) map[Partition]Commit {
		return map[Partition]Commit{orders: {Offset: o, Origin: Committed}}
	}
	cp := func(up, down int64) []*kgo.Record {
		return []*kgo.Record{checkpointRecord(t, "g", "a.orders", up, down)}
	}
	syncs := func(pairs ...int64) (out []*kgo.Record) {
		out = []*kgo.Record{syncRecord(t, "other", 0, 0, 0)}
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, syncRecord(t, "orders", 0, pairs[i], pairs[i+1]))
		}
		return out
	}
	log := Bounds{Start: 50, End: 1000}
	type want struct {
		offset int64
		kind   Kind
		again  int64
		reason Reason
	}
	none := func(r Reason) want { return want{Unknown, "", Unknown, r} }
	for name, c := range map[string]struct {
		checkpoints, syncs []*kgo.Record
		committed          map[Partition]Commit
		bounds             Bounds
		want               want
	}{
		"a sync of that very record":                {cp(100, 200), syncs(100, 200), commit(100), log, want{200, Exact, 0, ""}},
		"an earlier sync":                           {nil, syncs(100, 200), commit(150), log, want{201, Sampled, 49, ""}},
		"the end is nearer than the sync":           {nil, syncs(100, 990), commit(150), log, want{991, Sampled, 9, ""}},
		"a later sync than the checkpoint's":        {cp(100, 200), syncs(100, 200, 150, 260), commit(160), log, want{261, Sampled, 9, ""}},
		"the checkpoint's sync is compacted away":   {cp(120, 210), syncs(100, 200), commit(150), log, want{210, Sampled, 49, ""}},
		"the source does not tell":                  {cp(120, 210), syncs(100, 200), nil, log, want{210, Sampled, 19, ""}},
		"the checkpoint alone":                      {cp(120, 210), nil, nil, log, want{210, Sampled, 790, ""}},
		"the checkpoint alone, group went on":       {cp(120, 210), nil, commit(500), log, want{210, Sampled, 790, ""}},
		"a checkpoint that tells no source offset":  {cp(-1, 210), nil, nil, log, want{210, Sampled, 790, ""}},
		"below the log's start":                     {cp(10, 20), nil, nil, log, want{50, Clamped, 950, ""}},
		"at the log's end":                          {nil, syncs(99, 999), commit(100), log, want{1000, Sampled, 0, ""}},
		"the group went back":                       {cp(120, 210), nil, commit(100), log, none(Rewound)},
		"the group went back, and the syncs reach":  {cp(120, 210), syncs(90, 190), commit(100), log, want{191, Sampled, 9, ""}},
		"the group went back before all syncs":      {cp(120, 210), syncs(110, 205), commit(100), log, none(BeforeSyncs)},
		"no checkpoint, no syncs of the partition":  {nil, syncs(), commit(100), log, none(NoSync)},
		"no checkpoint, no syncs at all":            {[]*kgo.Record{}, nil, commit(100), log, none(NoCheckpoint)},
		"all beyond the end":                        {cp(100, 2000), syncs(100, 2000), commit(100), log, none(BeyondEnd)},
		"the target made anew, the checkpoint old":  {cp(100, 900), syncs(100, 200), commit(120), log, want{201, Sampled, 19, ""}},
		"the target made anew, the checkpoint gone": {cp(100, 2000), syncs(90, 200), commit(120), log, want{201, Sampled, 29, ""}},
		"no copy":                    {cp(100, 200), nil, nil, Bounds{Missing: true}, none(NotMirrored)},
		"the leader does not answer": {cp(100, 200), nil, nil, NoBounds(), none(LogUnknown)},
	} {
		t.Run(name, func(t *testing.T) {
			m := left(t, c.checkpoints, c.syncs)
			got := m.ToTarget(Asked{Group: "g", Offsets: c.committed, Bounds: map[Partition]Bounds{copies: c.bounds}})
			if len(got) != 1 || got[0].Source != orders || got[0].Target != copies {
				t.Fatalf("%+v", got)
			}
			if g := (want{got[0].Offset, got[0].Kind, got[0].ReadAgain, got[0].Reason}); g != c.want {
				t.Errorf("got %+v, want %+v", g, c.want)
			}
		})
	}
}

func TestIncompleteReadsGiveNoAnswer(t *testing.T) {
	g := Asked{Group: "g", Bounds: map[Partition]Bounds{copies: {Start: 0, End: 1000}}, Offsets: map[Partition]Commit{orders: {Offset: 100}}}
	records := []*kgo.Record{checkpointRecord(t, "g", "a.orders", 100, 200)}
	syncs := []*kgo.Record{syncRecord(t, "orders", 0, 100, 300)}
	m := left(t, records, syncs)
	m.Checkpoints.Complete = false
	if a := m.ToTarget(g); a[0].Reason != Incomplete || a[0].Offset != Unknown {
		t.Errorf("%+v", a)
	}
	m = left(t, records, syncs)
	m.Syncs.Complete = false
	if a := m.ToTarget(g); a[0].Offset != 200 || a[0].Reason != "" {
		t.Errorf("%+v", a)
	}
	m.Checkpoints = nil
	if a := m.ToTarget(g); a[0].Reason != Incomplete {
		t.Errorf("%+v", a)
	}
	g.Offsets = map[Partition]Commit{copies: {Offset: 300}}
	if a := m.ToSource(g); a[0].Reason != Incomplete || a[0].Source != orders {
		t.Errorf("%+v", a)
	}
}

func TestToSourceBySyncs(t *testing.T) {
	m := left(t, nil, []*kgo.Record{syncRecord(t, "orders", 0, 100, 200), syncRecord(t, "orders", 0, 150, 240)})
	for asked, want := range map[int64]Answer{
		199: {Offset: Unknown, ReadAgain: Unknown, Reason: BeforeSyncs},
		200: {Offset: 100, Kind: Exact},
		201: {Offset: 101, Kind: Sampled},
		230: {Offset: 101, Kind: Sampled, ReadAgain: 29},
		240: {Offset: 150, Kind: Exact},
		900: {Offset: 151, Kind: Sampled, ReadAgain: 49}, // no more than there is
	} {
		got := m.ToSource(Asked{Offsets: map[Partition]Commit{copies: {Offset: asked}}, Bounds: map[Partition]Bounds{orders: {Start: 0, End: 200}}})[0]
		got.Source, got.Target, got.Asked = Partition{}, Partition{}, Commit{}
		if got != want {
			t.Errorf("%d: got %+v, want %+v", asked, got, want)
		}
	}
	m.Syncs = nil
	if got := m.ToSource(Asked{Offsets: map[Partition]Commit{copies: {Offset: 1}}})[0]; got.Reason != NoSync {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsTheCopyOfWhat(t *testing.T) {
	for _, c := range []struct {
		policy         mm2.Policy
		source, target string
	}{
		{policy, "orders", "a.orders"},
		{policy, "b.orders", "orders"}, // an original of the target
		{mm2.Policy{Source: "a", Target: "b", Identity: true}, "orders", "orders"},
		{mm2.Policy{Source: "a", Target: "b", Separator: "_"}, "or.ders", "a_or.ders"},
	} {
		m := &MirrorMaker{Policy: c.policy}
		src, dst := Partition{c.source, 3}, Partition{c.target, 3}
		if m.Target(src) != dst || m.Source(dst) != src {
			t.Errorf("%+v: %v, %v", c, m.Target(src), m.Source(dst))
		}
	}
}

// TestSampledAnswersAreSafe holds T5 and the bound on what is read again, for
// whatever syncs and checkpoints a flow may leave.
func TestSampledAnswersAreSafe(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCopied(rng)
		var syncs, checkpoints []*kgo.Record
		store, e := mm2.NewStore(), mm2.NewEmitter(rng.Int64N(30))
		store.Started()
		for i := range c.src {
			if e.Copied(c.src[i], c.dst[i]) {
				store.Add(c.src[i], c.dst[i])
				if rng.IntN(3) > 0 { // else compacted away
					syncs = append(syncs, syncRecord(t, "orders", 0, c.src[i], c.dst[i]))
				}
			}
		}
		up := rng.Int64N(c.srcEnd + 1)
		if tr := store.Translate(up); tr.Outcome == mm2.Found {
			checkpoints = append(checkpoints, checkpointRecord(t, "g", "a.orders", up, tr.Offset))
		}
		m := left(t, append([]*kgo.Record{}, checkpoints...), syncs)
		for q := range c.srcEnd + 1 {
			a := m.ToTarget(Asked{Group: "g", Offsets: map[Partition]Commit{orders: {Offset: q}}, Bounds: map[Partition]Bounds{copies: {Start: 0, End: c.dstEnd}}})[0]
			if (a.Offset == Unknown) == (a.Reason == "") {
				t.Fatalf("seed %d: %+v", seed, a)
			}
			if a.Offset == Unknown {
				continue
			}
			again, skipped := reread(q, a.Offset, c.src, c.dst)
			if skipped > 0 || again > a.ReadAgain || a.Kind == Exact && again > 0 || a.Offset > c.dstEnd {
				t.Fatalf("seed %d: %d leads to %+v: %d read again, %d skipped", seed, q, a, again, skipped)
			}
			if a.Checkpoint != nil && q >= up && a.Offset < a.Checkpoint.Down {
				t.Fatalf("seed %d: %+v is behind its checkpoint", seed, a)
			}
		}
		for q := range c.dstEnd + 1 {
			a := m.ToSource(Asked{Offsets: map[Partition]Commit{copies: {Offset: q}}, Bounds: map[Partition]Bounds{orders: {Start: 0, End: c.srcEnd}}})[0]
			if a.Offset == Unknown {
				continue
			}
			if again, skipped := reread(q, a.Offset, c.dst, c.src); skipped > 0 || again > a.ReadAgain || a.Kind == Exact && again > 0 {
				t.Fatalf("seed %d: %d leads back to %+v: %d read again, %d skipped", seed, q, a, again, skipped)
			}
		}
	}
}
