package contrast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// log makes entries with a record at each of some offsets; a negative one is of an
// aborted transaction.
func log(offsets ...int64) (all []Entry) {
	for i, at := range offsets {
		e := Entry{Serial: int64(i), Offset: max(at, -at), Key: fmt.Sprintf("k%d", i%2), Committed: at >= 0, Timed: true}
		all = append(all, e)
	}
	return all
}

// copied makes copies of pairs of serial and offset.
func copied(pairs ...[2]int64) (all []Copy) {
	for _, p := range pairs {
		all = append(all, Copy{Serial: p[0], Offset: p[1]})
	}
	return all
}

func TestWeigh(t *testing.T) {
	for _, c := range []struct {
		name      string
		entries   []Entry
		copies    []Copy
		compacted bool
		want      Weight
	}{
		{"nothing", nil, nil, false, Weight{}},
		{"nothing copied", log(0, 1), nil, false, Weight{Acked: 2, Behind: 2}},
		{"all at their offsets", log(0, 1), copied([2]int64{0, 0}, [2]int64{1, 1}), false, Weight{Acked: 2, Copied: 2, SameOffset: 2}},
		{"behind a marker all is shifted", log(0, 2), copied([2]int64{0, 0}, [2]int64{1, 1}), false, Weight{Acked: 2, Copied: 2, SameOffset: 1}},
		{"aborted ones are nobody's", log(0, -1, 3), copied([2]int64{0, 0}, [2]int64{2, 3}), false, Weight{Acked: 2, Copied: 2, SameOffset: 2}},
		{"an aborted one shows", log(0, -1, 3), copied([2]int64{0, 0}, [2]int64{1, 1}, [2]int64{2, 3}), false, Weight{Acked: 2, Copied: 2, SameOffset: 2, Revealed: 1}},
		{"lost in the middle, behind at the end", log(0, 1, 2, 3), copied([2]int64{0, 0}, [2]int64{2, 2}), false, Weight{Acked: 4, Copied: 2, SameOffset: 2, Lost: 1, Behind: 1}},
		{"superseded", log(0, 1, 2, 3), copied([2]int64{2, 2}, [2]int64{3, 3}), true, Weight{Acked: 4, Copied: 2, SameOffset: 2, Superseded: 2}},
		{"the last of its key is lost", log(0, 1, 2), copied([2]int64{2, 2}), true, Weight{Acked: 3, Copied: 1, SameOffset: 1, Superseded: 1, Lost: 1}},
		{"twice", log(0, 1), copied([2]int64{0, 0}, [2]int64{1, 1}, [2]int64{0, 2}), false, Weight{Acked: 2, Copied: 2, SameOffset: 2, Twice: 1}},
		{"somebody else's", log(0), copied([2]int64{0, 0}, [2]int64{-1, 1}, [2]int64{9, 2}), false, Weight{Acked: 1, Copied: 1, SameOffset: 1, Twice: 2}},
		{"out of order", log(0, 1), copied([2]int64{1, 0}, [2]int64{0, 1}), false, Weight{Acked: 2, Copied: 2, Disorder: 1}},
	} {
		if diff := cmp.Diff(c.want, Weigh(c.entries, c.copies, c.compacted)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestStand(t *testing.T) {
	src := log(0, 1, 3, 4)                                                            // 2 is a marker
	dst := copied([2]int64{0, 10}, [2]int64{1, 11}, [2]int64{2, 12}, [2]int64{3, 13}) // shifted
	for _, c := range []struct {
		name           string
		commit, resume int64
		want           Standing
	}{
		{"exact", 3, 12, Standing{Known: true}},
		{"exact, before the marker", 2, 12, Standing{Known: true}},
		{"the source's own number", 3, 3, Standing{Known: true, Again: 2}},
		{"too early by one", 4, 12, Standing{Known: true, Again: 1}},
		{"too late", 1, 13, Standing{Known: true, Skipped: 2}},
		{"nowhere to go on", 4, -1, Standing{Again: 3}},
		{"at the end", 5, 14, Standing{Known: true}},
	} {
		if got := Stand(src, dst, c.commit, c.resume); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A dumb count beside the clever one: what a consumer that begins at an offset is
// given, against what it has taken.
func TestStandAgainstReading(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var src []Entry
		var dst []Copy
		at, to := int64(0), rng.Int64N(50)
		for serial := range int64(60) {
			at, to = at+1+rng.Int64N(3), to+1+rng.Int64N(2)
			src = append(src, Entry{Serial: serial, Offset: at, Committed: rng.IntN(5) > 0})
			if src[serial].Committed && rng.IntN(10) > 0 {
				dst = append(dst, Copy{Serial: serial, Offset: to})
			}
		}
		commit, resume := rng.Int64N(at+2), rng.Int64N(to+2)
		taken, given := map[int64]bool{}, map[int64]bool{}
		for _, e := range src {
			taken[e.Serial] = e.Offset < commit
		}
		var want Standing
		want.Known = true
		for _, c := range dst {
			if c.Offset >= resume {
				given[c.Serial] = true
				if taken[c.Serial] {
					want.Again++
				}
			}
		}
		for _, c := range dst {
			if !taken[c.Serial] && !given[c.Serial] {
				want.Skipped++
			}
		}
		if got := Stand(src, dst, commit, resume); got != want {
			t.Errorf("seed %d: %+v, want %+v", seed, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(all, q); *got != want {
			t.Errorf("%v: %d, want %d", q, *got, want)
		}
	}
	if Quantile(nil, 0.5) != nil {
		t.Error("of nothing")
	}
}

func TestCourse(t *testing.T) {
	began := time.Unix(1000, 0)
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	src := log(0, 1, 2, 3)
	for i := range src {
		src[i].Sent = after(100 * i)
	}
	src[3].Timed = false
	dst := []Copy{{0, 0, after(150)}, {1, 5, after(400)}, {2, 3, after(1200)}, {3, 9, after(1300)}}
	want := []Point{{Seconds: 0, DelaySeconds: 0.3, Shift: 4}, {Seconds: 1, DelaySeconds: 1, Shift: 1}}
	if diff := cmp.Diff(want, Course(began, [][]Entry{src}, [][]Copy{dst})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Delays(src, dst); !slices.Equal(got, []time.Duration{150e6, 300e6, 1000e6}) {
		t.Errorf("delays %v", got)
	}
}

func TestPace(t *testing.T) {
	cpu := func(d time.Duration) *time.Duration { return &d }
	began := time.Unix(1000, 0)
	var p pace
	p.note(sight{at: began, records: 0, cpu: cpu(time.Second)})
	p.note(sight{at: began.Add(time.Second), records: 1000, cpu: cpu(2 * time.Second)})
	if p.megabytesPerSecond() != nil || p.cpuPerGB() != nil {
		t.Error("one look measures nothing")
	}
	p.note(sight{at: began.Add(3 * time.Second), records: 1000 + 2_000_000_000/bulkRecord, cpu: cpu(5 * time.Second)})
	if v := *p.megabytesPerSecond(); v < 999 || v > 1001 {
		t.Errorf("%v MB/s", v)
	}
	if v := *p.cpuPerGB(); v < 1.499 || v > 1.501 {
		t.Errorf("%v s/GB", v)
	}
}

func TestJudge(t *testing.T) {
	all := Promise{NothingLost: true, NothingTwice: true, SameOffsets: true, NothingReadAgain: true}
	some := seconds(time.Second)
	good := ModeResult{Promise: all, Weight: &Weight{Copied: 5, SameOffset: 5}, Groups: []GroupResult{{Group: "g", SwitchSeconds: some}}}
	if got := judge(good); len(got) > 0 {
		t.Errorf("%v", got)
	}
	for name, spoil := range map[string]func(*ModeResult){
		"nothing copied": func(r *ModeResult) { r.Weight = &Weight{} },
		"lost":           func(r *ModeResult) { r.Lost = 1 },
		"twice":          func(r *ModeResult) { r.Twice = 1 },
		"aborted shown":  func(r *ModeResult) { r.Revealed = 1 },
		"disorder":       func(r *ModeResult) { r.Disorder = 1 },
		"shifted":        func(r *ModeResult) { r.SameOffset = 4 },
		"again":          func(r *ModeResult) { r.Groups = []GroupResult{{Group: "g", SwitchSeconds: some, ReadAgain: 1}} },
		"never given":    func(r *ModeResult) { r.Groups = []GroupResult{{Group: "g", SwitchSeconds: some, NeverGiven: 1}} },
		"no new record":  func(r *ModeResult) { r.Groups = []GroupResult{{Group: "g"}} },
	} {
		bad, weight := good, *good.Weight
		bad.Weight = &weight
		spoil(&bad)
		if got := judge(bad); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
		if bad.Promise = (Promise{}); len(judge(bad)) > 0 {
			t.Errorf("%s: who promises nothing breaks nothing", name)
		}
	}
}
