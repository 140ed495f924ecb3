package switchover

import (
	"context"
	"fmt"

	"klink/linker/intent"
)

// Forecast tells what a failover now would give: the same numbers, with nothing
// written. Where the control topic cannot be read to its end they are those of
// what was read last, which a note says.
func (s *Switch) Forecast(ctx context.Context, r Request) (Result, error) {
	res := s.newResult()
	bounded, cancel := context.WithTimeout(ctx, s.o.Times.Record)
	err := s.o.Store.CatchUp(bounded)
	cancel()
	if err != nil {
		res.Notes = append(res.Notes, fmt.Sprintf("the control topic could not be read to its end: %v", err))
	}
	sc, err := newScope(s.o.Store, s.o.Link, r.Topics)
	if err != nil {
		return res, err
	}
	all := s.fates(sc, nil)
	s.measure(ctx, all)
	ts := make(troubles)
	for _, f := range all {
		if f.cut == nil {
			ts.partition(f)
		}
	}
	running, details := false, unfinished(s.o.Store, sc)
	for _, m := range sc.mirrors {
		running = running || m.intent.Want != intent.Stopped
		res.Topics = append(res.Topics, topic(m, all, ts, details))
	}
	if running {
		res.Notes = append(res.Notes, fenceNote(all))
	}
	res.Groups = s.groupNumbers(ctx, all)
	if s.o.Preflight != nil {
		res.Warnings = append(res.Warnings, s.o.Preflight(ctx)...)
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	return res.end()
}

// What is said before a failover, when it can still be a promotion. In checkpoint mode
// there is no way back that the fence could be in.
const (
	noteFence   = "a failover writes a fence into partitions that no living worker confirms, which takes an offset"
	noteWayHome = noteFence + "; and reverse goes on in place only where the old source has nothing visible at that offset and lets klink write markers"
)

func fenceNote(all []*fate) string {
	for _, f := range all {
		if f.facts.copies == nil {
			return noteWayHome
		}
	}
	return noteFence
}
