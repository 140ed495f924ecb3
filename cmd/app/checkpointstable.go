package app

import (
	"fmt"
	"strings"
	"time"

	"klink/linker/checkpoints"
	"klink/linker/state"
)

// checkpointsSection is the part of status that is about MirrorMaker 2's topics, ""
// where no link writes them.
func checkpointsSection(r state.Report) string {
	var b strings.Builder
	for _, l := range r.Links {
		if l.Checkpoints == nil {
			continue
		}
		title := "checkpoints"
		if len(r.Links) > 1 {
			title += " of link " + l.Name
		}
		fmt.Fprintf(&b, "\n%s: %s\n", title, checkpointsLine(*l.Checkpoints))
		for _, w := range l.Checkpoints.Waiting {
			fmt.Fprintf(&b, "  %d without: %s: %s\n", w.Offsets, w.Reason, checkpoints.Verdict(w.Reason).Explanation())
		}
		for _, t := range l.Checkpoints.Troubles {
			fmt.Fprintf(&b, "  %s: %s: %s\n  %s\n", t.Topic, t.Reason, t.Detail, t.Hint)
		}
	}
	return b.String()
}

func checkpointsLine(c state.Checkpoints) string {
	if c.FromTopics {
		return fmt.Sprintf("by the topics themselves, of which %s was last written: %s, last heartbeat: %s; when groups were looked at is known to a running klink only",
			c.Topic, told(c, c.WrittenAt), told(c, c.BeatAt))
	}
	if !c.Writing {
		return "not written by this klink: another one of the link does, or no topic needs them yet"
	}
	known := "unknown how many"
	if c.Checkpoints != nil {
		known = fmt.Sprint(*c.Checkpoints)
	}
	return fmt.Sprintf("%s in %s; groups looked at: %s, last written: %s, last heartbeat: %s",
		known, c.Topic, here(c.LookedAt), here(c.WrittenAt), here(c.BeatAt))
}

// told is at, where what could not be asked may be the reason that there was none.
func told(c state.Checkpoints, s state.Seen) string {
	if s.IsZero() && len(c.Troubles) > 0 {
		return "not known"
	}
	return at(s)
}

// here is a time as the process that was asked has it: others wrote before it began.
func here(s state.Seen) string {
	if s.IsZero() {
		return "not since this klink began"
	}
	return at(s)
}

// at is a time, or that there was none.
func at(s state.Seen) string {
	if s.IsZero() {
		return "never"
	}
	return s.UTC().Format(time.RFC3339)
}
