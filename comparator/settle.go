package comparator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// verdict is what became of the keys that one pass left unsettled.
type verdict struct {
	compacted int64
	findings  []Finding
	// keys whose records are findings.
	keys map[uint64]bool
}

// settle decides about what a pass left unsettled, given what the whole logs
// hold of those keys, up to their ends of now (C4).
func (k *keyRule) settle(latest [2]map[uint64]Latest, rules [2]tombstoneRule) verdict {
	v := verdict{keys: make(map[uint64]bool)}
	for _, side := range []Side{Source, Target} {
		lacking := side.other()
		for key, l := range k.loners[side] {
			if rules[lacking].settle(*l, lookup(latest[lacking], key)) {
				v.compacted += l.records
				continue
			}
			v.keys[key] = true
			v.findings = append(v.findings, lonerFinding(side, *l))
		}
	}
	slices.SortFunc(v.findings, func(a, b Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return v
}

func lonerFinding(side Side, l loner) Finding {
	f := Finding{Kind: Missing, Offset: l.last.Offset, Records: l.records, Detail: "and no later one of its key"}
	if side == Target {
		f.Kind = Extra
	}
	if l.last.Tombstone {
		f.Detail = "it is a tombstone, and the key was not deleted there"
	}
	if l.records > 1 {
		f.Detail += fmt.Sprintf("; %d records of the key, this is the last", l.records)
	}
	return f
}

func lookup(m map[uint64]Latest, key uint64) *Latest {
	if l, ok := m[key]; ok {
		return &l
	}
	return nil
}

// asked returns the keys to look up in the whole log of each side. With all,
// those are all keys in question, on both.
func (k *keyRule) asked(all bool) (want [2]map[uint64]bool) {
	for _, side := range []Side{Source, Target} {
		want[side] = make(map[uint64]bool)
		for key := range k.loners[side.other()] {
			want[side][key] = true
		}
		for key := range k.suspects {
			want[side][key] = true
		}
	}
	if all {
		maps.Copy(want[Source], want[Target])
		maps.Copy(want[Target], want[Source])
	}
	return want
}

// KeyDifference is a key whose latest value differs.
type KeyDifference struct {
	// Key as shown in findings.
	Key string `json:"key"`
	// SourceOffset and TargetOffset are those of the latest record, null where
	// there is none.
	SourceOffset *int64 `json:"source_offset"`
	TargetOffset *int64 `json:"target_offset"`
}

// differing returns, in order of their offsets, the latest records of keys that
// the logs disagree about.
func (k *keyRule) differing(latest [2]map[uint64]Latest, asked map[uint64]bool) (out []KeyDifference) {
	for key := range asked {
		a, b := lookup(latest[Source], key), lookup(latest[Target], key)
		if k.mine(key) && differs(a, b) {
			out = append(out, KeyDifference{SourceOffset: offsetOf(a), TargetOffset: offsetOf(b)})
		}
	}
	slices.SortFunc(out, func(a, b KeyDifference) int { return cmp.Compare(a.offset(), b.offset()) })
	return out
}

func offsetOf(l *Latest) *int64 {
	if l == nil {
		return nil
	}
	return &l.At
}

// offset is the latest record's, of the side that has one.
func (d KeyDifference) offset() int64 {
	if d.SourceOffset != nil {
		return *d.SourceOffset
	}
	return *d.TargetOffset
}
