package linker

import (
	"strings"
	"testing"
	"testing/synctest"

	"klink/fetcher/batch"
	"klink/linker/state"
)

// TestOtherDataIsNamed: where klink never wrote to a target that is not the source's
// prefix, the halt does not say that the source lost something, and what to do about it
// keeps what is there. Where a klink wrote, nobody knows who is to blame.
func TestOtherDataIsNamed(t *testing.T) {
	mirrored := func(t *testing.T, m *mirror) {
		m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
		m.start(t)
		m.mustBeEqual(t)
		m.stop()
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, m *mirror)
		way    Unmirrorable
		hint   string
	}{
		"other records": {func(_ *testing.T, m *mirror) {
			m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
			m.dst.write(records(0, 10, "x"), 0, batch.CodecNone)
		}, UnmirrorableHalt, behindHint + otherDataHint},
		"more than the source has": {func(_ *testing.T, m *mirror) {
			m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
			m.dst.write(records(0, 21, "src"), 0, batch.CodecNone)
		}, UnmirrorableHalt, behindHint + otherDataHint},
		"other records behind equal ones": {func(_ *testing.T, m *mirror) {
			m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
			m.dst.write(records(0, 5, "src"), 0, batch.CodecNone)
			m.dst.write(records(5, 5, "x"), 0, batch.CodecNone)
		}, UnmirrorableHalt, behindHint + otherDataHint},
		"the topic was to be in mirror mode": {func(_ *testing.T, m *mirror) {
			m.src.write(records(0, 20, "src"), 0, batch.CodecNone)
			m.dst.write(records(0, 10, "x"), 0, batch.CodecNone)
		}, UnmirrorableCheckpoint, otherDataHint},
		"mirrored before": {func(t *testing.T, m *mirror) {
			mirrored(t, m)
			m.src.truncate(0)
			m.src.write(records(0, 30, "new"), 0, batch.CodecNone)
		}, UnmirrorableHalt, ""},
		"a klink's, and its record is lost": {func(t *testing.T, m *mirror) {
			mirrored(t, m)
			m.lineage.epochs = nil
			m.src.write(records(20, 10, "src"), 0, batch.CodecNone)
			m.dst.write(records(20, 5, "x"), 0, batch.CodecNone)
		}, UnmirrorableHalt, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				c.before(t, m)
				m.made(t)
				m.p.unmirrorable = c.way
				m.run()
				defer func() { m.stop() }()
				p := m.mustHalt(t, state.Diverged)
				said := strings.HasPrefix(p.Detail, "the target has other data, which klink did not write: ")
				if want := c.hint; said != (want != "") || want != "" && p.Hint != want || want == "" && p.Hint != state.Diverged.About().Hint {
					t.Errorf("%s (%s)", p.Detail, p.Hint)
				}
			})
		})
	}
}

// TestOtherDataIsKept: what the hint of such a halt says first leads out of it.
func TestOtherDataIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEither()
		e.add("a", 1, 1)
		e.prepareLocked(e.found[0]) // the target topic is there
		e.dstLog("a", 0).write(records(0, 4, "other"), 0, batch.CodecNone)
		l, end := e.run(t)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Halted, state.Diverged)
		if r.Hint != behindHint+otherDataHint {
			t.Errorf("%+v", r)
		}
		end()
		e.outlook.say("a", Unkept{Why: "the target has other data"}, nil)
		l, end = e.begin(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		if n := e.dstLog("a", 0).end; n != 14 {
			t.Errorf("the target ends at %d", n)
		}
	})
}
