package e2e

import (
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/linker/state"
)

// promise is what a mode promises of every source log, whatever its kind.
type promise struct {
	mode string
	// target is the name of a topic's copy.
	target func(topic string) string
	// offsetsKept: each record has its offset on the target, and nothing that a
	// consumer sees stands between; else the records are all there once, in order.
	offsetsKept bool
	// readAgain is the most that a group is given again after promote.
	readAgain int
}

// promises is the table that tells the modes apart.
var promises = []promise{
	{mode: "mirror", target: func(topic string) string { return topic }, offsetsKept: true, readAgain: 0},
	{mode: "checkpoint", target: func(topic string) string { return "drift." + topic }, offsetsKept: false, readAgain: 0},
}

// moded is a klink in one of the modes.
type moded struct {
	*klink
	promise
	file string
}

// startModes starts a klink in each mode on the same topics and groups.
func startModes(t testing.TB, p pair, modes []promise, topics, groups string) (all []moded) {
	t.Helper()
	for _, promise := range modes {
		l := openLink(promise.mode, p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics)
		l["mode"], l["groups"] = promise.mode, object{"include": []string{groups}}
		if promise.mode == "checkpoint" {
			l["checkpoint"] = object{"source_alias": "drift"}
		}
		file := configFile(t, l)
		all = append(all, moded{startKlink(t, "-c", file), promise, file})
	}
	return all
}

// requireShown waits until topics are mirrored and compares what consumers see by
// what the mode promises.
func (m moded) requireShown(t *testing.T, p pair, o lab.VisibleOptions) lab.Visible {
	t.Helper()
	if m.offsetsKept {
		return m.requireVisible(t, p, o)
	}
	o.Drift, o.Rename, o.Compacted = true, map[string]string{}, []string{cleanedTopic, oldCleanedTopic}
	for _, topic := range o.Topics {
		o.Rename[topic] = m.target(topic)
		m.awaitFor(t, 4*patience, topic+" to be copied", func(l state.Link) bool { return isCopied(l, topic) })
	}
	for deadline := time.Now().Add(patience); ; { // more may have been written meanwhile
		v, err := lab.CompareVisible(within(t, 4*patience), p.src, p.dst, o)
		switch {
		case err != nil:
			t.Fatal(err)
		case v.Equal():
			return v
		case time.Now().After(deadline):
			t.Fatalf("%s\n%s", v, m.describe(t, o.Topics))
		}
	}
}

// isCopied tells whether nothing of a topic is known to be missing.
func isCopied(l state.Link, topic string) bool {
	for _, t := range l.Topics {
		if t.SourceTopic == topic {
			return len(t.Partitions) > 0 && !slices.ContainsFunc(t.Partitions, func(p state.Partition) bool {
				return p.State != state.Active || p.LagRecords == nil || *p.LagRecords > 0
			})
		}
	}
	return false
}

// commitHalfway commits what two groups have read of topics: one half of each log,
// and one up to before a gap where there is one.
func commitHalfway(t testing.TB, p pair, topics []string) map[string]kadm.Offsets {
	t.Helper()
	read, err := lab.ReadWith(within(t, 2*patience), lab.FranzGo, p.src, lab.ReadCommitted, topics...)
	if err != nil {
		t.Fatal(err)
	}
	var half, gap kadm.Offsets
	for where, r := range read {
		if len(r.Seen) == 0 {
			continue
		}
		half.AddOffset(where.Topic, where.Number, r.Seen[len(r.Seen)/2].Offset, -1)
		before := 0
		for before < len(r.Seen)-1 && r.Seen[before].Offset+1 == r.Seen[before+1].Offset {
			before++
		}
		gap.AddOffset(where.Topic, where.Number, r.Seen[before].Offset+1, -1)
	}
	all := map[string]kadm.Offsets{"both-half": half, "both-gap": gap}
	for group, offsets := range all {
		done, err := admin(t, p.src).CommitOffsets(within(t, patience), group, offsets)
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// requireNothingReadAgain promotes, and holds the groups' offsets on the target to
// the records that they have not read on the source.
func (m moded) requireNothingReadAgain(t *testing.T, p pair, committed map[string]kadm.Offsets) {
	t.Helper()
	m.awaitCarried(t, p, committed)
	if o := command(t, "promote", "-c", m.file, "--yes"); o.code != 0 {
		t.Fatalf("promote in mode %s: %s%s", m.mode, o.out, o.errOut)
	}
	for group, offsets := range committed {
		there, err := admin(t, p.dst).FetchOffsets(within(t, patience), group)
		if err != nil {
			t.Fatal(err)
		}
		for topic, partitions := range offsets {
			src, dst := m.seenOf(t, p, topic)
			for n, o := range partitions {
				at, ok := there.Lookup(m.target(topic), n)
				if !ok {
					t.Fatalf("mode %s: %s has no offset in %s[%d]", m.mode, group, m.target(topic), n)
				}
				unread := from(src[n].Seen, o.At)
				again := len(from(dst[n].Seen, at.At)) - len(unread)
				if again < 0 || again > m.readAgain {
					t.Errorf("mode %s: %s goes on at %d in %s[%d], and is given %d records again; on the source it stood at %d", m.mode, group, at.At, m.target(topic), n, again, o.At)
				}
			}
		}
	}
}

// awaitCarried waits until every offset is on the target.
func (m moded) awaitCarried(t *testing.T, p pair, committed map[string]kadm.Offsets) {
	t.Helper()
	eventually(t, patience, "group offsets in mode "+m.mode, func() bool {
		for group, offsets := range committed {
			there, err := admin(t, p.dst).FetchOffsets(within(t, patience), group)
			if err != nil {
				t.Fatal(err)
			}
			for topic, partitions := range offsets {
				for n := range partitions {
					if at, ok := there.Lookup(m.target(topic), n); !ok || at.At < 0 {
						return false
					}
				}
			}
		}
		return true
	})
}

// seenOf is what read_committed consumers see of a topic and of its copy.
func (m moded) seenOf(t testing.TB, p pair, topic string) (src, dst map[int32]lab.Reading) {
	t.Helper()
	read := func(c lab.Cluster, name string) map[int32]lab.Reading {
		got, err := lab.ReadWith(within(t, 2*patience), lab.FranzGo, c, lab.ReadCommitted, name)
		if err != nil {
			t.Fatal(err)
		}
		byNumber := map[int32]lab.Reading{}
		for where, r := range got {
			byNumber[where.Number] = r
		}
		return byNumber
	}
	return read(p.src, topic), read(p.dst, m.target(topic))
}

// from are the records at and above an offset.
func from(seen []lab.Sighting, at int64) []lab.Sighting {
	return seen[sort.Search(len(seen), func(i int) bool { return seen[i].Offset >= at }):]
}
