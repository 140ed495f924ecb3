package groups

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
	"klink/translate/exact"
)

// U8: what is compared and written is the translation, and a target's offset that
// happens to be the source's number means nothing.
func TestDecideTranslated(t *testing.T) {
	const none = feed.Unknown
	b := Bounds{10, 100}
	for name, c := range map[string]struct {
		source  int64
		lies    exact.Answer
		have    int64
		written []int64
		want    int64
		target  int64
		verdict Verdict
	}{
		"first":                {50, exact.Answer{Offset: 70, Kind: exact.Exact}, none, nil, 70, 70, Synced},
		"lower on the target":  {900, exact.Answer{Offset: 20, Kind: exact.Exact}, none, nil, 20, 20, Synced},
		"there already":        {50, exact.Answer{Offset: 70, Kind: exact.Exact}, 70, []int64{70}, none, 70, Synced},
		"same number, klink's": {50, exact.Answer{Offset: 70, Kind: exact.Exact}, 50, []int64{50}, 70, 70, Synced},
		"same number, not its": {50, exact.Answer{Offset: 70, Kind: exact.Exact}, 50, nil, none, 50, TargetOwned},
		"in a gap":             {50, exact.Answer{Offset: 71, Kind: exact.Next}, none, nil, 71, 71, Synced},
		"at the end":           {50, exact.Answer{Offset: 90, Kind: exact.AtEnd}, none, nil, 90, 90, Synced},
		"ahead of the mirror":  {90, exact.Answer{Offset: 80, Kind: exact.Ahead, Ahead: 20}, none, nil, 80, 80, Clamped},
		"still ahead":          {90, exact.Answer{Offset: 80, Kind: exact.Ahead, Ahead: 20}, 80, []int64{80}, none, 80, Clamped},
		"beyond the log's end": {50, exact.Answer{Offset: 120, Kind: exact.Exact}, none, nil, 100, 100, Clamped},
		"below the map":        {5, exact.Answer{Offset: 30, Kind: exact.BelowMap}, none, nil, 30, 30, Synced},
		"below the log's":      {50, exact.Answer{Offset: 5, Kind: exact.Exact}, none, nil, 5, 5, BelowStart},
		"rewound":              {40, exact.Answer{Offset: 60, Kind: exact.Exact}, 70, []int64{70}, 60, 60, Synced},
		"not known":            {50, exact.Answer{}, 70, []int64{70}, none, 70, Unmapped},
	} {
		t.Run(name, func(t *testing.T) {
			s := SourceOffset{Partition: srcP, Target: dstP, Offset: c.source, Metadata: "m", Translated: &c.lies}
			in := Input{Source: []SourceOffset{s}, Members: NoMembers, Bounds: map[feed.Partition]Bounds{dstP: b},
				Committed: map[feed.Partition]int64{dstP: c.have}, Written: map[feed.Partition][]int64{dstP: c.written}}
			commits, standings := Decide(in)
			var want []Commit
			if c.want != none {
				want = []Commit{{Partition: dstP, Offset: c.want, Metadata: "m", Previous: c.have, Clamped: c.verdict == Clamped}}
			}
			if d := cmp.Diff(want, commits); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]Standing{{s, c.target, c.verdict}}, standings); d != "" {
				t.Error(d)
			}
		})
	}
}

// A translation by the identical map is no translation.
func TestIdentityMapIsMirrorMode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 12)
		end := rapid.Int64Range(1, 12).Draw(t, "end")
		var m exact.Map
		if err := m.Add(exact.Run{Count: end}); err != nil {
			t.Fatal(err)
		}
		in := Input{Members: NoMembers, Committed: map[feed.Partition]int64{dstP: offset.Draw(t, "have")},
			Bounds:  map[feed.Partition]Bounds{dstP: {offset.Draw(t, "start"), end}},
			Written: map[feed.Partition][]int64{dstP: {offset.Draw(t, "written")}}}
		s := SourceOffset{Partition: srcP, Target: dstP, Offset: offset.Draw(t, "source")}
		in.Source = []SourceOffset{s}
		commits, plain := Decide(in)
		a := m.ToTarget(s.Offset)
		in.Source[0].Translated = &a
		translated, standings := Decide(in)
		if d := cmp.Diff(commits, translated); d != "" {
			t.Fatal(d)
		}
		if plain[0].Target != standings[0].Target || plain[0].Verdict != standings[0].Verdict {
			t.Fatalf("%+v, translated %+v", plain[0], standings[0])
		}
	})
}

// TestCopyWithoutTranslation: of a link with a Translator the topics that keep their
// offsets are carried over as they are.
func TestCopyWithoutTranslation(t *testing.T) {
	p := newPair(t)
	p.fill(40)
	lies := new(memTranslator)
	lies.add(t, exact.Run{Src: 0, Dst: 5, Count: 10})
	p.o.Translator = lies
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 4, "m")
	p.sync()
	p.want("g", 4)
}

// TestCopyWithoutTranslator: a topic that is in checkpoint mode on record gets no
// offset of the source's where nobody can say where that lies.
func TestCopyWithoutTranslator(t *testing.T) {
	p := newPair(t)
	p.fill(40)
	p.store.topics[0].Mode = control.ModeCheckpoint
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 4, "m")
	got := p.sync()
	p.wantReason(got["g"], 0, Unmapped)
	if o := p.committed("g"); o != nil {
		t.Errorf("written: %+v", o)
	}
}

// memTranslator is a map of partition 0; other partitions are not known.
type memTranslator struct {
	mu sync.Mutex
	m  exact.Map
}

func (m *memTranslator) Translate(topic string, partition int32, src int64) exact.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if topic != "orders" || partition != 0 {
		return exact.Answer{}
	}
	return m.m.ToTarget(src)
}

func (m *memTranslator) add(t testing.TB, r exact.Run) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.m.Add(r); err != nil {
		t.Fatal(err)
	}
}

func TestCopyTranslated(t *testing.T) {
	p := newPair(t)
	p.fill(40)
	lies := new(memTranslator)
	lies.add(t, exact.Run{Src: 100, Dst: 5, Count: 10})
	p.o.Translator = lies
	p.store.topics[0].Mode = control.ModeCheckpoint
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 104, "m")
	p.commit(p.srcAdm, "g", "orders", 1, 3, "")
	p.commit(p.srcAdm, "ahead", "orders", 0, 115, "")
	p.commit(p.srcAdm, "old", "orders", 0, 7, "")
	p.commit(p.srcAdm, "own", "orders", 0, 104, "")
	p.commit(p.dstAdm, "own", "dr.orders", 0, 8, "")
	got := p.sync()
	p.want("g", 9)
	p.want("ahead", 15)
	p.want("old", 5)
	p.want("own", 8)
	g := got["g"].Partitions
	if g[0].Reason != "" || *g[0].SourceOffset != 104 || *g[0].TargetOffset != 9 || g[0].AgeSeconds == nil {
		t.Errorf("%+v", g[0])
	}
	p.wantReason(got["g"], 1, Unmapped)
	p.wantReason(got["ahead"], 0, Clamped)
	p.wantReason(got["old"], 0, Synced) // the next record that there is
	p.wantReason(got["own"], 0, TargetOwned)
	if r := p.store.groups["g"].Offsets[0]; r.SourceOffset != 104 || r.Written != 9 || r.Previous != -1 {
		t.Errorf("%+v", r)
	}

	// The mirror goes on, beside what others wrote; nobody commits.
	lies.add(t, exact.Run{Src: 110, Dst: 20, Count: 10, Seq: 10})
	p.cycles()
	p.want("ahead", 25)
	p.commit(p.srcAdm, "g", "orders", 0, 101, "m") // a rewind is followed
	p.sync()
	p.want("g", 6)
	p.commit(p.srcAdm, "g", "orders", 0, 118, "m")
	p.sync()
	p.want("g", 28)

	// A new process knows its own, writes nothing again, and shows what is on record.
	p.restart()
	if g := p.report()["ahead"]; *g.Partitions[0].SourceOffset != 115 || *g.Partitions[0].TargetOffset != 25 || g.Partitions[0].AgeSeconds == nil {
		t.Errorf("%+v", g.Partitions[0])
	}
	written := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
	for range 3 {
		got = p.sync()
	}
	if written.Hits() != 0 {
		t.Errorf("%d commits for nothing", written.Hits())
	}
	if got["ahead"].State != state.GroupSynced {
		t.Errorf("%+v", got["ahead"])
	}
}
