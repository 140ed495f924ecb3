package linker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// memAdopts holds what is adopted on record: *memRecords -> control.AdoptRecord.
var memAdopts sync.Map

// Adopt implements Records.
func (r *memRecords) Adopt(string, string) (control.AdoptRecord, bool) {
	a, ok := memAdopts.Load(r)
	if !ok {
		return control.AdoptRecord{}, false
	}
	return a.(control.AdoptRecord), true
}

// adopt puts on record that the target's log is this mirror's up to an end.
func (m *mirror) adopt(t *testing.T, end int64) {
	t.Helper()
	memAdopts.Store(m.records, control.AdoptRecord{SourceID: m.src.id, Ends: map[int32]int64{0: end}})
	t.Cleanup(func() { memAdopts.Delete(m.records) })
}

// TestAdoptedLogGoesOn: what others wrote up to the adopted end is built upon,
// through restarts, whatever invisible offsets the two logs have around the cut.
func TestAdoptedLogGoesOn(t *testing.T) {
	foreign := batch.Identity{ProducerID: 77}
	for name, c := range map[string]struct {
		// source and target go on behind 20 equal records, and the source then with
		// ten more.
		source, target func(l *memLog)
		// markers of this mirror's that the target gets.
		markers int
	}{
		"equal ends":                        {nil, nil, 0},
		"a fence where the target ends":     {func(l *memLog) { l.mark(foreign, 1) }, nil, 1},
		"a fence and an abort marker there": {func(l *memLog) { l.mark(foreign, 1) }, func(l *memLog) { l.mark(batch.Identity{ProducerID: 5}, 0) }, 0},
		"three fences":                      {func(l *memLog) { l.mark(foreign, 1); l.mark(foreign, 2); l.mark(foreign, 3) }, func(l *memLog) { l.mark(foreign, 9) }, 2},
		"the target lost its tail":          {func(l *memLog) { l.write(records(20, 7, "src"), 0, batch.CodecNone) }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.src.write(records(0, 20, "src"), 0, batch.CodecLZ4)
				m.dst.write(records(0, 20, "src"), 0, batch.CodecNone)
				if c.source != nil {
					c.source(m.src)
				}
				if c.target != nil {
					c.target(m.dst)
				}
				m.adopt(t, m.dst.end)
				at := m.dst.end
				m.src.write(records(m.src.end, 10, "src"), 0, batch.CodecNone)
				m.start(t)
				m.mustBeEqual(t)
				m.stop()
				m.src.write(records(m.src.end, 10, "src"), 0, batch.CodecNone)
				m.start(t) // its own tail tells now
				m.mustBeEqual(t)
				id := m.p.identity.ProducerID
				m.stop()
				own, first := 0, int32(-1)
				bs, end, _ := m.dst.from(at, 1<<30)
				for _, b := range bs {
					h, err := batch.ParseHeader(b)
					if err != nil || h.ProducerID != id {
						t.Fatalf("batch at %d is of producer %d (%v)", h.BaseOffset, h.ProducerID, err)
					}
					if h.IsControl() {
						own++
					} else if first < 0 {
						first = h.BaseSequence
					}
				}
				if own != c.markers || first != 0 || end != m.src.end {
					t.Errorf("%d markers, want %d; first sequence %d; ends %d and %d", own, c.markers, first, m.src.end, end)
				}
			})
		})
	}
}

// TestAdoptedLogIsJudged: only the tail is compared up to the adopted end, and what
// stands behind that is a foreign write.
func TestAdoptedLogIsJudged(t *testing.T) {
	const many = 60_000 // some 2 MiB, more than what is compared
	long := func(tag string) []batch.Record { return append(records(0, 1, tag), records(1, many-1, "src")...) }
	for name, c := range map[string]struct {
		dst    []batch.Record
		behind []batch.Record
		// adopted and grown are ends; the source has many records and grown more.
		adopted int64
		want    state.Reason
	}{
		"only the tail is compared":          {dst: long("x"), adopted: many},
		"not adopted, so all is":             {dst: long("x"), adopted: feed.Unknown, want: state.Diverged},
		"adopted further than the log goes":  {dst: long("x"), adopted: many + 1, want: state.Diverged},
		"the tail differs":                   {dst: append(records(0, many-1, "src"), records(many-1, 1, "x")...), adopted: many, want: state.Diverged},
		"somebody wrote behind it":           {dst: long("src"), behind: records(many, 3, "x"), adopted: many, want: state.ForeignWrite},
		"somebody wrote behind it, and more": {dst: long("src"), behind: records(many, 30, "x"), adopted: many, want: state.ForeignWrite},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				for part := range slices.Chunk(append(long("src"), records(many, 10, "src")...), 1000) {
					m.src.write(part, 0, batch.CodecNone)
				}
				for part := range slices.Chunk(c.dst, 1000) {
					m.dst.write(part, 0, batch.CodecNone)
				}
				if len(c.behind) > 0 {
					m.dst.write(c.behind, 0, batch.CodecNone)
				}
				if c.adopted != feed.Unknown {
					m.adopt(t, c.adopted)
				}
				m.start(t)
				defer func() { m.stop() }()
				if c.want != "" {
					m.mustHalt(t, c.want)
					return
				}
				if r := m.settle(t); r.State != state.Active || *r.TargetEnd != many+10 {
					t.Fatalf("%+v", r)
				}
			})
		})
	}
}

// TestAdoptedSourceOfAnotherTopic: an adoption belongs to one incarnation of the
// source.
func TestAdoptedSourceOfAnotherTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.src.write(records(0, 30, "src"), 0, batch.CodecNone)
		m.dst.write(records(0, 20, "x"), 0, batch.CodecNone)
		memAdopts.Store(m.records, control.AdoptRecord{SourceID: feed.TopicID{9}, Ends: map[int32]int64{0: 20}})
		defer memAdopts.Delete(m.records)
		m.start(t)
		m.mustHalt(t, state.Diverged)
		m.stop()
	})
}

// TestAdoptedLogForgetsOldEpochs: the lineage of an earlier time would be below the
// source's by now, and would look like a truncated source.
func TestAdoptedLogForgetsOldEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 20, 7)
		m.dst.write(m.src.records(), 0, batch.CodecNone)
		m.lineage.epochs = []control.Epoch{{Epoch: 2, First: 0}, {Epoch: 3, First: 10}}
		m.adopt(t, 20)
		m.start(t)
		m.mustBeEqual(t)
		if m.p.lastEpoch != 7 || m.p.recorded {
			t.Errorf("goes on in epoch %d, recorded %v; the source's is 7", m.p.lastEpoch, m.p.recorded)
		}
		fillLog(m.src, rand.New(rand.NewPCG(1, 2)), 5, 7)
		m.mustBeEqual(t)
		m.stop()
		want := []control.Epoch{{Epoch: 2, First: 0}, {Epoch: 3, First: 10}, {Epoch: 7, First: 20}}
		if diff := cmp.Diff(want, m.lineage.Epochs("", "", 0)); diff != "" {
			t.Error(diff) // K3
		}
	})
}

func TestSince(t *testing.T) {
	all := []control.Epoch{{Epoch: 0, First: 0}, {Epoch: 2, First: 10}, {Epoch: 5, First: 30}}
	for adopted, want := range map[int64]int{feed.Unknown: 3, 0: 3, 1: 2, 10: 2, 11: 1, 30: 1, 31: 0} {
		t.Run(fmt.Sprint(adopted), func(t *testing.T) {
			if got := since(adopted, all); len(got) != want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAdoptedWhileItRuns: a klink that stood still while others wrote to its target
// goes on when the link is turned around again, as the producer that is on record by
// then.
func TestAdoptedWhileItRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Pend, Topics: []string{"a"}, Switch: "s", Wait: time.Minute})
		w.give(t, intent.Command{Verb: intent.Promote, Topics: []string{"a"}, Switch: "s", Fence: 1})
		mustBe(t, topicReport(t, l, "a"), state.Stopped, "")
		w.give(t, intent.Command{Verb: intent.Reverse, Topics: []string{"a"}, Next: "l-back"})
		src, dst := w.log(w.src, feed.Partition{Topic: "a"}), w.log(w.dst, feed.Partition{Topic: "a"})
		src.write(records(10, 5, "a"), 0, batch.CodecNone)
		dst.write(records(10, 5, "a"), 0, batch.CodecNone)
		w.mu.Lock()
		r := w.records["a"]
		r.Generation = 7
		w.records["a"] = r
		w.mu.Unlock()
		memAdopts.Store(&w.memRecords, control.AdoptRecord{SourceID: src.id, Ends: map[int32]int64{0: 15}})
		defer memAdopts.Delete(&w.memRecords)
		w.give(t, intent.Command{Verb: intent.Adopt, Topics: []string{"a"}})
		w.more("a", 0, 3)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		bs, logEnd, _ := dst.from(15, 10)
		if logEnd != 18 || len(bs) == 0 {
			t.Fatalf("the target ends at %d", logEnd)
		}
		for _, b := range bs {
			h, err := batch.ParseHeader(b)
			if want := appender.ProducerID("SRC", src.id, 0, 7); err != nil || h.ProducerID != want || h.ProducerEpoch != 1 {
				t.Errorf("the batch at %d is of producer %d, epoch %d (%v), want %d, epoch 1", h.BaseOffset, h.ProducerID, h.ProducerEpoch, err, want)
			}
		}
		end()
	})
}
