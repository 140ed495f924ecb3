package linker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"klink/linker/state"
)

// TestACrowdIsToldInTwoLines: a thousand partitions that lose their source are
// one line at once and one with their number later.
func TestACrowdIsToldInTwoLines(t *testing.T) {
	var out bytes.Buffer
	c := newCrowd(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.Unix(1_700_000_000, 0)
	alone := 0
	for range 1000 {
		if c.admits(slog.LevelWarn, "partition SOURCE_UNAVAILABLE", "UNREACHABLE", now) {
			alone++
		}
	}
	if !c.admits(slog.LevelWarn, "partition SOURCE_UNAVAILABLE", "AUTHENTICATION", now) {
		t.Error("another reason was not admitted")
	}
	c.tell(now.Add(crowdWindow - 1))
	if alone != 1 || out.Len() != 0 {
		t.Errorf("%d admitted, %q told early", alone, out.String())
	}
	c.tell(now.Add(crowdWindow))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "partitions=999") {
		t.Errorf("told %q", got)
	}
	if !c.admits(slog.LevelWarn, "partition SOURCE_UNAVAILABLE", "UNREACHABLE", now.Add(crowdWindow)) {
		t.Error("a new episode was not admitted")
	}
}

// TestG9_NoLagWithoutSight is S3: what is away has no lag, and a source that was
// silent for long has none either.
func TestG9_NoLagWithoutSight(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newShown(0, "w")
	s.sawTarget(0, 5, now)
	s.sawSource(0, 10, 10, now)
	s.move(state.Started, "", "")
	if r := s.report(now); r.LagRecords == nil || *r.LagRecords != 5 {
		t.Errorf("lag %v, want 5", r.LagRecords)
	}
	if r := s.report(now.Add(blindAfter)); r.LagRecords != nil || r.LagSeconds != nil {
		t.Error("a silent source has a lag")
	}
	s.move(state.SourceLost, state.Unreachable, "x")
	if r := s.report(now); r.LagRecords != nil || r.LagSeconds != nil {
		t.Error("an unavailable source has a lag")
	}
}

// TestG9_LinkFailsWithAllItsPartitions: one partition that is well keeps it
// ACTIVE.
func TestG9_LinkFailsWithAllItsPartitions(t *testing.T) {
	away := state.Partition{State: state.SourceUnavailable, Reason: string(state.Unreachable), Detail: "d", Hint: "h"}
	well := state.Partition{State: state.Active}
	link := func(ps ...state.Partition) state.Link {
		return cutOff(state.Link{State: state.Active, Topics: []state.Topic{{Partitions: ps[:1]}, {Partitions: ps[1:]}}})
	}
	if l := link(away, away, away); l.State != state.Failed || l.Reason != "UNREACHABLE" || l.Hint != "h" {
		t.Errorf("all away: %s %s", l.State, l.Reason)
	}
	if l := link(away, away, well); l.State != state.Active {
		t.Errorf("one well: %s", l.State)
	}
	few := state.Partition{State: state.TargetUnavailable, Reason: string(state.TooFewBrokers)}
	if l := link(few, few); l.State != state.Active {
		t.Errorf("a topic's own trouble: %s", l.State)
	}
	if l := cutOff(state.Link{State: state.Active}); l.State != state.Active {
		t.Errorf("no topics: %s", l.State)
	}
}
