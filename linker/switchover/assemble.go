package switchover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
)

// trouble is why a topic is not as it should be.
type trouble struct {
	reason string
	detail string
	hint   string
}

// troubles are by source topic.
type troubles map[string]trouble

// first notes a trouble; of several of one topic the first counts.
func (ts troubles) first(topic string, reason state.Reason, err error) {
	if _, ok := ts[topic]; !ok {
		ts[topic] = trouble{reason: string(reason), detail: err.Error(), hint: hintOf(reason)}
	}
}

// partition notes what is wrong with one partition after a failover.
func (ts troubles) partition(f *fate) {
	topic := f.m.SourceTopic
	switch _, ok := ts[topic]; {
	case ok:
	case f.fence != nil && !f.fence.ok:
		t := trouble{reason: Unfenced, detail: fmt.Sprintf("partition %d: %s", f.n, f.fence.detail), hint: hintUnfenced}
		if f.fence.reason != "" {
			t.detail = fmt.Sprintf("partition %d: %s: %s", f.n, f.fence.reason, f.fence.detail)
			t.hint = f.fence.reason.About().Hint + "; " + hintUnfenced
		}
		ts[topic] = t
	case f.facts.ends.Err != nil:
		ts.first(topic, reasonOr(f.facts.ends.Reason, state.Unreachable), fmt.Errorf("partition %d: %w", f.n, f.facts.ends.Err))
	case f.facts.fenced && f.facts.fenceAt == feed.Unknown:
		ts.first(topic, state.Unreachable, fmt.Errorf("partition %d: its log cannot be read, so it is not known at which offset its fence stands", f.n))
	}
}

func reasonOr(r, instead state.Reason) state.Reason {
	if r == "" {
		return instead
	}
	return r
}

// finish brings the source's settings into force on the mirrors that are stopped, and
// then puts on record that nothing is left to do for those that have them (X9).
func (s *Switch) finish(ctx context.Context, sc *scope, ts troubles, details map[string]string) {
	failed := s.restore(ctx, sc, ts, details)
	var rs []control.CutRecord
	recorded := recordedCuts(s.o.Store, sc)
	for _, m := range sc.mirrors {
		if r, ok := recorded[m.SourceTopic]; ok && r.Unsettled && !failed[m.SourceTopic] {
			r.Unsettled = false
			rs = append(rs, r)
		}
	}
	if len(rs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Times.Look)
	defer cancel()
	if err := s.o.Store.PutCuts(ctx, rs); err != nil {
		for _, r := range rs {
			ts.first(r.Topic, state.ControlUnwritable, fmt.Errorf("it is not on record that the source's settings are in force: %w", err))
		}
	}
}

// restore brings the source's settings into force on the mirrors that are stopped,
// and tells on which source topics' it did not.
func (s *Switch) restore(ctx context.Context, sc *scope, ts troubles, details map[string]string) map[string]bool {
	var rs []topics.Restoration
	var of []*mirror
	for _, m := range sc.mirrors {
		if m.TargetID.IsZero() {
			continue
		}
		rs = append(rs, topics.Restoration{Target: m.TargetTopic, Source: settings(m.SourceConfigs)})
		of = append(of, m)
	}
	failed := make(map[string]bool)
	if len(rs) == 0 {
		return failed
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Times.Look)
	defer cancel()
	for i, got := range s.o.Settings.Restore(ctx, rs) {
		if got.Err != nil {
			failed[of[i].SourceTopic] = true
			ts.first(of[i].SourceTopic, remote.ReasonOf(got.Err), fmt.Errorf("the source's settings are not in force: %w", got.Err))
		}
		if len(got.Notes) > 0 {
			details[of[i].SourceTopic] = strings.Join(got.Notes, "; ")
		}
	}
	return failed
}

// settings are recorded settings as the topics package has them, nil for none.
func settings(c control.Configs) topics.Settings {
	all := c.All()
	if all == nil {
		return nil
	}
	out := make(topics.Settings, len(all))
	for k, v := range all {
		out[k] = topics.Setting{Value: v.Value, Explicit: v.Explicit}
	}
	return out
}

// cutRecords are the cuts of the mirrors for which of gives a switch, with more to do
// (X9). A topic of which all is on record has none.
func cutRecords(link string, all []*fate, of func(*mirror) string) []control.CutRecord {
	var out []control.CutRecord
	at := make(map[*mirror]int)
	fresh := make(map[*mirror]bool)
	for _, f := range all {
		fresh[f.m] = fresh[f.m] || f.cut == nil
	}
	for _, f := range all {
		id := of(f.m)
		if id == "" || !fresh[f.m] {
			continue
		}
		if _, ok := at[f.m]; !ok {
			at[f.m] = len(out)
			out = append(out, control.CutRecord{Link: link, Topic: f.m.SourceTopic, Switch: id, SourceID: f.m.SourceID,
				TargetID: f.m.TargetID, TargetTopic: f.m.TargetTopic, At: time.Now().UTC(), Unsettled: true})
		}
		r := &out[at[f.m]]
		r.Partitions = append(r.Partitions, f.record())
	}
	return out
}

// record is a partition's part of its cut record.
func (f *fate) record() control.CutPartition {
	if f.cut != nil {
		return f.cut.CutPartition
	}
	c := control.CutPartition{Partition: f.n, TargetEnd: f.facts.mirrored(), SourceEnd: f.facts.seen.stable,
		Unfenced: f.fence != nil && !f.fence.ok}
	if c.SourceEnd != nil {
		c.SourceSeenAt = f.facts.seen.at
	}
	if f.facts.fenced {
		c.FenceOffset = known(f.facts.fenceAt)
	}
	return c
}

// topic is a topic's part of a Result.
func topic(m *mirror, all []*fate, ts troubles, details map[string]string) Topic {
	t := Topic{SourceTopic: m.SourceTopic, TargetTopic: m.TargetTopic, State: m.state(all), OK: true,
		Detail: details[m.SourceTopic], Partitions: []Partition{}}
	if w, ok := ts[m.SourceTopic]; ok {
		t.OK, t.Reason, t.Detail, t.Hint = false, w.reason, w.detail, w.hint
	}
	for _, f := range all {
		if f.m == m {
			t.Partitions = append(t.Partitions, f.facts.numbers())
		}
	}
	return t
}

// state is what a topic is called: by what is on record, else the worst that its
// partitions reported.
func (m *mirror) state(all []*fate) string {
	switch m.intent.Want {
	case intent.Stopped:
		return stateStopped
	case intent.PendingStop:
		return statePending
	}
	worst := state.Pending
	first := true
	for _, f := range all {
		if f.m == m && f.seen.state != "" && (first || f.seen.state.Severity() > worst.Severity()) {
			worst, first = f.seen.state, false
		}
	}
	return string(worst)
}

// newResult is a Result without its topics.
func (s *Switch) newResult() Result {
	return Result{Link: s.o.Link, AsOf: time.Now().UTC(), Topics: []Topic{}, Groups: []Group{}, Notes: []string{}, Warnings: []Warning{}}
}

// end adds up and tells whether anything failed.
func (r Result) end() (Result, error) {
	r.tally()
	if r.Failed > 0 {
		return r, &ItemsFailedError{Failed: r.Failed, Of: len(r.Topics)}
	}
	return r, nil
}

// fenceEpoch is a fence's coordinator epoch: it stands for no offset of the
// source.
func fenceEpoch(counter int32) int32 { return ledger.CoordinatorEpoch(counter, ledger.None) }

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

var errNoRecord = errors.New("the control topic cannot be written")
