package survey

import (
	"slices"
	"strings"
)

// Verdict is whether mirror mode works on a target.
type Verdict string

// The verdicts.
const (
	// Full: everything klink relies on holds.
	Full Verdict = "full"
	// Limited: plain topics keep their offsets; what does not work is listed.
	Limited Verdict = "limited"
	// None: no topic can keep its offsets.
	None Verdict = "none"
	// Undecided: what is essential could not be found out.
	Undecided Verdict = "unknown"
)

// Works reports whether mirror mode is known to work, be it with limits.
func (v Verdict) Works() bool { return v == Full || v == Limited }

// Limit is something that mirror mode does not do, or is not known to do, on a
// target.
type Limit struct {
	// Without names it in a word or two.
	Without string `json:"without"`
	// Means says what follows for a mirror.
	Means string `json:"means"`
	// Because lists the facts that do not hold or are not known.
	Because []Fact `json:"because"`
	// Known is false where it may work after all.
	Known bool   `json:"known"`
	Hint  string `json:"hint"`
}

// Judgement is what follows from the findings.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	// Summary is one sentence.
	Summary string  `json:"summary"`
	Limits  []Limit `json:"limits"`
	// MissingRights are sorted and without repetition.
	MissingRights []string `json:"missing_rights"`
}

// need is a part of mirror mode with the facts it rests on.
type need struct {
	without   string
	essential bool
	facts     []Fact
	means     string
	// hint is for a target that does not do it, grant for a missing right.
	hint, grant string
}

const (
	grantMarkers = "grant Alter (or ClusterAction) on the cluster to klink's principal"
	grantDelete  = "grant Delete on the mirrored topics to klink's principal"
	grantBasics  = "grant Describe, Read and Write on the mirrored topics to klink's principal"
	tryAgain     = "see the facts for what stood in the way, and run klink probe again"
	otherBroker  = "the target does not do this as Apache Kafka does"
)

// needs is the whole table from facts to verdict.
var needs = []need{
	{"placing records", true, []Fact{AppendBase, AppendRaw}, "records cannot be put at their offsets",
		otherBroker + ": it changes what is appended, or hides where", grantBasics},
	{"guarded appends", true, []Fact{SequenceChecked, DuplicateAnswered},
		"a repeated or reordered append could be written twice or in the wrong place", otherBroker, grantBasics},
	{"the log end", true, []Fact{LogEndExact}, "after a lost answer klink could not tell where to go on",
		"OffsetForLeaderEpoch v3 (Kafka 2.3) or later is needed", grantBasics},
	{"gaps", false, []Fact{MarkersAllowed, MarkersCounted, MarkersOrdered, MarkersInvisible, SequenceAfterMarkers},
		"a partition with transactions, compaction or another gap halts there, or goes the way of on_unmirrorable",
		otherBroker, grantMarkers},
	{"fences", false, []Fact{MarkersAllowed, FenceHolds}, "a failover waits for the end of klink's session and cannot shut out what is under way",
		otherBroker, grantMarkers},
	{"later starts", false, []Fact{PadsTaken, TrimMovesStart, StartKept}, "a partition whose log starts above 0 cannot be mirrored",
		otherBroker, grantDelete},
	{"following the log start", false, []Fact{TrimMovesStart}, "what the source deletes stays on the target",
		otherBroker, grantDelete},
	{"guarded restarts", false, []Fact{ProducersListed}, "after a restart the first append of a partition may not be guarded by its sequence",
		"DescribeProducers (Kafka 2.8) or later is needed", "grant Read on the mirrored topics to klink's principal"},
	{"changing settings", false, []Fact{SettingsChangeable}, "settings of target topics that exist already are not put right, nor put back at a promotion",
		"IncrementalAlterConfigs (Kafka 2.3) or later is needed", "grant AlterConfigs on the mirrored topics to klink's principal"},
}

// Judge says what follows from what was found. Facts without a finding are
// unknown.
func Judge(found []Finding) Judgement {
	j := Judgement{Verdict: Full, Limits: []Limit{}, MissingRights: []string{}}
	found = Complete(found)
	for _, n := range needs {
		l, holds := n.look(found)
		if holds == Yes {
			continue
		}
		j.Limits = append(j.Limits, l)
		j.Verdict = worse(j.Verdict, n.verdict(holds))
	}
	for _, f := range found {
		if f.MissingRight != "" {
			j.MissingRights = append(j.MissingRights, f.MissingRight)
		}
	}
	slices.Sort(j.MissingRights)
	j.MissingRights = slices.Compact(j.MissingRights)
	j.Summary = j.summarize()
	return j
}

// look returns the worst answer among the facts of a need; one whose right is
// missing does not hold for as long as it is.
func (n need) look(found []Finding) (Limit, Answer) {
	l := Limit{Without: n.without, Means: n.means, Because: []Fact{}, Hint: n.hint}
	holds := Yes
	for _, f := range found {
		if !slices.Contains(n.facts, f.Fact) || f.Holds == Yes {
			continue
		}
		l.Because = append(l.Because, f.Fact)
		if f.MissingRight != "" {
			l.Hint = n.grant
		}
		if f.Holds == No || f.MissingRight != "" {
			holds, l.Known = No, true
		} else if holds == Yes {
			holds = Unknown
		}
	}
	if !l.Known {
		l.Hint = tryAgain
	}
	return l, holds
}

func (n need) verdict(holds Answer) Verdict {
	switch {
	case !n.essential:
		return Limited
	case holds == No:
		return None
	default:
		return Undecided
	}
}

// worse returns the worse of two verdicts: one essential fact that does not hold
// outweighs others that are not known.
func worse(a, b Verdict) Verdict {
	order := []Verdict{Full, Limited, Undecided, None}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

func (j Judgement) summarize() string {
	var known, open []string
	for _, l := range j.Limits {
		if l.Known {
			known = append(known, l.Without)
		} else {
			open = append(open, l.Without)
		}
	}
	switch j.Verdict {
	case Full:
		return "mirror mode works fully"
	case None:
		if len(j.MissingRights) > 0 {
			return "mirror mode cannot work here before the missing rights are granted"
		}
		return "mirror mode cannot work here"
	case Undecided:
		return "whether mirror mode works here could not be found out"
	}
	s := "mirror mode works"
	if len(known) > 0 {
		s += ", without " + strings.Join(known, ", ")
	}
	if len(open) > 0 {
		s += "; not found out: " + strings.Join(open, ", ")
	}
	return s
}
