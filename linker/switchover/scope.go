package switchover

import (
	"cmp"
	"fmt"
	"slices"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
)

// mirror is one topic of the link with what is wanted of it.
type mirror struct {
	control.TopicRecord
	intent intent.Intent
	// keepsOffsets: it is on record in mirror mode, and has no map of copies.
	keepsOffsets bool
}

// part is one partition of a mirror.
type part struct {
	m      *mirror
	n      int32
	target appender.Target
	// producer is the id that all writes of the mirror carry.
	producer int64
}

// place finds the partition among those of the target.
func (p part) place() feed.Partition {
	return feed.Partition{Topic: p.target.Topic, Partition: p.n}
}

// source is the partition that is mirrored.
func (p part) source() feed.Partition { return feed.Partition{Topic: p.m.SourceTopic, Partition: p.n} }

// scope is what a command is about, as the record has it.
type scope struct {
	link    control.LinkRecord
	mirrors []*mirror
	intents intent.Intents
}

// newScope picks the named topics, or with no names all that are not removed and
// not mirrored the other way.
func newScope(st Store, link string, names []string) (*scope, error) {
	rec, ok := st.Link(link)
	if !ok {
		return nil, fmt.Errorf("link %q: %w", link, ErrUnknown)
	}
	sc := &scope{link: rec, intents: st.Intents(link)}
	for _, t := range st.Topics(link) {
		m := &mirror{TopicRecord: t, intent: sc.intents.Of(t.SourceTopic),
			keepsOffsets: keepsOffsets(t, rec)}
		switch {
		case slices.Contains(names, t.SourceTopic):
		case len(names) > 0, m.intent.Want == intent.Removed, m.intent.Reversed():
			continue
		}
		sc.mirrors = append(sc.mirrors, m)
	}
	for _, name := range names {
		if !slices.ContainsFunc(sc.mirrors, func(m *mirror) bool { return m.SourceTopic == name }) {
			return nil, fmt.Errorf("topic %q of link %q: %w", name, link, ErrUnknown)
		}
	}
	if len(sc.mirrors) == 0 {
		return nil, fmt.Errorf("topics of link %q: %w", link, ErrUnknown)
	}
	return sc, nil
}

// keepsOffsets tells whether a topic is on record in mirror mode; where its own record
// says nothing, its link's does.
func keepsOffsets(t control.TopicRecord, l control.LinkRecord) bool {
	return cmp.Or(t.Mode, control.TopicMode(l.Mode)) == control.ModeMirror
}

// parts are the partitions of some mirrors. A mirror whose target topic was never
// made has none.
func (sc *scope) parts(of []*mirror) []part {
	var out []part
	for _, m := range of {
		if m.TargetID.IsZero() && m.Partitions == 0 {
			continue
		}
		for n := range m.Partitions {
			out = append(out, part{m: m, n: n,
				target:   appender.Target{Topic: m.TargetTopic, ID: m.TargetID, Partition: n},
				producer: appender.ProducerID(sc.link.SourceClusterID, m.SourceID, n, m.Generation)})
		}
	}
	return out
}

// allows returns a *NotAllowedError for the first of some mirrors that a verb may
// not act on.
func allows(v intent.Verb, ms []*mirror) error {
	for _, m := range ms {
		if err := m.intent.Allows(v); err != nil {
			return &NotAllowedError{Verb: v, Topic: m.SourceTopic, Cause: m.intent.Cause, Err: err}
		}
	}
	return nil
}

// named returns the source topics of some mirrors, sorted.
func named(ms []*mirror) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		out = append(out, m.SourceTopic)
	}
	slices.Sort(out)
	return out
}

// fenceAbove is the producer epoch above that of all mirrors.
func fenceAbove(ms []*mirror) int16 {
	top := int16(0)
	for _, m := range ms {
		top = max(top, m.intent.Fence)
	}
	return top + 1
}

// stoppedBy tells by which switch a mirror was ended, "" where it was not.
func (m *mirror) stoppedBy(v intent.Verb) string {
	if m.intent.Want == intent.Stopped && m.intent.Cause.Verb == v {
		return m.intent.Cause.Switch
	}
	return ""
}

// cuts holds what is on record of a switch, by source partition.
type cuts map[feed.Partition]cut

type cut struct {
	control.CutPartition
	of control.CutRecord
}

// recordedCuts are the records of the cuts of the mirrors that were stopped by a
// switch, each of the switch that stopped it, by source topic.
func recordedCuts(st Store, sc *scope) map[string]control.CutRecord {
	of := make(map[string]string) // the switch, by source topic
	for _, m := range sc.mirrors {
		if m.intent.Want == intent.Stopped && m.intent.Cause.Switch != "" {
			of[m.SourceTopic] = m.intent.Cause.Switch
		}
	}
	out := make(map[string]control.CutRecord)
	read := make(map[string]bool)
	for _, id := range of {
		if read[id] {
			continue
		}
		read[id] = true
		for _, r := range st.Cuts(sc.link.Link, id) {
			if of[r.Topic] == id {
				out[r.Topic] = r
			}
		}
	}
	return out
}

// unfinished says of the mirrors that a command stopped and did not come to its end
// what to do, by source topic.
func unfinished(st Store, sc *scope) map[string]string {
	out := make(map[string]string)
	recorded := recordedCuts(st, sc)
	for _, m := range sc.mirrors {
		var c *control.CutRecord
		if r, ok := recorded[m.SourceTopic]; ok {
			c = &r
		}
		if hint := control.Unfinished(m.TopicRecord, m.intent, c); hint != "" {
			out[m.SourceTopic] = hint
		}
	}
	return out
}

// readCuts gathers the recorded cuts.
func readCuts(st Store, sc *scope) cuts {
	out := make(cuts)
	for _, r := range recordedCuts(st, sc) {
		for _, p := range r.Partitions {
			out[feed.Partition{Topic: r.Topic, Partition: p.Partition}] = cut{CutPartition: p, of: r}
		}
	}
	return out
}

// done returns the recorded cut of a partition where nothing is left to do for
// it.
func (c cuts) done(p part) (cut, bool) {
	got, ok := c[p.source()]
	ok = ok && got.of.TargetID == p.m.TargetID && got.of.Switch == p.m.intent.Cause.Switch
	return got, ok && !got.Unfenced && got.TargetEnd != feed.Unknown
}
