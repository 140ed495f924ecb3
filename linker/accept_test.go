package linker

import (
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/plan"
	"klink/linker/state"
)

// TestG8_AcceptGoesOnFromTheTargetsEnd: what differs is on record and stays as it
// is, and what the source writes behind the target's end is mirrored at its offsets;
// also after a restart.
func TestG8_AcceptGoesOnFromTheTargetsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		src, dst []batch.Record
		halts    state.Reason
		// short is how many records the source lacks up to the target's end.
		short int
		want  plan.Range
	}{
		"another history":       {src: records(0, 50, "src"), dst: records(0, 20, "x"), halts: state.Diverged, want: plan.Range{From: 0, End: 20}},
		"the last ones differ":  {src: records(0, 50, "src"), dst: append(records(0, 15, "src"), records(15, 5, "x")...), halts: state.Diverged, want: plan.Range{From: 15, End: 20}},
		"equal in length":       {src: records(0, 20, "src"), dst: records(0, 20, "x"), halts: state.Diverged, want: plan.Range{From: 0, End: 20}},
		"the target has more":   {src: records(0, 20, "src"), dst: append(records(0, 20, "src"), records(20, 3, "x")...), halts: state.Diverged, short: 3, want: plan.Range{From: 20, End: 23}},
		"the source lost a lot": {src: records(0, 5, "new"), dst: records(0, 20, "src"), halts: state.Diverged, short: 15, want: plan.Range{From: 0, End: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.src.write(c.src, 0, batch.CodecLZ4)
				m.dst.write(c.dst, 0, batch.CodecNone)
				m.start(t)
				m.mustHalt(t, c.halts)
				m.accept()
				if c.short > 0 {
					time.Sleep(time.Minute)
					synctest.Wait()
					if r := m.p.shown.report(time.Now()); r.State != state.SourceUnavailable || r.Reason != string(state.SourceShort) {
						t.Fatalf("%s %s: %s", r.State, r.Reason, r.Detail)
					}
					m.src.write(records(m.src.end, c.short, "lost"), 1, batch.CodecNone)
				}
				m.src.write(records(m.src.end, 30, "later"), 1, batch.CodecNone)
				m.mustHold(t, c.dst)
				m.stop()
				m.src.write(records(m.src.end, 10, "last"), 2, batch.CodecNone)
				m.start(t)
				m.mustHold(t, c.dst)
				m.stop()
				if got := m.p.book.index.Windows(); len(got) != 1 || got[0].From != c.want.From || got[0].End != c.want.End ||
					got[0].Counts[0].Reason != ledger.Accepted {
					t.Errorf("the ledger holds %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

// TestAcceptPadsOverWhatRetentionTook, once: the next time it halts again.
func TestAcceptPadsOverWhatRetentionTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
		m.start(t)
		m.mustBeEqual(t)
		m.stop()
		overrun := func() {
			m.src.write(records(m.src.end, 30, "gone"), 0, batch.CodecNone)
			m.src.mu.Lock()
			m.src.start = m.src.end - 10
			m.src.mu.Unlock()
		}
		overrun()
		m.start(t)
		m.mustHalt(t, state.RetentionOverrun)
		m.accept()
		if r := m.settle(t); r.State != state.Active || *r.TargetStart != 40 || *r.TargetEnd != 50 {
			t.Fatalf("%+v", r)
		}
		m.stop()
		overrun()
		m.start(t)
		m.mustHalt(t, state.RetentionOverrun)
		m.stop()
	})
}

// accept lets a halted partition go on, as an order would.
func (m *mirror) accept() {
	m.stop()
	m.p.accepting.Store(&intent.Command{Verb: intent.Accept, Number: 1, By: "somebody"})
	m.p.shown.move(state.ToMirror, "", "")
	m.run()
}

// mustHold requires the target to hold what it held, and behind it what the source
// has there.
func (m *mirror) mustHold(t *testing.T, held []batch.Record) {
	t.Helper()
	if r := m.settle(t); r.State != state.Active {
		t.Fatalf("%s %s: %s", r.State, r.Reason, r.Detail)
	}
	want := append(held[:len(held):len(held)], m.src.records()[len(held):]...)
	if err := sameLogs(want, m.dst.records()); err != nil {
		t.Fatal(err)
	}
}
