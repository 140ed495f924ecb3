package linker

import (
	"fmt"
	"testing"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// TestUndecidedPromotionIsTakenBack: by the process that mirrors, once its wait is
// over; also by one that was started in between.
func TestUndecidedPromotionIsTakenBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart: ", restart), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 1, 1)
				w.add("b", 2, 1)
				l, end := w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				w.give(t, intent.Command{Verb: intent.Pend, Topics: []string{"a", "b"}, Switch: "s", Wait: time.Minute})
				mustBe(t, soonReport(t, l, "a"), state.PendingStopped, "")
				time.Sleep(30 * time.Second)
				if restart {
					end()
					l, end = w.run(t)
				}
				time.Sleep(29 * time.Second)
				mustBe(t, soonReport(t, l, "b"), state.PendingStopped, "")
				time.Sleep(32 * time.Second)
				mustBe(t, soonReport(t, l, "a"), state.Active, "")
				mustBe(t, soonReport(t, l, "b"), state.Active, "")
				if all := w.Commands("l"); len(all) != 2 || all[1].Verb != intent.Resume || len(all[1].Topics) != 2 || all[1].Check() != nil {
					t.Errorf("commands %+v", all)
				}
				end()
			})
		})
	}
}

// TestPromotionDecidedInTime: the command that is first in the log has the number,
// and the other one changes nothing.
func TestPromotionDecidedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Pend, Topics: []string{"a"}, Switch: "s", Wait: time.Minute})
		mustBe(t, soonReport(t, l, "a"), state.PendingStopped, "")
		w.give(t, intent.Command{Verb: intent.Promote, Topics: []string{"a"}, Switch: "s", Fence: 1})
		mustBe(t, soonReport(t, l, "a"), state.Stopped, "")
		time.Sleep(time.Hour)
		mustBe(t, soonReport(t, l, "a"), state.Stopped, "")
		if all := w.Commands("l"); len(all) != 2 {
			t.Errorf("commands %+v", all)
		}
		end()
	})
}
