package survey

import (
	"math"

	"klink/linker/ledger"
	"klink/linker/plan"
)

// Tally is what a stretch of a source log holds, and what mirroring it takes as
// package plan decides it.
type Tally struct {
	// From and End are the offsets covered, [From, End).
	From, End int64
	// Bytes are those of batches with visible records, Appends the batches they
	// become, Recoded the bytes among them that are written anew.
	Bytes, Appends, Recoded int64
	// Gaps are the offsets without a visible record by reason, GapRuns the
	// stretches of neighbouring ones.
	Gaps    map[ledger.Reason]int64
	GapRuns int64
	// Cleaned: a cleaner has been at work in the log.
	Cleaned bool
	// FirstTime is the newest record's time, in ms, of the first batch that has
	// one; -1 without any.
	FirstTime int64
}

// wholeGaps lets a gap of any length be one step.
const wholeGaps = math.MaxInt64 / 4

// count tallies entries from offset next on. Filling with markers, and a cleaner
// that may have run, is what covers every shape; whether the link may do so is
// judged by what comes out.
func count(next int64, entries []plan.Entry, lim plan.Limits) Tally {
	lim.MaxFillOffsets = wholeGaps
	pol := plan.Policy{Gaps: plan.FillMarkers, Compaction: plan.Compacted}
	t := Tally{From: next, End: next, Gaps: map[ledger.Reason]int64{}, FirstTime: firstTime(entries),
		Cleaned: plan.ShowsCompaction(entries) == plan.Compacted}
	for len(entries) > 0 {
		s := plan.Next(t.End, entries, pol, lim)
		switch s.Kind {
		case plan.Drop:
		case plan.Fill:
			t.GapRuns++
			for _, r := range s.Runs {
				t.Gaps[r.Reason] += r.Count
			}
		case plan.Append, plan.Merge, plan.Recode:
			t.carry(s, entries[:s.Entries])
		default:
			return t // nothing that is known to come, and not for this to judge
		}
		t.End = max(t.End, s.End)
		entries = entries[s.Entries:]
	}
	return t
}

// carry adds entries that hold records.
func (t *Tally) carry(s plan.Step, entries []plan.Entry) {
	t.Appends++
	for i := range entries {
		e := &entries[i]
		t.Bytes += int64(e.SizeBytes)
		if s.Kind != plan.Recode {
			continue
		}
		t.Recoded += int64(e.SizeBytes)
		if h := e.Header; !e.Old && h.HasHoles() {
			holes := int64(h.LastOffsetDelta) + 1 - int64(h.Count)
			t.Gaps[ledger.Compacted] += holes
			// At most a hole before, between and after the records.
			pieces := min(holes, int64(h.Count)+1)
			t.GapRuns += pieces
			t.Appends += pieces - 1
		}
	}
}

func firstTime(entries []plan.Entry) int64 {
	for i := range entries {
		if e := &entries[i]; !e.Old && e.Header.Count > 0 && e.Header.MaxTimestamp >= 0 {
			return e.Header.MaxTimestamp
		}
	}
	return -1
}

// add joins the tally of the stretch right behind.
func (t *Tally) add(b Tally) {
	if t.Gaps == nil {
		*t = b
		return
	}
	t.End, t.Cleaned = b.End, t.Cleaned || b.Cleaned
	t.Bytes, t.Appends, t.Recoded, t.GapRuns = t.Bytes+b.Bytes, t.Appends+b.Appends, t.Recoded+b.Recoded, t.GapRuns+b.GapRuns
	for r, n := range b.Gaps {
		t.Gaps[r] += n
	}
	if t.FirstTime < 0 {
		t.FirstTime = b.FirstTime
	}
}

// stratum is a part of a log, [From, End), with the stretch of it that was read.
type stratum struct {
	From, End int64
	Seen      Tally
}

// whole tells whether all of it was read.
func (s stratum) whole() bool { return s.Seen.From == s.From && s.Seen.End == s.End }

// Amount is what is left to mirror of a partition.
type Amount struct {
	// Estimated: not all of it was read.
	Estimated               bool
	Bytes, Appends, Recoded int64
	Gaps                    map[ledger.Reason]int64
	GapRuns                 int64
	Cleaned                 bool
	// GapsPerSecond is how fast gaps have been coming of late, -1 where it is not
	// known.
	GapsPerSecond float64
}

// GapOffsets is the number of offsets without a visible record.
func (a Amount) GapOffsets() (n int64) {
	for _, c := range a.Gaps {
		n += c
	}
	return n
}

// extrapolate takes what was read of each stratum for the whole of it: logs are
// alike over short stretches and may change over long ones. One of which nothing
// could be read holds nothing but a gap, since a read returns whatever lies above
// an offset. now is in ms.
func extrapolate(strata []stratum, now int64) Amount {
	a := Amount{Gaps: map[ledger.Reason]int64{}, GapsPerSecond: -1}
	for i, s := range strata {
		length := s.End - s.From
		seen := s.Seen.End - s.Seen.From
		if !s.whole() {
			a.Estimated = true
		}
		a.Cleaned = a.Cleaned || s.Seen.Cleaned
		if seen <= 0 {
			a.Gaps[ledger.Compacted] += length
			a.GapRuns++
			continue
		}
		scale := func(n int64) int64 { return int64(math.Round(float64(n) * float64(length) / float64(seen))) }
		a.Bytes += scale(s.Seen.Bytes)
		a.Appends += scale(s.Seen.Appends)
		a.Recoded += scale(s.Seen.Recoded)
		a.GapRuns += scale(s.Seen.GapRuns)
		var gaps int64
		for r, n := range s.Seen.Gaps {
			a.Gaps[r] += scale(n)
			gaps += scale(n)
		}
		if i == len(strata)-1 && s.Seen.FirstTime >= 0 && now > s.Seen.FirstTime {
			a.GapsPerSecond = float64(gaps) * 1000 / float64(now-s.Seen.FirstTime)
		}
	}
	return a
}
