package survey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/plan"
)

// Outlook is how a partition, or a topic, would be mirrored.
type Outlook string

// The outlooks, from good to bad; a topic has the worst of its partitions'.
const (
	// Raw: batches go as they are.
	Raw Outlook = "raw"
	// Recode: some batches are written anew, record by record.
	Recode Outlook = "recode"
	// PadFirst: the target is padded up to where the mirror begins.
	PadFirst Outlook = "pad"
	// Checkpoint: offsets cannot be kept, and the link says checkpoint mode then.
	Checkpoint Outlook = "checkpoint"
	// Refuse: it would halt, wait or be left out.
	Refuse Outlook = "refuse"
)

var outlooks = []Outlook{Raw, Recode, PadFirst, Checkpoint, Refuse}

func worst(a, b Outlook) Outlook {
	return outlooks[max(slices.Index(outlooks, a), slices.Index(outlooks, b), 0)]
}

// Otherwise is what a link does with topics that cannot keep their offsets.
type Otherwise string

// The ways of the configuration key on_unmirrorable.
const (
	OtherwiseHalt       Otherwise = "halt"
	OtherwiseCheckpoint Otherwise = "checkpoint"
	OtherwiseSkip       Otherwise = "skip"
)

// means are what the link wants and what its principal may do.
type means struct {
	policy    plan.Policy
	otherwise Otherwise
	// mark: markers may be written; trim: records of the topic may be deleted.
	mark, trim Answer
	// compacted: the source's cleanup.policy includes compact now.
	compacted bool
	// mirrored: the link has mirrored some of the topic, so that its mode stays.
	mirrored bool
}

// position is what is known of both ends of a mirror before the source's log is
// read.
type position struct {
	src feed.Bounds
	// dstStart and dstEnd are 0 where the target has no such partition.
	dstStart, dstEnd int64
	// from is the offset that the link's start leads to.
	from int64
	// goal is the offset up to which the target is padded by its record,
	// feed.Unknown without one; padded says that it was reached once.
	goal   int64
	padded bool
	// mirrored: the link has mirrored this partition before.
	mirrored bool
	// unlike says in what the target's records are not the source's, "" where nothing
	// shows that.
	unlike string
}

// beginning is where a mirror begins or goes on.
type beginning struct {
	// at is the first offset to be mirrored, pads how many are padded before it.
	at, pads int64
	// obstacle is not "" where it cannot begin.
	obstacle string
	// reason says why there are pads, or what else is to be known.
	reason string
}

// begin finds the offset at which a mirror begins, by the same rules as the
// mirror itself.
func begin(p position, pol plan.Policy) beginning {
	known := p.goal != feed.Unknown
	below := p.dstEnd > 0 && p.dstEnd < p.src.LogStart
	srcEnd := max(p.src.LogEnd, p.src.HighWatermark)
	var s plan.Step
	switch {
	case p.dstEnd > srcEnd:
		return beginning{obstacle: fmt.Sprintf("the target ends at %d, beyond the source's end %d: what lies there is not of this source", p.dstEnd, srcEnd)}
	case p.unlike != "":
		return beginning{obstacle: p.unlike}
	case below && (p.padded || !known && p.mirrored):
		s = plan.Overrun(p.dstEnd, p.src.LogStart, pol)
	case below && !known:
		return beginning{obstacle: fmt.Sprintf("the target ends at %d, below the source's start %d, and nothing says that this link wrote it", p.dstEnd, p.src.LogStart)}
	case p.dstEnd > 0 && !known:
		s = plan.Step{Kind: plan.Wait, Base: p.dstEnd}
	default:
		s = plan.StartAt(plan.Start{SrcStart: p.src.LogStart, SrcEnd: p.src.LastStable, From: p.from,
			DstStart: p.dstStart, DstEnd: p.dstEnd, Goal: p.goal}, pol)
	}
	switch s.Kind {
	case plan.Halt:
		return beginning{obstacle: s.Detail}
	case plan.Pad:
		return beginning{at: s.End, pads: s.End - s.Base, reason: fmt.Sprintf("the mirror begins at offset %d", s.End)}
	case plan.PadOver:
		return beginning{at: s.End, pads: s.End - s.Base, reason: fmt.Sprintf("the source deleted offsets %d to %d before they were mirrored", s.Base, s.End-1)}
	}
	b := beginning{at: p.dstEnd}
	switch {
	case p.dstEnd == 0:
	case p.mirrored:
		b.reason = fmt.Sprintf("mirrored up to offset %d already", p.dstEnd-1)
	default:
		b.reason = fmt.Sprintf("the target has offsets up to %d already, which are compared with the source's", p.dstEnd-1)
	}
	return b
}

// judge says how a partition would be mirrored, and why not better.
func judge(b beginning, a Amount, m means) (Outlook, []string) {
	if b.obstacle != "" {
		return m.unmirrorable(b.obstacle)
	}
	var reasons []string
	if b.reason != "" {
		reasons = append(reasons, b.reason)
	}
	out := Raw
	if a.Recoded > 0 {
		out = Recode
		reasons = append(reasons, "some batches have holes, an old format, or times set by the broker")
	}
	if b.pads > 0 {
		out = PadFirst
		switch m.trim {
		case No:
			return m.unmirrorable("padding needs Delete on the target topic")
		case Unknown:
			reasons = append(reasons, "whether records of the target topic may be deleted is not known; without it padding cannot end")
		}
	}
	if a.GapOffsets() == 0 {
		return out, reasons
	}
	what := "gaps: " + gapKinds(a.Gaps)
	if a.Gaps[ledger.Compacted] > 0 && !m.compacted && !a.Cleaned {
		return Refuse, append(reasons, what+", though nothing shows that the topic was ever compacted: halts as CORRUPT")
	}
	switch {
	case m.policy.Gaps == plan.FillMarkers && m.mark == No:
		return m.unmirrorable(what + "; markers need Alter (or ClusterAction) on the target's cluster")
	case m.policy.Gaps == plan.FillMarkers && m.mark == Unknown:
		reasons = append(reasons, what+"; whether markers may be written is not known: klink probe tells")
	case m.policy.Gaps == plan.FillRecords && !m.compacted && !a.Cleaned:
		return m.unmirrorable(what + "; gap_fill: records is for compacted topics only")
	case m.policy.Gaps == plan.FillRecords:
		reasons = append(reasons, what+"; consumers of the target see the next record repeated there")
	case m.policy.Gaps == plan.FillHalt:
		return m.unmirrorable(what + "; gap_fill: halt")
	default:
		reasons = append(reasons, what)
	}
	return out, reasons
}

// unmirrorable is the way of a partition that cannot keep its offsets.
func (m means) unmirrorable(why string) (Outlook, []string) {
	switch {
	case m.otherwise == OtherwiseCheckpoint && m.mirrored:
		return Refuse, []string{why + "; the topic was mirrored in part already, and stays in mirror mode (klink repair --recreate begins anew)"}
	case m.otherwise == OtherwiseCheckpoint:
		return Checkpoint, []string{why}
	case m.otherwise == OtherwiseSkip:
		return Refuse, []string{why + "; left out (on_unmirrorable: skip)"}
	}
	return Refuse, []string{why}
}

// gapKinds names the reasons of gaps, the most frequent first.
func gapKinds(gaps map[ledger.Reason]int64) string {
	names := map[ledger.Reason]string{ledger.Marker: "transaction markers", ledger.Aborted: "aborted records", ledger.Compacted: "compaction"}
	kinds := slices.SortedFunc(maps.Keys(gaps), func(a, b ledger.Reason) int {
		if gaps[a] != gaps[b] {
			return int(min(1, max(-1, gaps[b]-gaps[a])))
		}
		return int(a) - int(b)
	})
	var out []string
	for _, r := range kinds {
		if n, ok := names[r]; ok && gaps[r] > 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}
