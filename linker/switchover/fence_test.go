package switchover

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/state"
)

// script plays a fencer against answers, one per step that needs one, and returns
// what it did.
func script(t *testing.T, f *fencer, answers ...any) string {
	t.Helper()
	var did []string
	now := time.Unix(0, 0)
	for {
		st := f.step(now)
		switch st.act {
		case fenceEnd:
			return strings.Join(did, " ")
		case fencePause:
			now = now.Add(st.pause)
			did = append(did, fmt.Sprintf("pause:%v", st.pause))
			continue
		case fenceAsk:
			did = append(did, "ask")
		case fenceReserve:
			did = append(did, fmt.Sprintf("reserve:above=%d", st.above))
		case fenceWrite:
			did = append(did, fmt.Sprintf("write:epoch=%d,counter=%d", st.epoch, st.counter))
		}
		if len(answers) == 0 {
			t.Fatalf("no answer left after %v", did)
		}
		switch a := answers[0].(type) {
		case appender.ProducerState:
			f.asked(a, nil)
		case int32:
			f.reserved(a, nil)
		case appender.MarkerResult:
			f.wrote(now, a)
		case error:
			if st.act == fenceAsk {
				f.asked(appender.ProducerState{}, a)
			} else {
				f.reserved(0, a)
			}
		}
		answers = answers[1:]
	}
}

func outcome(o appender.MarkerOutcome, r state.Reason) appender.MarkerResult {
	return appender.MarkerResult{Outcome: o, Reason: r, Err: errCut}
}

func TestFencesByScript(t *testing.T) {
	done := outcome(appender.MarkersDone, "")
	until := time.Unix(10, 0)
	first := fenceOrder{epoch: 1, recorded: true, until: until}
	offRecord := fenceOrder{epoch: 1, until: until, floor: 100}
	for _, c := range []struct {
		name    string
		order   fenceOrder
		answers []any
		did     string
		want    fenced
	}{
		{"at once", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), done},
			"ask reserve:above=-1 write:epoch=1,counter=7", fenced{ok: true, single: true}},
		{"in doubt, then done", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), outcome(appender.MarkersUnknown, state.Unreachable), done},
			"ask reserve:above=-1 write:epoch=1,counter=7 pause:50ms write:epoch=1,counter=8",
			fenced{ok: true, doubts: 1, reason: state.Unreachable, detail: errCut.Error()}},
		{"refused for now", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), outcome(appender.MarkersRefused, state.NotEnoughReplicas), outcome(appender.MarkersNotSent, state.NoLeader), done},
			"ask reserve:above=-1 write:epoch=1,counter=7 pause:50ms write:epoch=1,counter=8 pause:100ms write:epoch=1,counter=9",
			fenced{ok: true, single: true, reason: state.NoLeader, detail: errCut.Error()}},
		{"no right", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), outcome(appender.MarkersRefused, state.NoPermission)},
			"ask reserve:above=-1 write:epoch=1,counter=7", fenced{reason: state.NoPermission, detail: errCut.Error()}},
		{"the counter is outrun", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), outcome(appender.MarkersCoordinatorFenced, ""),
			appender.ProducerState{Known: true, CoordinatorEpoch: 90 << 3}, int32(91), done},
			"ask reserve:above=-1 write:epoch=1,counter=7 pause:50ms ask reserve:above=90 write:epoch=1,counter=91",
			fenced{ok: true, single: true, detail: errCut.Error()}},
		{"fenced higher", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), outcome(appender.MarkersProducerFenced, state.Fenced)},
			"ask reserve:above=-1 write:epoch=1,counter=7", fenced{ok: true, found: true}},
		{"found on a second run", first, []any{appender.ProducerState{Known: true, Epoch: 1, CoordinatorEpoch: 8}},
			"ask", fenced{ok: true, found: true}},
		{"not there on a second run", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, int32(7), done},
			"ask reserve:above=-1 write:epoch=1,counter=7", fenced{ok: true, single: true}},
		{"without a record", offRecord, []any{appender.ProducerState{Known: true, Epoch: 4, CoordinatorEpoch: 8}, errNoRecord, done},
			"ask reserve:above=1 write:epoch=5,counter=131172", fenced{ok: true}},
		{"without a record or an answer", offRecord, []any{errCut, errNoRecord, done},
			"ask reserve:above=-1 write:epoch=1,counter=131172", fenced{ok: true, blind: true, detail: errCut.Error()}},
		{"without a record, outdated", offRecord, []any{errCut, errNoRecord, outcome(appender.MarkersProducerFenced, state.Fenced),
			appender.ProducerState{Known: true, Epoch: 7, CoordinatorEpoch: -1}, done},
			"ask reserve:above=-1 write:epoch=1,counter=131172 pause:50ms ask write:epoch=8,counter=131173",
			fenced{ok: true, blind: true, reason: state.Fenced, detail: errCut.Error()}},
		{"counters are spent", first, []any{appender.ProducerState{Known: true, CoordinatorEpoch: -1}, fmt.Errorf("reserve: %w", control.ErrCountersSpent)},
			"ask reserve:above=-1", fenced{reason: state.Unfillable, detail: "reserve: " + control.ErrCountersSpent.Error()}},
		{"the epoch is the last", offRecord, []any{appender.ProducerState{Known: true, Epoch: 32767}},
			"ask", fenced{reason: state.Fenced, detail: "the producer's epoch cannot be raised any more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFencer(c.order)
			if did := script(t, f, c.answers...); did != c.did {
				t.Errorf("did\n%s\nwant\n%s", did, c.did)
			}
			if f.out != c.want {
				t.Errorf("got %+v\nwant %+v", f.out, c.want)
			}
		})
	}
}

// TestAFenceEndsInTime: no try begins after the end.
func TestAFenceEndsInTime(t *testing.T) {
	f := newFencer(fenceOrder{epoch: 1, recorded: true, until: time.Unix(3, 0)})
	answers := []any{appender.ProducerState{}, int32(0)}
	for range 40 {
		answers = append(answers, outcome(appender.MarkersUnknown, state.Unreachable))
		if (len(answers)-1)%fenceBlock == 0 {
			answers = append(answers, int32(100*len(answers)))
		}
	}
	script(t, f, answers...)
	if f.out.ok || f.out.reason != state.Unreachable || f.out.doubts < 4 || f.out.doubts > 9 {
		t.Errorf("got %+v", f.out)
	}
}

// TestErrorsSpeak holds the texts that operators read.
func TestErrorsSpeak(t *testing.T) {
	if got := (&ItemsFailedError{2, 3}).Error(); got != "2 of 3 topics failed: run the command again to do the rest" {
		t.Error(got)
	}
	e := &RefusedError{Why: "x", TakenBack: true}
	if !errors.Is(e, ErrRefused) || e.Error() != "not promoted, and taken back: x" {
		t.Error(e)
	}
}
