package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/cmd/config"
	"klink/comparator"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// memBook is an AuditBook that takes note of what it is given.
type memBook struct {
	result []comparator.Result
	dry    bool
	left   []RecordLeftOut
	err    error
	closed int
}

func (b *memBook) Put(_ context.Context, r comparator.Result, dry bool) ([]RecordedLink, error) {
	b.result, b.dry = append(b.result, r), dry
	return []RecordedLink{{Link: "east", DryRun: dry, Partitions: 2, LeftOut: append([]RecordLeftOut{}, b.left...)}}, b.err
}

func (b *memBook) Close() { b.closed++ }

// A result goes on record where that is asked for and confirmed, and nowhere else.
func TestCompareRecord(t *testing.T) {
	var asked CompareRequest
	file := configFile(t, "", "east")
	same := compared()
	same.Topics, same.Groups, same.Configs, same.ACLs, same.Differences, same.Failed, same.Equal = same.Topics[:1], nil, nil, nil, 0, 0, true
	for name, c := range map[string]struct {
		args []string
		book memBook
		code int
		puts int
		says string
	}{
		"not asked for":     {args: nil},
		"on record":         {args: []string{"--record", "--yes"}, puts: 1, says: "link east: 2 partitions put on record"},
		"nobody to ask":     {args: []string{"--record"}, code: 2, says: "add --yes"},
		"dry":               {args: []string{"--record", "--dry-run"}, puts: 1, says: "link east: 2 partitions would be put on record"},
		"without --record":  {args: []string{"--yes"}, code: 2, says: "about --record"},
		"of a part of time": {args: []string{"--record", "--yes", "--last", "1h"}, code: 2, says: "leave out --last"},
		"left out": {args: []string{"--record", "--yes"}, book: memBook{left: []RecordLeftOut{{SourceTopic: "orders", Partition: new(int32(1)), Reason: "why"}}},
			code: 1, puts: 1, says: "not orders/1: why"},
		"no record": {args: []string{"--record", "--yes"}, book: memBook{err: errors.New("not writable")}, code: 1, puts: 1, says: "--record: not writable"},
	} {
		parts := comparing(same, &asked)
		parts.AuditBook = func(context.Context, *config.Config) (AuditBook, error) { return &c.book, nil }
		r := execute(t.Context(), parts, append([]string{"compare", "-c", file}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.says) || len(c.book.result) != c.puts || c.book.closed != c.puts || c.book.dry != (name == "dry") {
			t.Errorf("%s: %+v %+v", name, r, c.book)
		}
	}
}

// Differences go on record, too, and are in the JSON beside what was recorded; the
// exit code stays that of differences.
func TestCompareRecordsDifferences(t *testing.T) {
	var asked CompareRequest
	book := &memBook{err: errors.New("not writable")}
	parts := comparing(compared(), &asked)
	parts.AuditBook = func(context.Context, *config.Config) (AuditBook, error) { return book, nil }
	r := execute(t.Context(), parts, "compare", "-c", configFile(t, "", "east"), "--record", "--yes", "-o", "json")
	var got struct {
		Differences int64
		Recorded    []RecordedLink
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 3 || got.Differences != 196 || len(got.Recorded) != 1 || got.Recorded[0].Partitions != 2 || len(book.result) != 1 {
		t.Errorf("%v %+v %+v", err, r, got)
	}
	parts.AuditBook = func(context.Context, *config.Config) (AuditBook, error) {
		return nil, unknownLink("east", state.Report{})
	}
	parts.Compare = nil
	if r := execute(t.Context(), parts, "compare", "-c", configFile(t, "", "east"), "--record", "--yes"); r.code != 1 || !strings.Contains(r.err, "knows no link of this name") {
		t.Errorf("%+v", r)
	}
}

// memMirrors are mirrors on record.
type memMirrors struct {
	topics map[string]control.TopicRecord
	audits map[int32]control.AuditRecord
}

func (m memMirrors) Topic(_, topic string) (control.TopicRecord, bool) {
	r, ok := m.topics[topic]
	return r, ok
}

func (m memMirrors) Audit(_, _ string, n int32) (control.AuditRecord, bool) {
	r, ok := m.audits[n]
	return r, ok
}

// What goes on record is about the topics that are, and came to its end. What was
// found equal before stays on record beside what is not.
func TestAuditsOfAComparison(t *testing.T) {
	src, dst, other := feed.TopicID{1}, feed.TopicID{2}, feed.TopicID{3}
	clean := state.AuditPass{Began: asOf.Add(-time.Hour), Ended: asOf.Add(-time.Hour), To: 5, First: []state.AuditFinding{}}
	on := memMirrors{audits: map[int32]control.AuditRecord{1: {Link: "east", Topic: "orders", SourceID: src, TargetID: dst, Partition: 1, Audit: state.Audit{Last: &clean, Clean: &clean}}},
		topics: map[string]control.TopicRecord{"orders": {SourceID: src, TargetID: dst, TargetTopic: "orders"}, "anew": {SourceID: src, TargetID: other, TargetTopic: "anew"}, "failed": {SourceID: src, TargetID: dst, TargetTopic: "failed"}}}
	r := compared()
	r.Topics[0].Partitions = append(r.Topics[0].Partitions, comparator.PartitionResult{Partition: 2, Error: "no leader"})
	for _, name := range []string{"orders", "anew", "failed", "unknown", "elsewhere"} {
		link := "east"
		if name == "elsewhere" {
			link = "west"
		}
		r.Topics = append(r.Topics, comparator.TopicResult{Link: link, SourceTopic: name, TargetTopic: name, Partitions: r.Topics[0].Partitions})
	}
	r.Topics = r.Topics[2:]
	for i := range r.Topics {
		r.Topics[i].SourceID, r.Topics[i].TargetID = src, dst
	}
	r.Topics[2].Error = "no"
	r.Seconds, r.ResumedFrom = 60, new(asOf.Add(-time.Minute))
	due, left := auditsOf(r, "east", on)
	if len(due) != 2 {
		t.Fatalf("%+v", due)
	}
	want := control.AuditRecord{Link: "east", Topic: "orders", SourceID: src, TargetID: dst, Partition: 0}
	want.Take(state.AuditPass{Began: asOf.Add(-time.Minute), Ended: asOf.Add(time.Minute), To: 1_000_000, Records: 998_000, Digest: r.Topics[0].Partitions[0].Digest, First: []state.AuditFinding{}})
	if d := cmp.Diff(want, due[0]); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if a := due[1]; a.Clean != &clean || a.Last.Findings != 194 || len(a.Last.First) != 2 || a.Last.First[1] != (state.AuditFinding{Kind: "shifted", Offset: 9, Detail: "100 records stand at their offset -1 on the target"}) {
		t.Errorf("%+v", a)
	}
	reasons := map[string]string{}
	for _, l := range left {
		reasons[l.SourceTopic] = l.Reason
	}
	wantReasons := map[string]string{"orders": "it was not compared to the end", "anew": "the mirror on record is of other topics: one of them was made anew, or renamed",
		"failed": "it was not compared", "unknown": "the link has no such mirror on record"}
	if d := cmp.Diff(wantReasons, reasons); d != "" || len(left) != 4 {
		t.Errorf("(-want +got)\n%s%+v", d, left)
	}
}

// TestG9_CompareOnRecord: what klink compare found is shown by status and describe,
// with the klink that runs and without; the audit that finds less takes its place.
func TestG9_CompareOnRecord(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorBoth(t, src, dst)
	k.await(t, "orders", state.Active)
	k.await(t, "payments", state.Active)
	dry := execute(t.Context(), production(), "compare", "-c", k.file, "orders", "--record", "--dry-run")
	if dry.code != 0 || !strings.Contains(dry.out, "2 partitions would be put on record") {
		t.Fatalf("%+v", dry)
	}
	if out := execute(t.Context(), production(), "status", "-c", k.file); strings.Contains(out.out, "audit of link") {
		t.Errorf("a dry run is on record: %+v", out)
	}
	r := execute(t.Context(), production(), "compare", "-c", k.file, "orders", "--record", "--yes", "-o", "json")
	var got compareResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || len(got.Recorded) != 1 || got.Recorded[0].Partitions != 2 || len(got.Recorded[0].LeftOut) != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	shown := func() {
		t.Helper()
		if out := execute(t.Context(), production(), "status", "-c", k.file); out.code != 0 || !strings.Contains(out.out, "audit of link east: 2 of 4 partitions equal") {
			t.Errorf("%+v", out)
		}
		out := execute(t.Context(), production(), "describe", "-c", k.file, "orders", "-o", "json")
		if out.code != 0 || !strings.Contains(out.out, *got.Topics[0].Partitions[1].Digest) {
			t.Errorf("%+v", out)
		}
	}
	shown()
	k.stop()
	shown()
}
