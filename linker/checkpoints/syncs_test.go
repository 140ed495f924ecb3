package checkpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/translate/exact"
	"klink/translate/mm2"
)

// P4: whoever samples, as MirrorMaker 2 does or with all that is in the topic, never
// passes over a record by klink's syncs.
func TestSyncsAreSafeForSamplers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w world
		var s Syncs
		store, history := mm2.NewStore(), new(mm2.History)
		store.Started()
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			w.step(t)
			run, ok := w.m.Last()
			if !ok {
				continue
			}
			tip := Tip{Run: run, HighWatermark: w.end, At: w.m.ToTarget}
			for _, y := range s.Next(ordersSource, tip) {
				if a := w.m.ToTarget(y.Up); a.Kind != exact.Exact || a.Offset != y.Down {
					t.Fatalf("%+v is no pair: %+v", y, a)
				}
				s.Load(y)
				store.Add(y.Up, y.Down)
				history.Add(y.Up, y.Down)
			}
			if _, wrong := s.correct(s.last[ordersSource], tip); wrong {
				continue // nothing below it is left that could be told
			}
			if more := s.Next(ordersSource, tip); len(more) > 0 {
				t.Fatalf("written again: %+v", more)
			}
			end, _ := w.m.End()
			for q := range end + 2 {
				want := w.m.ToTarget(q)
				for name, got := range map[string]mm2.Translation{"store": store.Translate(q), "history": history.Translate(q)} {
					if got.Outcome == mm2.Found && got.Offset > want.Offset {
						t.Fatalf("%s: %d leads to %+v, its next copy is at %+v", name, q, got, want)
					}
				}
			}
		}
	})
}

func TestSyncsNext(t *testing.T) {
	var m exact.Map
	for _, r := range []exact.Run{{Src: 10, Dst: 5, Count: 10}, {Src: 25, Dst: 20, Count: 6, Seq: 10}} {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(up, down int64) mm2.Sync { return mm2.Sync{Topic: "orders", Partition: 3, Up: up, Down: down} }
	run, _ := m.Last()
	for name, c := range map[string]struct {
		last *mm2.Sync
		end  int64
		want []mm2.Sync
	}{
		"first":                       {nil, 26, []mm2.Sync{sync(25, 20), sync(30, 25)}},
		"one of a run before":         {&mm2.Sync{Up: 14, Down: 9}, 26, []mm2.Sync{sync(25, 20), sync(30, 25)}},
		"the run's first":             {&mm2.Sync{Up: 25, Down: 20}, 26, []mm2.Sync{sync(30, 25)}},
		"the last":                    {&mm2.Sync{Up: 30, Down: 25}, 26, nil},
		"below what is known":         {&mm2.Sync{Up: 3, Down: 1}, 26, []mm2.Sync{sync(25, 20), sync(30, 25)}},
		"copied again elsewhere":      {&mm2.Sync{Up: 27, Down: 27}, 26, []mm2.Sync{sync(26, 21), sync(30, 25)}},
		"not copied again":            {&mm2.Sync{Up: 22, Down: 17}, 26, []mm2.Sync{sync(19, 14), sync(25, 20), sync(30, 25)}},
		"the end is lost":             {&mm2.Sync{Up: 40, Down: 35}, 26, []mm2.Sync{sync(30, 25)}},
		"the map lags behind":         {&mm2.Sync{Up: 40, Down: 35}, 90, nil},
		"the end is lost, of all":     {&mm2.Sync{Up: 40, Down: 35}, 5, nil},
		"not yet in the target's log": {nil, 22, []mm2.Sync{sync(25, 20)}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Syncs
			if c.last != nil {
				c.last.Topic, c.last.Partition = "orders", 3
				s.Load(*c.last)
			}
			got := s.Next(ordersSource, Tip{Run: run, HighWatermark: c.end, At: m.ToTarget})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
