package describe

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	at    = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	srcID = feed.TopicID{1}
	dstID = feed.TopicID{2}
	pid   = appender.ProducerID("SRC", srcID, 0, 0)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// viewOf returns the view of a control topic that write has written to.
func viewOf(t testing.TB, write func(context.Context, *control.Store)) *control.View {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(t, err)
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	must(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := control.Open(ctx, control.Options{Client: cl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must(t, err)
	defer s.Close()
	ran := make(chan error, 1) // the result waits for the end
	run, stop := context.WithCancel(ctx)
	go func() { ran <- s.Run(run) }()
	write(ctx, s)
	stop()
	<-ran
	v, err := control.Read(ctx, cl)
	must(t, err)
	return v
}

// orders is the record of a topic with all that there is.
func orders(t testing.TB) func(context.Context, *control.Store) {
	return func(ctx context.Context, s *control.Store) {
		must(t, s.PutLink(ctx, control.LinkRecord{Link: "east", Mode: "mirror", SourceClusterID: "SRC", TargetClusterID: "DST", KlinkVersion: "v1", AppliedAt: at}))
		must(t, s.PutTopic(ctx, control.TopicRecord{Link: "east", SourceTopic: "orders", SourceID: srcID, TargetTopic: "x.orders", TargetID: dstID, Partitions: 2, Compacted: true,
			SourceConfigs: control.NewConfigs(map[string]control.Config{"retention.ms": {Value: "1000", Explicit: true}, "cleanup.policy": {Value: "compact"}})}))
		must(t, s.PutEpoch(ctx, control.EpochRecord{Link: "east", Topic: "orders", SourceID: srcID, Epoch: control.Epoch{Epoch: 3, First: 100}}))
		must(t, s.PutPad(ctx, control.PadRecord{Link: "east", Topic: "orders", SourceID: srcID, TargetID: dstID, Goal: 100, Reason: ledger.Padded, Stage: "restore", RestorePolicy: "compact", TrimmedAt: at, Done: true}))
		_, err := s.ReserveCounters(ctx, control.CounterRequest{Link: "east", Topic: "orders", SourceID: srcID, Owner: "w", Count: 1 << 16, Above: -1})
		must(t, err)
		x := new(ledger.Index)
		x.Add(ledger.Range{From: 0, End: 100, Reason: ledger.Padded})
		x.Add(ledger.Range{From: 120, End: 125, Reason: ledger.Marker})
		x.Advance(130)
		must(t, s.PutLedger(ctx, control.LedgerRecord{Link: "east", Topic: "orders", SourceID: srcID, TargetID: dstID, Index: x.Encode(), AsOf: at,
			Stale: &ledger.Stale{From: 120, End: 125, Since: at}}))
		must(t, s.PutState(ctx, control.StateRecord{Link: "east", AsOf: at, Topic: state.Topic{SourceTopic: "orders", TargetTopic: "x.orders", Mode: "mirror", State: state.Active,
			Partitions: []state.Partition{{Partition: 0, Mode: "mirror", State: state.Active, TargetEnd: ptr(int64(140))}, {Partition: 1, Mode: "mirror", State: state.Pending}}}}))
	}
}

func ptr[T any](v T) *T { return &v }

func reported(t testing.TB, v *control.View) state.Link {
	t.Helper()
	r, ok := v.LinkReport("east")
	if !ok {
		t.Fatal("no link on record")
	}
	return Complete(r.Links[0], v)
}

func TestAllThatIsOnRecord(t *testing.T) {
	v := viewOf(t, orders(t))
	l := Describe(reported(t, v), v, WithRanges)
	if *l.SourceClusterID != "SRC" || *l.TargetClusterID != "DST" || *l.KlinkVersion != "v1" || !l.AppliedAt.Equal(at) || len(l.Topics) != 1 {
		t.Fatalf("%+v", l)
	}
	o := l.Topics[0]
	if *o.SourceID != srcID.String() || *o.TargetID != dstID.String() || *o.Generation != 0 || !*o.Compacted || o.State != state.Active {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff([]Setting{{"cleanup.policy", "compact", false}, {"retention.ms", "1000", true}}, o.SourceSettings); diff != "" {
		t.Error(diff)
	}
	p := o.Partitions[0]
	if *p.TargetEnd != 140 || *p.Counters.Used != 1<<16 || p.Counters.Low() || !p.Pad.Done || *p.Pad.RestorePolicy != "compact" || len(p.SourceEpochs) != 1 || p.SourceEpochs[0] != (Epoch{3, 100}) {
		t.Errorf("%+v", p)
	}
	want := Ledger{Totals: map[string]int64{"padded": 100, "marker": 5}, AsOf: &at, UpTo: ptr(int64(130)), Notes: []string{}, Ranges: []Range{
		{0, 100, "padded", map[string]int64{"padded": 100}}, {120, 125, "marker", map[string]int64{"marker": 5}}}}
	if diff := cmp.Diff(want, p.Ledger); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&ledger.Stale{From: 120, End: 125, Since: at}, p.StaleKeys); diff != "" || o.Partitions[1].StaleKeys != nil {
		t.Errorf("%s, %+v", diff, o.Partitions[1].StaleKeys)
	}
	// Nothing is known of the other one, and that is not none (D1).
	if diff := cmp.Diff(Ledger{Totals: map[string]int64{}, Notes: []string{}, Ranges: []Range{}}, o.Partitions[1].Ledger); diff != "" {
		t.Error(diff)
	}
}

// The JSON has no list of ranges where none was asked for, and the topics of the
// report stand once, in their fuller form.
func TestResultAsJSON(t *testing.T) {
	v := viewOf(t, orders(t))
	for _, d := range []Detail{TotalsOnly, WithRanges} {
		b, err := json.Marshal(Result{AsOf: at, Links: []Link{Describe(reported(t, v), v, d)}})
		must(t, err)
		if got := strings.Contains(string(b), `"ranges":[`); got != bool(d) || strings.Count(string(b), `"source_topic"`) != 1 {
			t.Errorf("%v: %s", d, b)
		}
		var r struct {
			Links []struct {
				Topics []struct {
					SourceID   string `json:"source_id"`
					Partitions []struct {
						TargetEnd *int64 `json:"target_end"`
						Ledger    struct {
							UpTo *int64 `json:"up_to"`
						}
					}
				}
			}
		}
		must(t, json.Unmarshal(b, &r))
		o := r.Links[0].Topics[0]
		if o.SourceID != srcID.String() || *o.Partitions[0].TargetEnd != 140 || *o.Partitions[0].Ledger.UpTo != 130 || o.Partitions[1].Ledger.UpTo != nil {
			t.Errorf("%s", b)
		}
	}
}

// A topic that the running klink does not mirror is described by its record (D4),
// one without a record by the report alone (D1).
func TestReportAndRecordComplementEachOther(t *testing.T) {
	v := viewOf(t, func(ctx context.Context, s *control.Store) {
		orders(t)(ctx, s)
		must(t, s.PutTopic(ctx, control.TopicRecord{Link: "east", SourceTopic: "new", SourceID: srcID, TargetTopic: "new", Partitions: 2}))
	})
	l := Complete(state.Link{Name: "east", Mode: "mirror", Topics: []state.Topic{{SourceTopic: "fresh", Partitions: []state.Partition{{}}}}}, v)
	d := Describe(l, v, TotalsOnly)
	if len(d.Topics) != 3 || len(l.Topics) != 3 {
		t.Fatalf("%+v", d.Topics)
	}
	fresh, old, claimed := d.Topics[0], d.Topics[1], d.Topics[2]
	if fresh.SourceID != nil || fresh.Partitions[0].Counters.Used != nil || fresh.Partitions[0].ProducerID != nil || fresh.Partitions[0].Ledger.UpTo != nil {
		t.Errorf("%+v", fresh)
	}
	if old.SourceTopic != "orders" || old.Detail != notReported || old.Partitions[0].Ledger.Totals["padded"] != 100 {
		t.Errorf("%+v", old)
	}
	if claimed.TargetID != nil || claimed.Detail != noState || len(claimed.Partitions) != 2 || claimed.Partitions[1].State != state.Pending || claimed.Partitions[1].ProducerID != nil {
		t.Errorf("%+v", claimed)
	}
}

func TestPadsThatTheIndexLacks(t *testing.T) {
	end := ptr(int64(40))
	for name, c := range map[string]struct {
		pad    control.PadRecord
		index  *ledger.Index
		end    *int64
		totals map[string]int64
		upTo   *int64
	}{
		"under way":        {control.PadRecord{Goal: 100, Reason: ledger.Padded}, nil, end, map[string]int64{"padded": 40}, ptr(int64(40))},
		"not begun":        {control.PadRecord{Goal: 100, Reason: ledger.Padded}, nil, ptr(int64(0)), map[string]int64{}, nil},
		"end unknown":      {control.PadRecord{Goal: 100, Reason: ledger.Padded}, nil, nil, map[string]int64{}, nil},
		"done":             {control.PadRecord{Goal: 100, Reason: ledger.Padded, Done: true}, nil, end, map[string]int64{"padded": 100}, ptr(int64(100))},
		"indexed":          {control.PadRecord{Goal: 100, Reason: ledger.Padded, Done: true}, advanced(150, ledger.Range{From: 0, End: 100, Reason: ledger.Padded}), end, map[string]int64{"padded": 100}, ptr(int64(150))},
		"beyond the index": {control.PadRecord{From: 200, Goal: 300, Reason: ledger.Retention, Done: true}, advanced(150), end, map[string]int64{"retention": 100}, ptr(int64(150))},
		"next to it":       {control.PadRecord{From: 150, Goal: 300, Reason: ledger.Retention, Done: true}, advanced(150), end, map[string]int64{"retention": 150}, ptr(int64(300))},
	} {
		t.Run(name, func(t *testing.T) {
			tr := trail{pad: padded(c.pad, c.end)}
			if c.index != nil {
				stored := c.index.Encode()
				tr.index = &stored
			}
			got := tr.ledger(TotalsOnly)
			if diff := cmp.Diff(Ledger{Totals: c.totals, UpTo: c.upTo, Notes: []string{}}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func advanced(end int64, ranges ...ledger.Range) *ledger.Index {
	x := new(ledger.Index)
	for _, r := range ranges {
		x.Add(r)
	}
	x.Advance(end)
	return x
}

func TestMixedRanges(t *testing.T) {
	stored := ledger.Stored{End: 50, Windows: []ledger.StoredWindow{{From: 10, End: 40, Counts: map[ledger.Reason]int64{ledger.Marker: 3, ledger.Aborted: 7}}}}
	got := trail{index: &stored}.ledger(WithRanges).Ranges
	if diff := cmp.Diff([]Range{{10, 40, Mixed, map[string]int64{"marker": 3, "aborted": 7}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCountersRunLow(t *testing.T) {
	for used, low := range map[int64]bool{0: false, 214_748_364: false, 214_748_365: true, ledger.CounterLimit: true} {
		if c := (Counters{Used: &used, Limit: ledger.CounterLimit}); c.Low() != low {
			t.Errorf("%d: %v", used, c.Low())
		}
	}
	if (Counters{Limit: ledger.CounterLimit}).Low() {
		t.Error("what is unknown is not low")
	}
}
