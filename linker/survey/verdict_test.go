package survey

import (
	"encoding/json"
	"slices"
	"testing"
)

// allBut returns findings in which everything holds but what is given.
func allBut(others ...Finding) []Finding {
	var out []Finding
	for _, known := range facts {
		i := slices.IndexFunc(others, func(f Finding) bool { return f.Fact == known.fact })
		if i >= 0 {
			out = append(out, others[i])
			continue
		}
		out = append(out, Finding{Fact: known.fact, Holds: Yes})
	}
	return out
}

func no(f Fact) Finding              { return Finding{Fact: f, Holds: No} }
func open(f Fact) Finding            { return Finding{Fact: f} }
func lacks(f Fact, r string) Finding { return Finding{Fact: f, Holds: No, MissingRight: r} }

func TestJudge(t *testing.T) {
	const alter, read = "Alter on the cluster", "Read on topic x"
	for name, c := range map[string]struct {
		found   []Finding
		verdict Verdict
		summary string
		without []string
		rights  []string
	}{
		"all holds": {allBut(), Full, "mirror mode works fully", nil, nil},
		"nothing tried": {nil, Undecided, "whether mirror mode works here could not be found out",
			[]string{"placing records", "guarded appends", "the log end", "gaps", "fences", "later starts", "following the log start", "guarded restarts", "changing settings"}, nil},
		"no right to markers": {allBut(lacks(MarkersAllowed, alter), open(MarkersCounted), open(MarkersOrdered), open(MarkersInvisible), open(SequenceAfterMarkers), lacks(FenceHolds, alter)),
			Limited, "mirror mode works, without gaps, fences", []string{"gaps", "fences"}, []string{alter}},
		"coordinator epochs are not checked": {allBut(no(MarkersOrdered)), Limited, "mirror mode works, without gaps", []string{"gaps"}, nil},
		"no DeleteRecords":                   {allBut(no(TrimMovesStart), open(StartKept)), Limited, "mirror mode works, without later starts, following the log start", []string{"later starts", "following the log start"}, nil},
		"an optional fact is open":           {allBut(open(FenceHolds)), Limited, "mirror mode works; not found out: fences", []string{"fences"}, nil},
		"one known and one open":             {allBut(open(FenceHolds), no(PadsTaken)), Limited, "mirror mode works, without later starts; not found out: fences", []string{"fences", "later starts"}, nil},
		"bytes are changed":                  {allBut(no(AppendRaw)), None, "mirror mode cannot work here", []string{"placing records"}, nil},
		"sequences are not checked":          {allBut(no(SequenceChecked)), None, "mirror mode cannot work here", []string{"guarded appends"}, nil},
		"the log end is not told":            {allBut(no(LogEndExact)), None, "mirror mode cannot work here", []string{"the log end"}, nil},
		"an essential fact is open":          {allBut(open(LogEndExact)), Undecided, "whether mirror mode works here could not be found out", []string{"the log end"}, nil},
		"one refuted outweighs one open":     {allBut(open(LogEndExact), no(AppendBase)), None, "mirror mode cannot work here", []string{"placing records", "the log end"}, nil},
		"a right for an essential fact": {allBut(Finding{Fact: AppendRaw, MissingRight: read}, lacks(ProducersListed, read)), None,
			"mirror mode cannot work here before the missing rights are granted", []string{"placing records", "guarded restarts"}, []string{read}},
		"what klink never does": {allBut(no(AppendTimeCleared)), Full, "mirror mode works fully", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			j := Judge(c.found)
			var without []string
			for _, l := range j.Limits {
				without = append(without, l.Without)
				if l.Means == "" || l.Hint == "" || len(l.Because) == 0 {
					t.Errorf("a limit that explains nothing: %+v", l)
				}
			}
			if j.Verdict != c.verdict || j.Summary != c.summary || !slices.Equal(without, c.without) || !slices.Equal(j.MissingRights, c.rights) {
				t.Errorf("got %s, %q, without %q, rights %q", j.Verdict, j.Summary, without, j.MissingRights)
			}
			if j.Verdict.Works() != (c.verdict == Full || c.verdict == Limited) {
				t.Errorf("works: %v", j.Verdict.Works())
			}
		})
	}
}

// A hint is about the right where one is missing, about the target where it does
// otherwise, and about the probe where nothing is known.
func TestHints(t *testing.T) {
	if got := Judge(allBut(lacks(MarkersAllowed, "Alter"))).Limits[0].Hint; got != grantMarkers {
		t.Error(got)
	}
	if got := Judge(allBut(no(MarkersAllowed))).Limits[0].Hint; got != otherBroker {
		t.Error(got)
	}
	if got := Judge(allBut(open(MarkersAllowed))).Limits[0].Hint; got != tryAgain {
		t.Error(got)
	}
}

// No single fact makes the verdict better, and every one but the one that is
// for information alone makes it worse (oracle over the table).
func TestEachFactCounts(t *testing.T) {
	for _, known := range facts {
		for _, f := range []Finding{no(known.fact), open(known.fact)} {
			if j := Judge(allBut(f)); (j.Verdict == Full) != (known.fact == AppendTimeCleared) {
				t.Errorf("%s %s: %s", known.fact, f.Holds, j.Verdict)
			}
		}
	}
	for _, n := range needs {
		for _, f := range n.facts {
			if !slices.ContainsFunc(facts, func(k struct {
				fact Fact
				text string
			}) bool {
				return k.fact == f
			}) {
				t.Errorf("%q rests on %q, which is no fact", n.without, f)
			}
		}
	}
}

func TestComplete(t *testing.T) {
	got := Complete([]Finding{{Fact: PadsTaken, Holds: Yes, Detail: "1000"}})
	if len(got) != len(facts) || got[0].Fact != AppendBase || got[0].Detail != "not tried" || got[0].Text == "" {
		t.Errorf("%+v", got)
	}
	if i := slices.IndexFunc(got, func(f Finding) bool { return f.Fact == PadsTaken }); got[i].Detail != "1000" || got[i].Holds != Yes {
		t.Errorf("%+v", got[i])
	}
}

func TestAnswerJSON(t *testing.T) {
	for a, want := range map[Answer]string{Yes: "true", No: "false", Unknown: "null"} {
		b, err := json.Marshal(struct{ A Answer }{a})
		if err != nil || string(b) != `{"A":`+want+`}` {
			t.Errorf("%v: %s, %v", a, b, err)
		}
		back := struct{ A Answer }{A: 7}
		if err := json.Unmarshal(b, &back); err != nil || back.A != a {
			t.Errorf("%s: %v, %v", b, back.A, err)
		}
	}
	if err := json.Unmarshal([]byte(`"x"`), new(Answer)); err == nil {
		t.Error("a word is no answer")
	}
}
