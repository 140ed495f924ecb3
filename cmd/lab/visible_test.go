package lab

import "testing"

// rec is an offset, a key and a value; an empty value is a tombstone.
type rec struct {
	at         int64
	key, value string
}

func seen(records ...rec) []Sighting {
	var all []Sighting
	for _, r := range records {
		s := Sighting{Offset: r.at, Tombstone: r.value == "", Key: r.key}
		copy(s.Digest[:], r.key+"="+r.value)
		all = append(all, s)
	}
	return all
}

func TestRulesOfVisibleRecords(t *testing.T) {
	base := seen(rec{1, "a", "1"}, rec{3, "b", "1"}, rec{4, "a", "2"}, rec{7, "c", ""})
	for _, c := range []struct {
		name           string
		src, dst       []Sighting
		exact, cleaned int64 // first difference; -1 is none
	}{
		{"the same", base, base, -1, -1},
		{"nothing", nil, nil, -1, -1},
		{"another value", base, seen(rec{1, "a", "1"}, rec{3, "b", "9"}, rec{4, "a", "2"}, rec{7, "c", ""}), 3, 3},
		{"a superseded record gone", base, base[1:], 1, -1},
		{"a superseded record still there", base[1:], base, 1, -1},
		{"a tombstone gone", base, base[:3], 7, -1},
		{"a tombstone still there", base[:3], base, 7, -1},
		{"the latest of a key gone", base, seen(rec{1, "a", "1"}, rec{4, "a", "2"}, rec{7, "c", ""}), 3, 3},
		{"a record too many", seen(rec{1, "a", "1"}), seen(rec{1, "a", "1"}, rec{2, "x", "1"}), 2, 2},
		{"superseded only on the other side", seen(rec{1, "a", "1"}), seen(rec{1, "a", "1"}, rec{5, "a", "2"}), 5, 5},
		{"a repeat of the next one", seen(rec{5, "a", "1"}), seen(rec{4, "a", "1"}, rec{5, "a", "1"}), 4, -1},
		{"a tombstone gone before its value", seen(rec{1, "a", "1"}, rec{2, "a", ""}), seen(rec{1, "a", "1"}), 2, 2},
		{"a deleted key gone on one side", seen(rec{1, "a", "1"}, rec{2, "a", ""}), nil, 1, -1},
		{"no key", seen(rec{1, "", "1"}, rec{2, "a", "1"}), seen(rec{2, "a", "1"}), 1, -1},
		{"another offset", seen(rec{1, "a", "1"}), seen(rec{2, "a", "1"}), 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if at, differs := differExactly(c.src, c.dst); differs != (c.exact >= 0) || differs && at != c.exact {
				t.Errorf("exactly: %d, %t, want %d", at, differs, c.exact)
			}
			if at, differs := differCleaned(c.src, c.dst); differs != (c.cleaned >= 0) || differs && at != c.cleaned {
				t.Errorf("cleaned: %d, %t, want %d", at, differs, c.cleaned)
			}
		})
	}
}

func TestOrderAlone(t *testing.T) {
	base := seen(rec{1, "a", "1"}, rec{3, "b", "1"}, rec{4, "a", "2"}, rec{7, "c", ""})
	for _, c := range []struct {
		name           string
		src, dst       []Sighting
		whole, cleaned int64 // first difference on the source; -1 is none
	}{
		{"elsewhere", base, seen(rec{21, "a", "1"}, rec{22, "b", "1"}, rec{30, "a", "2"}, rec{31, "c", ""}), -1, -1},
		{"nothing", nil, nil, -1, -1},
		{"one too few", base, base[:2], 4, 3}, // its latest value of a is another one
		{"one too many", base[:3], base, 100, -1},
		{"a swapped pair", base, seen(rec{1, "a", "1"}, rec{3, "a", "2"}, rec{4, "b", "1"}, rec{7, "c", ""}), 3, 3},
		{"a superseded one gone", base, base[1:], 1, -1},
		{"twice", base, append(seen(rec{0, "a", "1"}), base...), 3, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cleaned, want := range map[bool]int64{false: c.whole, true: c.cleaned} {
				v := judgeOrder(Partition{}, Partition{}, Reading{Bounds: Bounds{End: 100}, Seen: c.src}, Reading{Seen: c.dst}, cleaned)
				if (v.First != nil) != (want >= 0) || v.First != nil && v.First.Offset != want {
					t.Errorf("cleaned %v: %v, want %d", cleaned, v.First, want)
				}
			}
		})
	}
}

func TestOnlyTheRangeThatBothRetainIsJudged(t *testing.T) {
	all := seen(rec{1, "a", "1"}, rec{2, "b", "1"}, rec{5, "c", "1"}, rec{8, "d", "1"})
	src := Reading{Bounds: Bounds{Start: 0, End: 9}, Seen: all}
	dst := Reading{Bounds: Bounds{Start: 2, End: 6}, Seen: all[1:3]}
	v := judge(Partition{"t", 0}, Partition{"u", 0}, src, dst, differExactly)
	if v.First != nil || v.Records != 2 {
		t.Errorf("%+v, want two equal records", v)
	}
	whole := Visible{Views: []View{{Partitions: []ViewedPartition{v}}}}
	if !whole.Equal() || whole.SameBounds() || whole.Records() != 2 {
		t.Errorf("%s", whole)
	}
	if (Visible{}).Records() != 0 {
		t.Error("nothing was read, and some records were counted")
	}
}
