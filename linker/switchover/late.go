package switchover

import (
	"context"
	"fmt"
	"time"

	"klink/fetcher/feed"
	"klink/linker/intent"
)

// lateRecords is the Topic.Reason of what was promoted and of which the source took
// in more after the cut (X10).
const lateRecords = "LATE_RECORDS"

// hintLate is the hint of lateRecords, which is no reason of a partition.
const hintLate = "stop the producers that still write to the source; what they wrote lies there alone, where consumers can read it, and klink reverse --dry-run shows it as a tail"

// lastLook asks the source once more for those of some partitions that are promoted,
// now that nothing can be done about it: also of a promotion of long ago (X10). They
// were measured.
func (x *promRun) lastLook(ctx context.Context, fs []*fate) {
	var mine []*fate
	for _, f := range fs {
		if f.m.stoppedBy(intent.Promote) != "" {
			mine = append(mine, f)
		}
	}
	if len(mine) == 0 {
		return
	}
	ends, now, err := x.sourceEnds(ctx, mine)
	why := ""
	for _, f := range mine {
		src, ok := ends[f.source()]
		trouble := f.after(src, ok, now)
		if trouble != "" && why == "" {
			why = fmt.Sprintf("%s/%d: %s", f.m.SourceTopic, f.n, trouble)
		}
		if n := f.late(); n > 0 {
			f.facts.details = append(f.facts.details, fmt.Sprintf("the source took in %s after the cut", counted(n, "record")))
			x.troubles.first(f.m.SourceTopic, lateRecords, fmt.Errorf("the source took in records after the cut, which the target does not have"))
		}
	}
	if err != nil {
		why = fmt.Sprintf("the source does not answer: %v", err)
	}
	if why != "" {
		x.m.notes = append(x.m.notes, "whether the source took in more after the cut is not known: "+why)
	}
}

// after takes what the source says of its end after the cut, and says why that tells
// nothing, "" where it does. What waits for a transaction to end counts, too.
func (f *fate) after(src SourceEnd, ok bool, now time.Time) (trouble string) {
	f.facts.of = now
	switch {
	case !ok:
		trouble = "its end on the source is not known"
	case src.Err != nil:
		trouble = fmt.Sprintf("its end on the source is not known: %v", src.Err)
	case src.ID != f.m.SourceID && !src.ID.IsZero() && !f.m.SourceID.IsZero():
		trouble = "the source topic was deleted and made anew"
	case f.cut == nil:
		trouble = "where it was cut is not on record"
	case f.facts.mirroredSource() == feed.Unknown:
		trouble = "its end on the target is not known"
	case f.cut.SourceEnd == nil || f.facts.mirroredSource() < *f.cut.SourceEnd: // equal by X1
		trouble = "what is on record of it does not lead up to its cut"
	}
	if f.facts.unasked = trouble != ""; f.facts.unasked {
		return trouble
	}
	f.facts.seen.stable, f.facts.seen.high, f.facts.seen.at = &src.End, &src.End, now
	return ""
}

// late is how many records of the source came after the cut, 0 also where that is not
// known.
func (f *fate) late() int64 {
	if lost := f.facts.numbers().RecordsLost; lost != nil {
		return *lost
	}
	return 0
}

// promoted tells of the result of a promotion that is on record whether all is as it
// should be: nil, a *LateError, an *ItemsFailedError or both.
func promoted(r Result) error {
	late, failed := LateError{}, ItemsFailedError{Of: len(r.Topics)}
	for _, t := range r.Topics {
		if !t.OK && t.Reason != lateRecords {
			failed.Failed++
		}
		before := late.Records
		for _, p := range t.Partitions {
			if p.RecordsLost != nil {
				late.Records += *p.RecordsLost
			}
		}
		if late.Records > before {
			late.Topics++
		}
	}
	switch {
	case late.Records > 0 && failed.Failed > 0:
		return fmt.Errorf("%w; %w", &failed, &late)
	case late.Records > 0:
		return &late
	case failed.Failed > 0:
		return &failed
	}
	return nil
}
