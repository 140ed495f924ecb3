package pad

import (
	"math/rand/v2"
	"testing"
	"time"

	"klink/linker/ledger"
)

// topic is one whose partitions are padded side by side.
type topic struct {
	policy string
	parts  []*part
	now    time.Time
}

type part struct {
	rec        Record
	start, end int64
	goal       int64
	seen       *Seen // what the last look saw; nil: it looks first
}

func (t *topic) siblings(of *part) (s Siblings) {
	for _, p := range t.parts {
		if p == of || p.rec.Stage == StageNone || p.rec.Done {
			continue
		}
		s.NeedPolicy = s.NeedPolicy || p.rec.NeedsPolicy()
		if p.rec.RestorePolicy != "" {
			s.RestorePolicy = p.rec.RestorePolicy
		}
	}
	return s
}

// step lets one partition look, or act by what it saw when it last looked.
func (t *topic) step(p *part, set Settings) {
	if p.seen == nil {
		p.seen = &Seen{Start: p.start, HighWatermark: p.end, End: p.end, Policy: t.policy, Siblings: t.siblings(p), Now: t.now}
		return
	}
	s := Next(padded(p.goal), p.rec, *p.seen, set)
	p.seen.Now = t.now
	switch s.Kind {
	case Put:
		p.rec = s.Record
		p.seen.Siblings = t.siblings(p) // as the driver does
		return
	case SetPolicy:
		t.policy = s.Policy
	case Append:
		if t.policy == policyDelete {
			p.end += int64(s.Piece.Count)
		}
	case Trim:
		if t.policy == policyDelete {
			p.start = max(p.start, s.To)
		}
	case AwaitCheckpoints:
		t.now = t.now.Add(s.For)
	}
	p.seen = nil
}

func (t *topic) done() bool {
	for _, p := range t.parts {
		if !p.rec.Done {
			return false
		}
	}
	return true
}

// TestSiblings: partitions of one topic in any order of steps, each of which acts
// on what it saw some steps ago. All get to their goals, and the last one puts the
// policy back, once and for all.
func TestSiblings(t *testing.T) {
	set := quick()
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		top := &topic{policy: "compact", now: time.Unix(1_000_000, 0)}
		for range 2 + rnd.IntN(2) {
			top.parts = append(top.parts, &part{goal: 1 + rnd.Int64N(20)})
		}
		steps := 0
		for ; !top.done(); steps++ {
			if steps > 5000 {
				t.Fatalf("seed %d: it never ends: policy %q, %+v", seed, top.policy, top.parts[0])
			}
			p := top.parts[rnd.IntN(len(top.parts))]
			for range 1 + rnd.IntN(12) { // one of them may get far while others stand
				top.step(p, set)
			}
			if rnd.IntN(30) == 0 {
				p.seen = nil // a crash
			}
		}
		if top.policy != "compact" {
			t.Fatalf("seed %d: policy %q at the end of %d steps", seed, top.policy, steps)
		}
		for _, p := range top.parts {
			if p.start != p.goal || p.end != p.goal || p.rec.Reason != ledger.Padded {
				t.Fatalf("seed %d: log %d to %d, goal %d", seed, p.start, p.end, p.goal)
			}
		}
	}
}
