package switchover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
)

// TestPromoteOfASourceThatMovedAfterTheCut: it is promoted, and no run of the command
// says that nothing is lost: not the first, and none that comes later (X10).
func TestPromoteOfASourceThatMovedAfterTheCut(t *testing.T) {
	play(t, []string{"a", "b"}, func(w *world) {
		w.pick = func(step string, _ int) int {
			if step == "source" && w.wants("a").Want == intent.Stopped && w.pieces[0].src < 5 {
				return 2
			}
			return 0
		}
		r, err := w.open("cli").Promote(context.Background(), Request{})
		requireLate(t, r, err, 1)
		w.checkPromote(err)
		first := *r.Switch

		r, err = w.open("cli").Promote(context.Background(), Request{})
		requireLate(t, r, err, 2)
		if *r.Switch != first || !slices.Contains(r.Notes, "promoted already") || len(w.log) != 2 {
			t.Errorf("again: %+v, commands %+v", r, w.log)
		}
		if r, err = w.open("cli").Promote(context.Background(), Request{DryRun: true}); err != nil || r.RecordsLost == nil || *r.RecordsLost != 2 {
			t.Errorf("a dry run: %v: %+v", err, r)
		}

		w.pick = always("source", 1)
		r, err = w.open("cli").Promote(context.Background(), Request{})
		if p := r.Topics[0].Partitions[0]; err != nil || r.RecordsLost != nil || *r.UnseenSeconds < 60 || *p.SourceEnd != 3 ||
			!strings.Contains(strings.Join(r.Notes, " "), "is not known: the source does not answer") {
			t.Errorf("with the source gone: %v: %+v", err, r)
		}
	})
}

// requireLate holds that the first topic has records beyond its cut, and no other.
func requireLate(t *testing.T, r Result, err error, records int64) {
	t.Helper()
	var late *LateError
	if !errors.As(err, &late) || late.Records != records || late.Topics != 1 || r.Failed != 1 || *r.RecordsLost != records {
		t.Fatalf("%v: %+v", err, r)
	}
	a, b := r.Topics[0], r.Topics[1]
	if a.OK || a.State != stateStopped || a.Reason != lateRecords || a.Hint != hintLate || *a.Partitions[0].SourceEnd != 3+records ||
		*a.Partitions[0].UnseenSeconds != 0 || !strings.Contains(a.Partitions[0].Detail, "after the cut") || !b.OK {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestAfterTheCut(t *testing.T) {
	cutAt, id := time.Unix(1_000, 0), topicID("s")
	now := cutAt.Add(time.Minute)
	for name, c := range map[string]struct {
		end     int64 // of the target at the cut
		src     SourceEnd
		silent  bool
		late    int64
		trouble string
	}{
		"nothing came":        {end: 7, src: SourceEnd{ID: id, Stable: 7, End: 7}},
		"some came":           {end: 7, src: SourceEnd{ID: id, Stable: 9, End: 9}, late: 2},
		"in a transaction":    {end: 7, src: SourceEnd{ID: id, Stable: 7, End: 9}, late: 2},
		"without topic ids":   {end: 7, src: SourceEnd{Stable: 8, End: 8}, late: 1},
		"no answer":           {end: 7, silent: true, trouble: "its end on the source is not known"},
		"no leader":           {end: 7, src: SourceEnd{ID: id, Err: errCut}, trouble: "its end on the source is not known: connection cut"},
		"another topic":       {end: 7, src: SourceEnd{ID: topicID("x"), Stable: 9, End: 9}, trouble: "the source topic was deleted and made anew"},
		"no end of the cut's": {end: feed.Unknown, src: SourceEnd{ID: id, Stable: 9, End: 9}, trouble: "its end on the target is not known"},
		"copies are missing":  {end: 5, src: SourceEnd{ID: id, Stable: 7, End: 7}, trouble: "what is on record of it does not lead up to its cut"},
		"no cut":              {src: SourceEnd{ID: id, Stable: 7, End: 7}, trouble: "where it was cut is not on record"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mirror{TopicRecord: control.TopicRecord{SourceTopic: "a", SourceID: id}}
			recorded := cut{CutPartition: control.CutPartition{TargetEnd: c.end, SourceEnd: known(7), SourceSeenAt: cutAt}, of: control.CutRecord{At: cutAt}}
			f := &fate{part: part{m: m}, facts: cutFacts(recorded), cut: &recorded}
			switch c.end {
			case feed.Unknown:
				f.facts.ends = appender.Ends{Err: errCut}
			case 0:
				f.cut = nil
			}
			trouble := f.after(c.src, !c.silent, now)
			p := f.facts.numbers()
			if trouble != c.trouble || f.late() != c.late || (p.RecordsLost == nil) != (trouble != "") {
				t.Errorf("%q, %d, %+v", trouble, f.late(), p)
			}
			if unseen := *p.UnseenSeconds; unseen != 0 && trouble == "" || unseen != 60 && trouble != "" {
				t.Errorf("unseen for %v s", unseen)
			}
		})
	}
}

func TestWhatIsSaidOfAPromotion(t *testing.T) {
	topicOf := func(reason string, lost ...*int64) Topic {
		x := Topic{OK: reason == "", Reason: reason}
		for _, l := range lost {
			x.Partitions = append(x.Partitions, Partition{RecordsLost: l})
		}
		return x
	}
	for name, c := range map[string]struct {
		topics       []Topic
		late, failed string
	}{
		"all is well":          {topics: []Topic{topicOf("", known(0)), topicOf("", known(0))}},
		"unknown is no loss":   {topics: []Topic{topicOf("", nil)}},
		"late":                 {[]Topic{topicOf(lateRecords, known(199), known(1)), topicOf("", known(0))}, "at most 200 records of 1 topic", ""},
		"settings":             {[]Topic{topicOf("UNREACHABLE", known(0))}, "", "1 of 1 topic failed"},
		"settings of the late": {[]Topic{topicOf("UNREACHABLE", known(1)), topicOf(lateRecords, known(1))}, "at most 2 records of 2 topics", "1 of 2 topics failed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := promoted(Result{Topics: c.topics})
			var late *LateError
			var failed *ItemsFailedError
			if errors.As(err, &late) != (c.late != "") || errors.As(err, &failed) != (c.failed != "") || (err == nil) != (c.late+c.failed == "") ||
				err != nil && (!strings.Contains(err.Error(), c.late) || !strings.Contains(err.Error(), c.failed)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
