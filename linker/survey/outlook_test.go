package survey

import (
	"math"
	"slices"
	"strings"
	"testing"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/plan"
)

func bounds(start, end int64) feed.Bounds {
	return feed.Bounds{LogStart: start, LastStable: end, HighWatermark: end, LogEnd: end}
}

func TestBegin(t *testing.T) {
	pad, halt := plan.Policy{PadLimit: 1000, Overrun: plan.PadOverrun}, plan.Policy{PadLimit: 1000}
	fresh := func(start, end, from int64) position {
		return position{src: bounds(start, end), from: from, goal: feed.Unknown}
	}
	there := func(start, end, dstStart, dstEnd int64) position {
		p := fresh(start, end, start)
		p.dstStart, p.dstEnd = dstStart, dstEnd
		return p
	}
	of := func(p position, edit func(*position)) position { edit(&p); return p }
	mirrored := func(p *position) { p.mirrored = true }
	for name, c := range map[string]struct {
		pos      position
		policy   plan.Policy
		at, pads int64
		obstacle string
	}{
		"all from 0":                   {fresh(0, 50, 0), halt, 0, 0, ""},
		"later start":                  {fresh(20, 50, 20), halt, 20, 20, ""},
		"latest":                       {fresh(20, 50, 50), halt, 50, 50, ""},
		"from the middle":              {fresh(0, 50, 40), halt, 40, 40, ""},
		"beyond the limit":             {fresh(2000, 3000, 2000), halt, 0, 0, "above pad_limit, which is 1000"},
		"mirrored in part":             {of(there(0, 50, 0, 30), mirrored), halt, 30, 0, ""},
		"mirrored, then trimmed":       {of(there(20, 50, 20, 30), mirrored), halt, 30, 0, ""},
		"somebody's":                   {there(0, 50, 0, 30), halt, 30, 0, ""},
		"overtaken":                    {of(there(40, 50, 0, 30), mirrored), halt, 0, 0, "the source deleted offsets 30 to 39"},
		"overtaken and padded over":    {of(there(40, 50, 0, 30), mirrored), pad, 40, 10, ""},
		"overtaken by more than limit": {of(there(4000, 4001, 0, 30), mirrored), pad, 0, 0, "above pad_limit"},
		"overtaken, and not ours":      {there(40, 50, 0, 30), pad, 0, 0, "nothing says that this link wrote it"},
		"beyond the source's end":      {there(0, 50, 0, 51), halt, 0, 0, "beyond the source's end 50"},
		"other data":                   {of(there(0, 50, 0, 30), func(p *position) { p.unlike = "other" }), halt, 0, 0, "other"},
		"padding goes on":              {of(there(40, 50, 0, 30), func(p *position) { p.goal = 40 }), halt, 40, 10, ""},
		"padded and mirrored":          {of(there(40, 50, 40, 45), func(p *position) { p.goal, p.padded, p.mirrored = 40, true, true }), halt, 45, 0, ""},
		"padded, then overtaken":       {of(there(48, 50, 40, 45), func(p *position) { p.goal, p.padded, p.mirrored = 40, true, true }), pad, 48, 3, ""},
	} {
		b := begin(c.pos, c.policy)
		if c.obstacle != "" {
			if !strings.Contains(b.obstacle, c.obstacle) {
				t.Errorf("%s: %+v", name, b)
			}
			continue
		}
		if b.at != c.at || b.pads != c.pads || b.obstacle != "" {
			t.Errorf("%s: %+v, want %d after %d pads", name, b, c.at, c.pads)
		}
	}
}

func TestJudgePartition(t *testing.T) {
	markers := means{policy: plan.Policy{Gaps: plan.FillMarkers}, mark: Yes, trim: Yes}
	with := func(edit func(*means)) means { m := markers; edit(&m); return m }
	gap := func(r ledger.Reason) Amount { return Amount{Gaps: map[ledger.Reason]int64{r: 3}, GapRuns: 1} }
	for name, c := range map[string]struct {
		b    beginning
		a    Amount
		m    means
		want Outlook
		why  string
	}{
		"plain":                         {beginning{}, Amount{}, markers, Raw, ""},
		"markers":                       {beginning{}, gap(ledger.Marker), markers, Raw, "gaps: transaction markers"},
		"no right to markers":           {beginning{}, gap(ledger.Marker), with(func(m *means) { m.mark = No }), Refuse, "markers need Alter"},
		"no right, checkpoint":          {beginning{}, gap(ledger.Marker), with(func(m *means) { m.mark, m.otherwise = No, OtherwiseCheckpoint }), Checkpoint, "markers need Alter"},
		"no right, skip":                {beginning{}, gap(ledger.Marker), with(func(m *means) { m.mark, m.otherwise = No, OtherwiseSkip }), Refuse, "left out"},
		"right not known":               {beginning{}, gap(ledger.Aborted), with(func(m *means) { m.mark = Unknown }), Raw, "klink probe tells"},
		"gap_fill: halt":                {beginning{}, gap(ledger.Marker), with(func(m *means) { m.policy.Gaps = plan.FillHalt }), Refuse, "gap_fill: halt"},
		"records, compacted":            {beginning{}, gap(ledger.Compacted), with(func(m *means) { m.policy.Gaps, m.compacted = plan.FillRecords, true }), Raw, "repeated there"},
		"records, not compacted":        {beginning{}, gap(ledger.Marker), with(func(m *means) { m.policy.Gaps = plan.FillRecords }), Refuse, "compacted topics only"},
		"a hole without compaction":     {beginning{}, gap(ledger.Compacted), markers, Refuse, "CORRUPT"},
		"a hole, was compacted once":    {beginning{}, Amount{Gaps: gap(ledger.Compacted).Gaps, Cleaned: true}, markers, Raw, "gaps: compaction"},
		"recode":                        {beginning{}, Amount{Recoded: 1}, markers, Recode, "holes, an old format"},
		"pad":                           {beginning{pads: 5, reason: "begins at 5"}, Amount{Recoded: 1}, markers, PadFirst, "begins at 5"},
		"pad without Delete":            {beginning{pads: 5}, Amount{}, with(func(m *means) { m.trim = No }), Refuse, "needs Delete"},
		"pad, Delete not known":         {beginning{pads: 5}, Amount{}, with(func(m *means) { m.trim = Unknown }), PadFirst, "is not known"},
		"an obstacle":                   {beginning{obstacle: "beyond"}, Amount{}, markers, Refuse, "beyond"},
		"too late for checkpoint":       {beginning{obstacle: "beyond"}, Amount{}, with(func(m *means) { m.otherwise, m.mirrored = OtherwiseCheckpoint, true }), Refuse, "stays in mirror mode"},
		"an obstacle, checkpoint":       {beginning{obstacle: "beyond"}, Amount{}, with(func(m *means) { m.otherwise = OtherwiseCheckpoint }), Checkpoint, "beyond"},
		"what is there is compared":     {beginning{at: 5, reason: "compared"}, Amount{}, markers, Raw, "compared"},
		"most frequent gaps come first": {beginning{}, Amount{Gaps: map[ledger.Reason]int64{ledger.Marker: 1, ledger.Aborted: 9}}, markers, Raw, "gaps: aborted records, transaction markers"},
	} {
		got, why := judge(c.b, c.a, c.m)
		if got != c.want || c.why == "" && len(why) > 0 || !strings.Contains(strings.Join(why, "\n"), c.why) {
			t.Errorf("%s: %s, %q", name, got, why)
		}
	}
}

func TestWorst(t *testing.T) {
	for i, a := range outlooks {
		for j, b := range outlooks {
			if got := worst(a, b); got != outlooks[max(i, j)] {
				t.Errorf("%s and %s: %s", a, b, got)
			}
		}
	}
}

func TestSeconds(t *testing.T) {
	rate := func(f float64) *float64 { return &f }
	p := Pace{Rates: Rates{AppendBytes: rate(1e6), Markers: rate(100), MarkersBulk: rate(1000), PadOffsets: rate(1e5)}}
	gaps := func(n int64) map[ledger.Reason]int64 { return map[ledger.Reason]int64{ledger.Marker: n} }
	for name, c := range map[string]struct {
		a    Amount
		pads int64
		want float64
	}{
		"nothing":            {Amount{}, 0, 0},
		"padding":            {Amount{}, 1e6, 10},
		"large batches":      {Amount{Bytes: 5e6, Appends: 10}, 0, 7.5},
		"tiny batches":       {Amount{Bytes: 5e5, Appends: 1000}, 0, 15},
		"single markers":     {Amount{Gaps: gaps(100), GapRuns: 100}, 0, 2.5},
		"one long gap":       {Amount{Gaps: gaps(10_001), GapRuns: 1}, 0, 10.025},
		"recoded":            {Amount{Bytes: 1e6, Appends: 1, Recoded: 1e6}, 0, 1.52},
		"all of it together": {Amount{Bytes: 1e6, Appends: 1, Gaps: gaps(100), GapRuns: 100}, 1e5, 5},
	} {
		if got := p.seconds(c.a, c.pads); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if a := Assumed(); a.MeasuredAt != nil || a.seconds(Amount{Bytes: 1}, 1) <= 0 {
		t.Errorf("%+v", a)
	}
	r := ProbeResult{AsOf: asOf, Rates: Rates{Markers: rate(7)}}
	if m := Measured(r, asOf.Add(90e9)); *m.Markers != 7 || *m.PadOffsets != assumedPadOffsets || *m.AgeSeconds != 90 || !m.MeasuredAt.Equal(asOf) || r.Rates.PadOffsets != nil {
		t.Errorf("%+v", m)
	}
}

func TestPlaceBytes(t *testing.T) {
	for partitions, want := range map[int]int32{0: mostPlaceBytes, 1: mostPlaceBytes, 256: mostPlaceBytes, 1000: 1 << 30 / 16 / 1000, 100_000: leastPlaceBytes} {
		if got := placeBytes(sampleBytes, partitions); got != want {
			t.Errorf("%d partitions: %d, want %d", partitions, got, want)
		}
	}
}

func TestConclude(t *testing.T) {
	x := TopicPlan{Verdict: Raw, Reasons: []string{}, Partitions: []PartitionPlan{
		{Verdict: Recode, Reasons: []string{"a", "b"}}, {Verdict: Refuse, Reasons: []string{"b", "c"}}, {Verdict: Raw}}}
	if x.conclude(); x.Verdict != Refuse || !slices.Equal(x.Reasons, []string{"a", "b", "c"}) {
		t.Errorf("%+v", x)
	}
}
