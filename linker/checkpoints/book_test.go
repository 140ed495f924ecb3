package checkpoints

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/translate/exact"
	"klink/translate/mm2"
)

var (
	ordersSource = feed.Partition{Topic: "orders", Partition: 3}
	ordersTarget = feed.Partition{Topic: "a.orders", Partition: 3}
	billing      = mm2.Key{Group: "billing", Topic: "a.orders", Partition: 3}
)

func committed(up int64, lies exact.Answer) Located {
	return Located{Commit{Group: "billing", Source: ordersSource, Target: "a.orders", Offset: up, Metadata: "m"}, lies}
}

// TestDecideOne: MirrorMaker 2's own table (MirrorCheckpointTaskTest,
// testCheckpointRecordsMonotonicIfStoreRewinds), and where an exact map knows more.
func TestDecideOne(t *testing.T) {
	at := func(offset int64, k exact.Kind) exact.Answer { return exact.Answer{Offset: offset, Kind: k} }
	for name, c := range map[string]struct {
		last *mm2.Checkpoint
		up   int64
		lies exact.Answer
		end  int64
		want Verdict
		down int64
	}{
		"first":                                 {nil, 250, at(201, exact.Exact), 900, Changed, 201},
		"first, at offset 0":                    {nil, 0, at(0, exact.Exact), 900, Changed, 0},
		"first, ahead of the mirror":            {nil, 250, at(201, exact.Ahead), 201, Changed, 201},
		"first, below the map":                  {nil, 2, at(10, exact.BelowMap), 900, Changed, 10},
		"unmapped":                              {nil, 250, exact.Answer{}, 900, Unmapped, 0},
		"end unknown":                           {nil, 250, at(201, exact.Exact), feed.Unknown, TargetUnknown, 0},
		"beyond the end":                        {nil, 250, at(201, exact.Exact), 180, Changed, 180},
		"the same":                              {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(201, exact.Exact), 900, Current, 0},
		"progress on the source alone":          {&mm2.Checkpoint{Up: 250, Down: 201}, 400, at(201, exact.Next), 900, Current, 0},
		"progress":                              {&mm2.Checkpoint{Up: 250, Down: 201}, 400, at(376, exact.Exact), 900, Changed, 376},
		"rewind":                                {&mm2.Checkpoint{Up: 250, Down: 201}, 249, at(176, exact.Exact), 900, Changed, 176},
		"rewind to the same place":              {&mm2.Checkpoint{Up: 250, Down: 201}, 249, at(201, exact.Next), 900, Changed, 201},
		"lower by a shorter map":                {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(176, exact.Ahead), 900, Kept, 0},
		"further, lower by a shorter map":       {&mm2.Checkpoint{Up: 250, Down: 201}, 370, at(176, exact.Ahead), 900, Kept, 0},
		"lower at the end of a shorter map":     {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(176, exact.AtEnd), 900, Kept, 0},
		"copied again":                          {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(199, exact.Exact), 900, Changed, 199},
		"copied again, in a gap":                {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(199, exact.Next), 900, Changed, 199},
		"the target lost its end":               {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(176, exact.Ahead), 176, Changed, 176},
		"lost its end, more than the map knows": {&mm2.Checkpoint{Up: 250, Down: 201}, 250, at(201, exact.Exact), 150, Changed, 150},
		"from before the map, still there":      {&mm2.Checkpoint{Up: 250, Down: 201}, 260, at(700, exact.BelowMap), 900, Kept, 0},
		"from before the map, retained no more": {&mm2.Checkpoint{Up: 250, Down: 20}, 260, at(700, exact.BelowMap), 900, Changed, 700},
		"a rewind below the map":                {&mm2.Checkpoint{Up: 250, Down: 201}, 7, at(100, exact.BelowMap), 900, Changed, 100},
	} {
		t.Run(name, func(t *testing.T) {
			var b Book
			if c.last != nil {
				c.last.Key, c.last.Metadata = billing, "m"
				b.Load(*c.last)
			}
			r := b.Decide([]Located{committed(c.up, c.lies)}, map[feed.Partition]Bounds{ordersTarget: {Start: 100, HighWatermark: c.end}})
			if d := cmp.Diff(map[Verdict]int{c.want: 1}, r.Tally); d != "" {
				t.Fatal(d)
			}
			if c.want != Changed {
				return
			}
			if d := cmp.Diff([]mm2.Checkpoint{{Key: billing, Up: c.up, Down: c.down, Metadata: "m"}}, r.Write); d != "" {
				t.Error(d)
			}
		})
	}
}

// P1: what Java could not read is not written, or written without what it could not.
func TestDecideUntellable(t *testing.T) {
	lies := exact.Answer{Offset: 5, Kind: exact.Exact}
	for name, c := range map[string]struct {
		group, metadata string
		want            Verdict
		told            string
	}{
		"no metadata":           {"g", "", Changed, ""},
		"the longest":           {"g", strings.Repeat("m", mm2.MaxMetadata), Changed, strings.Repeat("m", mm2.MaxMetadata)},
		"too long":              {"g", strings.Repeat("m", mm2.MaxMetadata+1), Changed, ""},
		"metadata not in UTF-8": {"g", "\xff", Changed, ""},
		"a name not in UTF-8":   {"\xff", "", Untellable, ""},
		"a name too long":       {strings.Repeat("g", 1<<15), "", Untellable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b Book
			commit := Located{Commit{Group: c.group, Source: ordersSource, Target: "a.orders", Metadata: c.metadata}, lies}
			bounds := map[feed.Partition]Bounds{ordersTarget: {0, 9}}
			r := b.Decide([]Located{commit}, bounds)
			if r.Tally[c.want] != 1 || c.want == Changed && r.Write[0].Metadata != c.told {
				t.Fatalf("%+v", r)
			}
			for _, y := range r.Write {
				b.Load(y)
			}
			if again := b.Decide([]Located{commit}, bounds); len(again.Write) > 0 {
				t.Errorf("written again: %+v", again.Write)
			}
		})
	}
	var b Book
	b.Load(mm2.Checkpoint{Key: billing, Up: 7, Down: 5, Metadata: "other"})
	if r := b.Decide([]Located{committed(7, lies)}, map[feed.Partition]Bounds{ordersTarget: {0, 9}}); len(r.Write) != 1 {
		t.Errorf("metadata that changed: %+v", r)
	}
}

// world is a source, its copies, and a target with other records too.
type world struct {
	m        exact.Map
	end, seq int64
}

// copied tells whether a source offset holds a record and not a marker.
func copied(src int64) bool { return src%7 < 5 && src%31 != 0 }

// step copies some records, lets others be written, or has the target lose its end.
func (w *world) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{"copy", "copy", "copy", "foreign", "lose"}).Draw(t, "step") {
	case "copy":
		for range rapid.Int64Range(1, 12).Draw(t, "records") {
			w.copy(t)
		}
	case "foreign":
		w.end += rapid.Int64Range(1, 3).Draw(t, "foreign")
	case "lose":
		w.end = max(0, w.end-rapid.Int64Range(1, 12).Draw(t, "lost"))
		w.m.CutDst(w.end)
	}
}

// copy takes one source offset in.
func (w *world) copy(t *rapid.T) {
	src, _ := w.m.End()
	if !copied(src) {
		w.m.Advance(src + 1)
		return
	}
	if err := w.m.Add(exact.Run{Src: src, Dst: w.end, Count: 1, Seq: int32(w.seq)}); err != nil {
		t.Fatal(err)
	}
	w.end, w.seq = w.end+1, w.seq+1
}

// P2, P3: whatever happens to the logs and to the group, its checkpoint is that of the
// next record to be read where that was copied, within the log, and not written twice.
func TestDecideFollowsTheMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w world
		var b Book
		up := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			w.step(t)
			if rapid.Bool().Draw(t, "commits") {
				src, _ := w.m.End()
				up = rapid.Int64Range(0, src+3).Draw(t, "offset")
			}
			located := []Located{committed(up, w.m.ToTarget(up))}
			bounds := map[feed.Partition]Bounds{ordersTarget: {0, w.end}}
			for _, y := range b.Decide(located, bounds).Write {
				b.Load(y)
			}
			if again := b.Decide(located, bounds).Write; len(again) > 0 {
				t.Fatalf("written again: %+v", again)
			}
			got, known := b.last[billing]
			switch a := located[0].Lies; {
			case !known && a.Kind != exact.None:
				t.Fatal("no checkpoint")
			case !known:
			case got.Down > w.end && a.Kind != exact.None:
				t.Fatalf("%+v leads beyond %d", got, w.end)
			case a.Kind == exact.Exact || a.Kind == exact.Next:
				if got.Down != a.Offset {
					t.Fatalf("%+v, the next record lies at %+v", got, a)
				}
			}
		}
	})
}
