package translate

import (
	"math/rand/v2"
	"testing"

	"klink/translate/exact"
)

func TestLine(t *testing.T) {
	m := &exact.Map{}
	for _, r := range []exact.Run{{Src: 100, Dst: 10, Count: 10}, {Src: 115, Dst: 25, Count: 5, Seq: 10}} {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	m.Advance(123) // markers follow the last record
	l := Line{Source: orders, Target: copies, Map: m, SourceLog: NoBounds(), TargetLog: Bounds{Start: 12, End: 40}}
	keeps := Line{Source: orders, Target: orders, SourceLog: Bounds{Start: 5, End: 45}, TargetLog: Bounds{Start: 12, End: 50}}
	trouble, gone := l, l
	trouble.Trouble, gone.TargetLog = MapUnreadable, Bounds{Missing: true}
	unknown := keeps
	unknown.TargetLog = NoBounds()
	empty := l
	empty.Map = &exact.Map{}
	adopted := l
	adopted.Map = l.Map.Clone()
	adopted.Map.Adopt(103, 13)
	none := func(r Reason) Answer { return Answer{Offset: Unknown, ReadAgain: Unknown, Reason: r} }
	for _, c := range []struct {
		name string
		line Line
		back bool
		at   int64
		want Answer
	}{
		{"a copied record", l, false, 105, Answer{Offset: 15, Kind: Exact}},
		{"one that is not copied", l, false, 112, Answer{Offset: 25, Kind: Next}},
		{"before all", l, false, 3, Answer{Offset: 12, Kind: Clamped}},
		{"below the start of the log", l, false, 101, Answer{Offset: 12, Kind: Clamped}},
		{"all read", l, false, 120, Answer{Offset: 30, Kind: Exact}},
		{"nothing but markers since", l, false, 123, Answer{Offset: 30, Kind: Exact}},
		{"ahead", l, false, 130, Answer{Offset: 30, Kind: Clamped, Ahead: 7}},
		{"back", l, true, 15, Answer{Offset: 105, Kind: Exact}},
		{"back from a foreign record", l, true, 22, Answer{Offset: 115, Kind: Next}},
		{"back from behind what was copied", l, true, 33, Answer{Offset: 123, Kind: Clamped, Ahead: 3}},
		{"nothing copied", empty, false, 1, none(NothingCopied)},
		{"among another mirror's copies", adopted, false, 102, none(Unmapped)},
		{"behind another mirror's copies", adopted, false, 103, Answer{Offset: 13, Kind: Exact}},
		{"back from among another mirror's copies", adopted, true, 3, none(Unmapped)},
		{"no commit", l, false, Unknown, none(NoGroup)},
		{"trouble", trouble, false, 105, none(MapUnreadable)},
		{"no copy", gone, true, 15, none(NotMirrored)},
		{"kept", keeps, false, 30, Answer{Offset: 30, Kind: Exact}},
		{"kept, ahead", keeps, false, 60, Answer{Offset: 50, Kind: Clamped, Ahead: 10}},
		{"kept, below the start", keeps, false, 7, Answer{Offset: 12, Kind: Clamped}},
		{"kept, back", keeps, true, 30, Answer{Offset: 30, Kind: Exact}},
		{"kept, back from what the source never had", keeps, true, 48, Answer{Offset: 45, Kind: Clamped, Ahead: 3}},
		{"kept, end unknown", unknown, false, 30, none(LogUnknown)},
	} {
		t.Run(c.name, func(t *testing.T) {
			translate := c.line.ToTarget
			if c.back {
				translate = c.line.ToSource
			}
			got := translate(Commit{Offset: c.at})
			if got.Asked.Offset != c.at || got.Source != c.line.Source || got.Target != c.line.Target {
				t.Errorf("about %+v", got)
			}
			got.Source, got.Target, got.Asked = Partition{}, Partition{}, Commit{}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestExactAnswersReadNothingAgain holds T5 with nothing read again, both ways.
func TestExactAnswersReadNothingAgain(t *testing.T) {
	for seed := range uint64(60) {
		c := newCopied(rand.New(rand.NewPCG(seed, 2)))
		l := Line{Source: orders, Target: copies, Map: c.exact(t), SourceLog: NoBounds(), TargetLog: Bounds{Start: 0, End: c.dstEnd}}
		for q := range max(c.srcEnd, c.dstEnd) + 1 {
			for _, w := range []struct {
				a        Answer
				from, to []int64
			}{{l.ToTarget(Commit{Offset: q}), c.src, c.dst}, {l.ToSource(Commit{Offset: q}), c.dst, c.src}} {
				if again, skipped := reread(q, w.a.Offset, w.from, w.to); again+skipped+w.a.ReadAgain != 0 {
					t.Fatalf("seed %d: %d leads to %+v: %d read again, %d skipped", seed, q, w.a, again, skipped)
				}
			}
		}
	}
}
