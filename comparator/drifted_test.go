package comparator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// foreign writes records of others to the target.
func (w *world) foreign(n int) {
	w.t.Helper()
	var recs []*kgo.Record
	for i := range n {
		recs = append(recs, &kgo.Record{Topic: "t", Value: fmt.Append(nil, "of others ", i), Timestamp: time.UnixMilli(5)})
	}
	if err := w.clients[Target].ProduceSync(w.t.Context(), recs...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// copying answers with copies, as the map of a mirror at rest does.
func copying(c Copied) func(*Options) {
	return func(o *Options) {
		o.Mode = Checkpoint
		o.Copies = func(context.Context, CopiedPartition) (*Copied, error) { return new(c), nil }
	}
}

// drifted writes 300 records to the source, and copies of them in three runs to the
// target, with records of others before, between and behind, and 20 copies that were
// made again.
func (w *world) drifted() Copied {
	w.write(Source, 0, 0, 300, 40)
	w.foreign(10)
	w.write(Target, 0, 0, 100, 7)   // 10 to 109
	w.write(Target, 0, 100, 120, 7) // 110 to 129, again below
	w.foreign(5)
	w.write(Target, 0, 100, 250, 7) // 135 to 284
	w.foreign(3)
	w.write(Target, 0, 250, 300, 7) // 288 to 337
	w.foreign(4)
	return Copied{Runs: []Run{{0, 10, 100}, {100, 135, 150}, {250, 288, 50}}, Next: 300, Producer: 7}
}

func only(t testing.TB, r Result) PartitionResult {
	t.Helper()
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Failed != 0 {
		t.Fatalf("%+v", r)
	}
	return r.Topics[0].Partitions[0]
}

// Copies are found where the map says; what lies among them is counted and no
// difference. The digest is that of the source, as in mirror mode.
func TestCompareCopies(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.drifted()
		r := w.compare(copying(c))
		p := only(t, r)
		if !r.Equal || r.Topics[0].Mode != Checkpoint || p.Mode != Checkpoint || p.From != 0 || p.To != 300 || p.RecordsCompared != 300 ||
			*p.Foreign != 8 || *p.Duplicates != 20 || *p.Digest != *p.TargetDigest {
			t.Errorf("%+v", p)
		}
		fast := only(t, w.compare(func(o *Options) { copying(c)(o); o.NoDigest = true }))
		if fast.RecordsCompared != 300 || len(fast.Counts) != 0 || *fast.Foreign+*fast.Duplicates != 28 {
			t.Errorf("%+v", fast)
		}
		part := only(t, w.compare(func(o *Options) {
			copying(c)(o)
			o.Ranges = map[PartitionName]Range{{"t", 0}: {From: 90, To: 120}}
		}))
		if part.From != 90 || part.To != 120 || part.RecordsCompared != 30 || len(part.Counts) != 0 || *part.Duplicates != 20 || *part.Foreign != 5 {
			t.Errorf("%+v", part)
		}
		taken := c
		taken.Runs, taken.Begins = c.Runs[1:], 100
		if p := only(t, w.compare(copying(taken))); p.From != 100 || p.Expired != 0 || p.RecordsCompared != 200 || len(p.Counts) != 0 || *p.SourceStart != 0 {
			t.Errorf("what another mirror copied is judged: %+v", p)
		}
		// Where both sides have lost something, what one has alone has expired.
		w.trim(Target, 200)
		w.trim(Source, 50)
		lost := only(t, w.compare(copying(c)))
		if lost.From != 165 || lost.Expired != 165-50 || len(lost.Counts) != 0 || lost.RecordsCompared != 300-165 {
			t.Errorf("%+v", lost)
		}
		w.trim(Source, 220)
		if lost = only(t, w.compare(copying(c))); lost.From != 220 || lost.Expired != 220-165 || len(lost.Counts) != 0 || lost.RecordsCompared != 80 {
			t.Errorf("%+v", lost)
		}
	})
}

// Every sort of difference is found at its record, and shown where it lies on the
// target.
func TestCompareCopiesThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Copied)
		want   map[Kind]int64
		first  Finding
	}{
		"a run is forgotten": {func(c *Copied) { c.Runs = []Run{c.Runs[0], c.Runs[2]} }, map[Kind]int64{Missing: 150},
			Finding{Kind: Missing, Offset: 100, Detail: "the target has no record here: the map knows of no copy"}},
		"the map is wrong by one": {func(c *Copied) { c.Runs[1] = Run{100, 136, 150} }, map[Kind]int64{Missing: 1, Shifted: 149, Extra: 1},
			Finding{Kind: Missing, Offset: 100, Detail: "by the map its copy lies at target offset 136"}},
		"others wrote over it": {func(c *Copied) { c.Runs = []Run{{0, 10, 100}, {100, 110, 25}, {125, 160, 125}, {250, 288, 50}} }, map[Kind]int64{Changed: 5},
			Finding{Kind: Changed, Offset: 120, Detail: "on the target null"}},
		"not all is copied": {func(c *Copied) { c.Next, c.Runs = 250, c.Runs[:2] }, map[Kind]int64{End: 1},
			Finding{Kind: End, Offset: 250, Detail: "the record at 250 is not copied yet"}},
		"nothing is copied": {func(c *Copied) { *c = Copied{} }, map[Kind]int64{End: 1}, Finding{Kind: End, Detail: "the record at 0 is not copied yet"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				copied := w.drifted()
				c.change(&copied)
				p := only(t, w.compare(copying(copied)))
				if d := cmp.Diff(c.want, p.Counts); d != "" {
					t.Fatalf("(-want +got)\n%s%+v", d, p.Findings)
				}
				if f := p.Findings[0]; f.Kind != c.first.Kind || f.Offset != c.first.Offset || !strings.Contains(f.Detail, c.first.Detail) {
					t.Errorf("%+v", f)
				}
			})
		})
	}
}

// A mirror at work is waited for; one whose map cannot be read fails alone.
func TestCompareCopiesAtWork(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.drifted()
		asked := 0
		at := func(o *Options) {
			copying(c)(o)
			o.Copies = func(context.Context, CopiedPartition) (*Copied, error) {
				now := c
				if asked++; asked < 4 {
					now.Runs, now.Next = c.Runs[:2], 200+int64(asked)
					now.Runs = []Run{now.Runs[0], {100, 135, 100 + int64(asked)}}
				}
				return &now, nil
			}
		}
		if r := w.compare(at); !r.Equal || asked != 4 || r.Topics[0].Partitions[0].To != 300 {
			t.Errorf("after %d looks: %+v", asked, r)
		}
		began := time.Now()
		moving := only(t, w.compare(func(o *Options) {
			copying(c)(o)
			o.Copies = func(context.Context, CopiedPartition) (*Copied, error) {
				return &Copied{Runs: []Run{{0, 10, 1 + int64(time.Since(began).Seconds())}}, Next: 1 + int64(time.Since(began).Seconds())}, nil
			}
		}))
		if len(moving.Counts) != 0 || moving.LagRecords < 260 || moving.RecordsCompared < 30 {
			t.Errorf("%+v", moving)
		}
		r := w.compare(func(o *Options) {
			o.Copies = func(context.Context, CopiedPartition) (*Copied, error) { return nil, errors.New("no answer") }
		})
		if r.Failed != 1 || r.Equal || !strings.Contains(r.Topics[0].Partitions[0].Error, "no answer") {
			t.Errorf("%+v", r)
		}
		r = w.compare(func(o *Options) {
			o.Copies = func(context.Context, CopiedPartition) (*Copied, error) { return nil, nil }
		})
		if p := only(t, r); p.Mode != Mirror || p.Foreign != nil || r.Equal {
			t.Errorf("a partition in mirror mode: %+v", p)
		}
	})
}

// A comparison that was broken off goes on in the middle, with the same counts.
func TestCompareCopiesResumed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.drifted()
		whole := only(t, w.compare(copying(c)))
		ignore := cmp.Options{cmpopts.IgnoreUnexported(Tally{}), cmpopts.IgnoreFields(PartitionResult{}, "Seconds")}
		for _, offsets := range []int64{60, 130, 180, 260} {
			saved := w.interrupted(offsets, copying(c))
			if len(saved.Partitions) != 1 || saved.Partitions[0].Whole {
				t.Fatalf("%+v", saved)
			}
			got := only(t, w.compare(func(o *Options) { copying(c)(o); o.Resume = saved; o.every = 16 }))
			if d := cmp.Diff(whole, got, ignore); d != "" {
				t.Errorf("from %d (-want +got)\n%s", saved.Partitions[0].Result.To, d)
			}
		}
		saved := w.interrupted(130, copying(c))
		if p := only(t, w.compare(func(o *Options) { o.Resume = saved })); p.From != 0 {
			t.Errorf("what was compared through the map is taken for a mirror: %+v", p)
		}
	})
}

// A group goes on where the copy lies of what it reads next, or before what others
// wrote in front of it.
func TestCompareGroupsThroughTheMap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.drifted()
		commit := func(side Side, group string, at int64) {
			t.Helper()
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: "t", At: at, LeaderEpoch: -1})
			if r, err := kadm.NewClient(w.clients[side]).CommitOffsets(t.Context(), group, offsets); err != nil || r.Error() != nil {
				t.Fatal(err, r.Error())
			}
		}
		for group, at := range map[string][2]int64{"exact": {7, 17}, "before others": {100, 110}, "behind others": {100, 135}, "end": {300, 338}, "behind": {120, 150}, "same number": {50, 50}} {
			commit(Source, group, at[0])
			commit(Target, group, at[1])
		}
		commit(Source, "of another mirror", 3)
		commit(Target, "of another mirror", 1)
		c.Runs[0], c.Begins = Run{5, 15, 95}, 5
		got := map[string]string{}
		for _, g := range w.compare(func(o *Options) { copying(c)(o); o.Groups = func(string) bool { return true } }).Groups {
			got[g.Group] = "equal"
			for _, p := range g.Partitions {
				got[g.Group] = fmt.Sprint(p.Kind, ": ", p.Detail, ", wanted ", *p.TranslatedOffset)
			}
			if g.Error != "" {
				got[g.Group] = g.Error
			}
		}
		want := map[string]string{"exact": "equal", "before others": "equal", "behind others": "equal", "end": "equal",
			"behind": "changed: the target's offset is -5, wanted 155", "same number": "changed: the target's offset is -10, wanted 60"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	})
}

// The audit of a mirror at work goes through the map, too.
func TestAuditCopies(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.drifted()
		a, r := w.auditor(AuditOptions{FollowStart: true})
		defer a.Close()
		r.Copies, r.End = &c, 260
		p, err := a.Audit(t.Context(), r)
		if err != nil || p.Mode != Checkpoint || p.To != 260 || p.RecordsCompared != 260 || len(p.Counts) != 0 || *p.Foreign+*p.Duplicates != 28 {
			t.Errorf("%+v %v", p, err)
		}
		w.trim(Target, 150)
		if p, err = a.Audit(t.Context(), r); err != nil || p.From != 115 || len(p.Counts) != 0 {
			t.Errorf("%+v %v", p, err)
		}
		c.Runs[2].Target++
		if p, err = a.Audit(t.Context(), r); err != nil || p.Equal() {
			t.Errorf("%+v %v", p, err)
		}
		c.Runs[2].Target = 0
		if _, err = a.Audit(t.Context(), r); !errors.Is(err, errMap) {
			t.Error(err)
		}
	})
}

// On a compacted topic a record that has no copy is superseded by what others wrote of
// its key behind its place, and not by what they wrote before.
func TestCompareCopiesOfACompactedTopic(t *testing.T) {
	for name, c := range map[string]struct {
		at   int // before which run others write the key, 2 is behind all
		want int64
	}{"before all": {0, 0}, "in its place": {1, 1}, "behind all": {2, 1}, "never": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				compact := []kadm.AlterConfig{{Name: "cleanup.policy", Value: new("compact")}}
				if r, err := kadm.NewClient(w.clients[Target]).AlterTopicConfigs(t.Context(), compact, "t"); err != nil || r[0].Err != nil {
					t.Fatal(err, r)
				}
				w.write(Source, 0, 0, 10, 3)
				spans := [][2]int{{0, 3}, {4, 10}}
				copied := Copied{Next: 10, Producer: 7}
				end := int64(0)
				for i := range 3 {
					if i == c.at {
						if err := w.clients[Target].ProduceSync(t.Context(), &kgo.Record{Topic: "t", Key: []byte("3"), Value: []byte("of others")}).FirstErr(); err != nil {
							t.Fatal(err)
						}
						end++
					}
					if i < len(spans) {
						from, to := spans[i][0], spans[i][1]
						w.write(Target, 0, from, to, 3)
						copied.Runs = append(copied.Runs, Run{int64(from), end, int64(to - from)})
						end += int64(to - from)
					}
				}
				p := only(t, w.compare(func(o *Options) { copying(copied)(o); o.Keys = true }))
				if p.Compacted != c.want || p.Counts[Missing] != 1-c.want || p.RecordsCompared != 9 {
					t.Errorf("%+v", p)
				}
				if c.at < 3 && (*p.KeysDiffering != 1 || *p.Keys[0].TargetOffset != map[int]int64{0: 0, 1: 3, 2: 9}[c.at]) {
					t.Errorf("keys %+v", p.Keys)
				}
			})
		})
	}
}
