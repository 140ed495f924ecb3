package reverse

import (
	"fmt"
	"testing"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// cell is one offset of a log in a test: 0 holds no record that a consumer sees,
// other values are records.
type cell = byte

// fakeLog is one log, by offset; what lies below start is deleted.
type fakeLog struct {
	start, stable int64
	cells         []cell
}

func (l fakeLog) ends() Ends {
	return Ends{Start: l.start, Stable: l.stable, End: int64(len(l.cells))}
}

// at is what a consumer finds.
func (l fakeLog) at(offset int64) cell {
	if offset < l.start || offset >= int64(len(l.cells)) {
		return 0
	}
	return l.cells[offset]
}

func (l fakeLog) records(from, end int64) records {
	return func(yield func(batch.Record, error) bool) {
		for o := max(from, l.start); o < min(end, int64(len(l.cells))); o++ {
			c := l.at(o)
			if c != 0 && !yield(batch.Record{Offset: o, Timestamp: int64(c), Value: []byte{c}}, nil) {
				return
			}
		}
	}
}

// facts looks at two logs as the shell does.
func facts(t testing.TB, old, promoted fakeLog, cut Cut, sample int64) Facts {
	t.Helper()
	f := Facts{Cut: cut, Old: old.ends(), Again: old.ends(), New: promoted.ends()}
	b := bounds(f, sample)
	var err error
	f.Found, err = compare(old.records(b.From, b.End), promoted.records(b.From, min(b.End, f.New.Stable)), b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// script writes a log as a string: a letter is a record, '.' an offset without one,
// '_' one that is deleted.
func script(s string) fakeLog {
	l := fakeLog{cells: make([]cell, len(s)), stable: int64(len(s))}
	for i := range s {
		switch s[i] {
		case '.':
		case '_':
			l.start = int64(i + 1)
		default:
			l.cells[i] = s[i]
		}
	}
	return l
}

func TestDecide(t *testing.T) {
	const none = feed.Unknown
	for name, c := range map[string]struct {
		old, promoted string
		cut, fence    int64
		want          Verdict
		tail, equal   int64
	}{
		"equal":                                  {"abcde", "abcde", 5, none, InPlace, 0, 5},
		"equal, and the promoted side went on":   {"abcde", "abcdexyz", 5, none, InPlace, 0, 5},
		"equal, fenced":                          {"abcde", "abcde.xyz", 5, 5, InPlace, 0, 5},
		"fenced twice":                           {"abcde", "abcde..xyz", 5, 5, InPlace, 0, 5},
		"an abort marker under the fence":        {"abcde.", "abcde.xyz", 5, 5, InPlace, 0, 5},
		"two abort markers under two fences":     {"abcde..", "abcde..xyz", 5, 5, InPlace, 0, 5},
		"an abort marker beside the fence":       {"abcde..", "abcde.xyz", 5, 5, OffsetsTaken, 0, 5},
		"an abort marker without a fence":        {"abcde.", "abcdexyz", 5, none, OffsetsTaken, 0, 5},
		"an abort marker, nobody writes there":   {"abcde.", "abcde", 5, none, OffsetsTaken, 0, 5},
		"a tail":                                 {"abcdefg", "abcde", 5, none, HasTail, 2, 5},
		"a tail beside others' records":          {"abcdefg", "abcdexyz", 5, none, HasTail, 2, 5},
		"a tail under the fence":                 {"abcdef", "abcde.", 5, 5, HasTail, 1, 5},
		"a tail behind an abort marker":          {"abcde.f", "abcde.xyz", 5, 5, HasTail, 1, 5},
		"a tail that the promoted side lost":     {"abcdefg", "abcd", 7, none, HasTail, 3, 4},
		"the old source lost its tail":           {"abc", "abcde.xy", 5, 5, InPlace, 0, 3},
		"the old source lost and regrew it":      {"abcXY", "abcdexy", 5, none, Differs, 0, 3},
		"one record differs":                     {"aXcde", "abcdexy", 5, none, Differs, 0, 4},
		"one is missing on the promoted side":    {"abcde", "ab.dexy", 5, none, Differs, 0, 4},
		"one is missing on the old source":       {"ab.de", "abcdexy", 5, none, Differs, 0, 4},
		"gaps are alike":                         {"a.c.e", "a.c.exy", 5, none, InPlace, 0, 3},
		"old starts are not compared":            {"__cde", "abcdexy", 5, none, InPlace, 0, 3},
		"nor new ones":                           {"abcde", "___dexy", 5, none, InPlace, 0, 2},
		"all of the old source is deleted":       {"_____", "abcdexy", 5, none, InPlace, 0, 0},
		"the promoted side deleted too much":     {"abcde", "______y", 5, none, RetentionOverrun, 0, 0},
		"the promoted side deleted just so much": {"abcde", "_____xy", 5, none, InPlace, 0, 0},
		"nothing on either side":                 {"", "", 0, none, InPlace, 0, 0},
		"nothing on the old source":              {"", "xyz", 0, none, InPlace, 0, 0},
		"nothing there, and much deleted":        {"", "__z", 0, none, InPlace, 0, 0},
		"a cut that is not known, equal":         {"abc", "abcxy", none, none, InPlace, 0, 3},
		"a cut that is not known, a tail":        {"abcd", "abcxy", none, none, HasTail, 1, 3},
		"a cut that is known by its fence alone": {"abcd", "abc.xy", none, 3, HasTail, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(t, script(c.old), script(c.promoted), Cut{c.cut, c.fence}, 100)
			got, detail := Decide(f)
			if got != c.want || f.Found.Tail.Count != c.tail || f.Found.Equal != c.equal {
				t.Errorf("%s (%s), tail %d, equal %d; want %s, %d, %d", got, detail, f.Found.Tail.Count, f.Found.Equal, c.want, c.tail, c.equal)
			}
			if (detail == "") != (got == InPlace) && name != "the old source lost its tail" {
				t.Errorf("%s: detail %q", got, detail)
			}
		})
	}
}

func TestTailNumbers(t *testing.T) {
	f := facts(t, script("abc.zdy"), script("abc.xx"), Cut{3, 3}, 100)
	want := Extra{Count: 3, From: 4, End: 7, First: 'd', Last: 'z'}
	if f.Found.Tail != want {
		t.Errorf("%+v, want %+v", f.Found.Tail, want)
	}
	if s := f.Found.Tail.String(); s != "3 records at offsets 4 to 6, from 1970-01-01T00:00:00.1Z to 1970-01-01T00:00:00.122Z, never came to the promoted side" {
		t.Error(s)
	}
}

func TestOnlyTheSampleIsCompared(t *testing.T) {
	f := facts(t, script("Xbcde"), script("abcdexy"), Cut{5, feed.Unknown}, 4)
	if v, d := Decide(f); v != InPlace || f.Found.From != 1 || f.Found.Equal != 4 {
		t.Errorf("%s %s, %+v", v, d, f.Found)
	}
}

func TestCompactedSidesMayDifferBelowTheCut(t *testing.T) {
	old, promoted := script("a.cd.f"), script("ab.d.xyz")
	f := Facts{Cut: Cut{5, feed.Unknown}, Old: old.ends(), Again: old.ends(), New: promoted.ends(), Compacted: true}
	b := bounds(f, 100)
	var err error
	if f.Found, err = compare(old.records(0, 6), promoted.records(0, 6), b); err != nil {
		t.Fatal(err)
	}
	if v, d := Decide(f); v != HasTail || f.Found.Tail.Count != 1 || f.Found.Equal != 2 || f.Found.Differs != nil {
		t.Errorf("%s %s, %+v", v, d, f.Found)
	}
}

func TestDecideByEnds(t *testing.T) {
	equal := func(change func(*Facts)) Facts {
		f := Facts{Cut: Cut{5, feed.Unknown}, Old: Ends{0, 5, 5}, Again: Ends{0, 5, 5}, New: Ends{0, 8, 8}}
		change(&f)
		return f
	}
	window := func(from, end int64, r ledger.Reason) []ledger.Window {
		return []ledger.Window{{From: from, End: end, Counts: []ledger.Count{{Reason: r, Offsets: 1}}}}
	}
	for name, c := range map[string]struct {
		f    Facts
		want Verdict
	}{
		"quiet":                         {equal(func(*Facts) {}), InPlace},
		"still written":                 {equal(func(f *Facts) { f.Again.End = 6 }), StillWritten},
		"written, and with a tail":      {equal(func(f *Facts) { f.Again.End, f.Found.Tail = 6, Extra{Count: 1} }), StillWritten},
		"cut while one looked":          {equal(func(f *Facts) { f.Again.End = 4 }), StillWritten},
		"an open transaction":           {equal(func(f *Facts) { f.Old.Stable = 3 }), Undecided},
		"one on the promoted side":      {equal(func(f *Facts) { f.New.Stable = 4 }), Undecided},
		"one there, behind":             {equal(func(f *Facts) { f.New.Stable = 5 }), InPlace},
		"markers and aborted data":      {equal(func(f *Facts) { f.Windows = append(window(0, 2, ledger.Marker), window(3, 4, ledger.Aborted)...) }), InPlace},
		"recoded and split":             {equal(func(f *Facts) { f.Windows = append(window(0, 2, ledger.Recoded), window(3, 4, ledger.Split)...) }), InPlace},
		"compacted, covered unseen":     {equal(func(f *Facts) { f.Windows = window(0, 2, ledger.Compacted) }), InPlace},
		"compacted, covered by repeats": {equal(func(f *Facts) { f.Windows, f.VisibleFills = window(0, 2, ledger.Compacted), true }), AcceptedRange},
		"lost, and deleted since":       {equal(func(f *Facts) { f.Windows, f.Old.Start = window(0, 2, ledger.Retention), 2 }), InPlace},
		"lost, and deleted there":       {equal(func(f *Facts) { f.Windows, f.New.Start = window(0, 2, ledger.Retention), 2 }), InPlace},
		"lost, and retained":            {equal(func(f *Facts) { f.Windows = window(0, 2, ledger.Retention) }), AcceptedRange},
		"padded, and trimmed":           {equal(func(f *Facts) { f.Windows, f.New.Start = window(0, 4, ledger.Padded), 4 }), InPlace},
		"pads that are back":            {equal(func(f *Facts) { f.Windows, f.New.Start = window(0, 4, ledger.Padded), 1 }), AcceptedRange},
		"a reason of another klink":     {equal(func(f *Facts) { f.Windows = window(0, 2, ledger.Reason(99)) }), AcceptedRange},
	} {
		t.Run(name, func(t *testing.T) {
			if got, detail := Decide(c.f); got != c.want {
				t.Errorf("%s (%s), want %s", got, detail, c.want)
			}
		})
	}
}

// TestEveryVerdictHasItsRow: in the order of the constants, with a hint where it
// stands in the way.
func TestEveryVerdictHasItsRow(t *testing.T) {
	order := []Verdict{InPlace, FromStart, Begun, Reversed, OffsetsTaken, RetentionOverrun, AcceptedRange, Differs, MorePartitions,
		SourceRecreated, HasTail, Undecided, StillWritten, Owned, NameTaken, NoPermission, TargetRecreated, NotStopped, OffsetsDrift, UnknownTopic, Unreadable}
	if len(order) != len(verdicts) {
		t.Errorf("%d rows, %d verdicts", len(verdicts), len(order))
	}
	for i, v := range order {
		a := v.about()
		if v.rank() != i || (a.hint == "") != a.ok || a.recreate && !a.loses {
			t.Errorf("%s: rank %d, want %d; %+v", v, v.rank(), i, a)
		}
		if v.worse(InPlace) != v || InPlace.worse(v) != v {
			t.Errorf("%s is not worse than %s", v, InPlace)
		}
	}
}

// oracle is H1 taken by its word: mirror on from the old source's end, and look at
// every offset.
func oracle(old, promoted fakeLog, from int64) (same bool) {
	end := int64(len(old.cells))
	if end > 0 && promoted.start > end || end > int64(len(promoted.cells)) {
		return false
	}
	for o := from; o < int64(len(promoted.cells)); o++ {
		have := promoted.at(o) // mirrored from there
		if o < end {
			have = old.at(o)
		}
		if o >= promoted.start && o >= old.start && have != promoted.at(o) {
			return false
		}
	}
	return true
}

func oracleTail(old, promoted fakeLog, cut, from int64) (n int64) {
	for o := max(cut, from); o < int64(len(old.cells)); o++ {
		if c := old.at(o); c != 0 && c != promoted.at(o) {
			n++
		}
	}
	return n
}

// FuzzH1_Decide compares the verdict with the oracle's, on logs made of the input:
// one byte an offset, its low half the old source's and its high half the promoted
// side's.
//
//   - IN_PLACE if and only if mirroring on gives the promoted side's log
//   - the tail is every record from the cut on that the promoted side has not
//   - no verdict without a detail but IN_PLACE
func FuzzH1_Decide(f *testing.F) {
	for _, seed := range []string{"", "\x11\x22\x33", "\x11\x22\x03", "\x11\x22\x30", "\x11\x02\x00\x44", "\x11\x22\x00\x50\x06"} {
		f.Add([]byte(seed), uint8(2), uint8(0), uint8(0), uint8(3), uint8(4))
		f.Add([]byte(seed), uint8(3), uint8(1), uint8(2), uint8(0), uint8(9))
	}
	f.Fuzz(func(t *testing.T, cells []byte, cutAt, oldStart, newStart, oldShort, newShort uint8) {
		if len(cells) > 64 {
			cells = cells[:64]
		}
		old, promoted := fakeLog{}, fakeLog{}
		for _, c := range cells {
			old.cells, promoted.cells = append(old.cells, c&3), append(promoted.cells, c>>4&3)
		}
		old.cells = old.cells[:max(0, len(cells)-int(oldShort%8))]
		promoted.cells = promoted.cells[:max(0, len(cells)-int(newShort%8))]
		for _, l := range []struct {
			*fakeLog
			start uint8
		}{{&old, oldStart}, {&promoted, newStart}} {
			l.stable = int64(len(l.cells))
			l.fakeLog.start = min(int64(l.start), l.stable)
		}
		cut := min(int64(cutAt), int64(len(cells)))
		fs := facts(t, old, promoted, Cut{cut, feed.Unknown}, 1<<40)
		got, detail := Decide(fs)
		from := max(old.start, promoted.start)
		if want := oracle(old, promoted, from); (got == InPlace) != want {
			t.Errorf("%s (%s), the oracle says %v: %+v, %+v, cut %d", got, detail, want, old, promoted, cut)
		}
		if want := oracleTail(old, promoted, min(cut, int64(len(promoted.cells))), from); fs.Found.Tail.Count != want {
			t.Errorf("a tail of %d records, the oracle counts %d", fs.Found.Tail.Count, want)
		}
		if got != InPlace && detail == "" {
			t.Errorf("%s without a detail", got)
		}
	})
}

func ExampleDecide() {
	f := Facts{Cut: Cut{End: 100, Fence: 100}, Old: Ends{0, 103, 103}, Again: Ends{0, 103, 103}, New: Ends{0, 250, 250}}
	f.Found.Tail = Extra{Count: 3, From: 100, End: 103}
	v, detail := Decide(f)
	fmt.Println(v, detail)
	// Output: HAS_TAIL 3 records at offsets 100 to 102, from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z, never came to the promoted side
}
