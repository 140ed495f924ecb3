package intent

import (
	"fmt"
	"time"
)

// Detail tells who ordered a topic, or a link, not to be mirrored, when, and by
// which command. It is "" where nobody did.
func (i Intent) Detail() string {
	if i.row() == Mirror {
		return ""
	}
	c := i.Cause
	what := string(c.Verb)
	switch {
	case i.PausedByLink():
		what = "the link was paused"
	case i.Reversed():
		what = fmt.Sprintf("link %q mirrors the other way", c.Next)
	case c.Verb == Pause:
		what = "paused"
	case c.Verb == Pend:
		what = fmt.Sprintf("stopped for a promotion (%s at most)", c.Wait)
	case c.Verb == Promote:
		what = "promoted"
	case c.Verb == Failover:
		what = "failed over"
	case c.Verb == Remove:
		what = "removed"
	}
	return fmt.Sprintf("%s by %s at %s (command %d)", what, c.By, c.At.UTC().Format(time.RFC3339), c.Number)
}

// Hint tells what leads on from there, "" where nothing has to.
func (i Intent) Hint() string {
	switch {
	case i.PausedByLink():
		return "klink resume of the link goes on"
	case i.Want == Paused:
		return "klink resume goes on"
	case i.Want == PendingStop:
		return "klink promote makes it final or takes it back; if that was killed, klink takes it back by itself"
	case i.Reversed():
		return fmt.Sprintf("run klink with the file of link %q", i.Cause.Next)
	case i.Want == Stopped:
		return "the target topic may be written to; klink reverse mirrors the other way where it was in mirror mode, klink repair --recreate begins anew"
	case i.Want == Removed:
		return "take the topic out of topics.include; klink repair --recreate begins anew, klink adopt goes on with what is there"
	}
	return ""
}
