package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/config"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/describe"
	"klink/linker/ledger"
	"klink/linker/state"
)

// described is a description with something of everything.
func described(r state.Report) describe.Result {
	var none describe.Ledger
	out := describe.Result{AsOf: r.AsOf, Links: []describe.Link{{Link: r.Links[0], SourceClusterID: ptr("SRC"), TargetClusterID: ptr("DST"), KlinkVersion: ptr("v1")}}}
	for _, t := range r.Links[0].Topics {
		d := describe.Topic{Topic: t}
		for _, p := range t.Partitions {
			d.Partitions = append(d.Partitions, describe.Partition{Partition: p, Counters: describe.Counters{Limit: ledger.CounterLimit}, Ledger: none})
		}
		out.Links[0].Topics = append(out.Links[0].Topics, d)
	}
	orders := &out.Links[0].Topics[0]
	orders.SourceID, orders.TargetID, orders.Generation, orders.Compacted = ptr("0a"), ptr("0b"), ptr(int32(1)), ptr(true)
	orders.SourceSettings = []describe.Setting{{Name: "cleanup.policy", Value: "compact", Explicit: true}, {Name: "retention.ms", Value: "604800000"}}
	out.Links[0].Intent = describe.Intent{Want: "paused", Command: ptr(int32(6))}
	out.Links[0].Commands = []describe.Command{
		{Number: 1, Verb: "pend", Topics: []string{"a", "b", "orders", "payments", "shipments"}, Switch: ptr("5157"), WaitSeconds: ptr(30.0), At: asOf, By: ptr("ann@host-1")},
		{Number: 2, Verb: "promote", Topics: []string{"orders"}, Switch: ptr("5157"), Fence: ptr(int16(1)), At: asOf, By: ptr("ann@host-1")},
		{Number: 3, Verb: "reverse", Topics: []string{"orders"}, NextLink: ptr("home"), At: asOf},
		{Number: 4, Verb: "accept", Group: ptr("billing"), At: asOf},
		{Number: 5, Verb: "retry", Topics: []string{"orders"}, Partitions: []int32{0, 3}, At: asOf},
		{Number: 6, Verb: "pause", At: asOf}}
	out.Links[0].GroupAcks = []describe.Ack{{Worker: "host-1-00ff", Command: 2, At: asOf}}
	orders.Intent = describe.Intent{Want: "stopped", Command: ptr(int32(3)), ReversedInto: ptr("home"), Fence: 1, Again: ptr(int32(5))}
	orders.Acks = []describe.Ack{{Worker: "host-1-00ff", Command: 2, At: asOf, Partitions: make([]describe.AckedPartition, 4)}}
	orders.Adoption = &describe.Adoption{At: asOf, By: ptr("ann@host-1"), Partitions: []describe.AdoptedPartition{{Partition: 0, End: 7}, {Partition: 3, End: 9}}}
	orders.Cuts = []describe.Cut{{Switch: "5157", At: asOf, Partitions: []describe.CutPartition{
		{Partition: 0, TargetEnd: ptr(int64(100)), SourceEnd: ptr(int64(105)), SourceEndAsOf: &asOf, FenceOffset: ptr(int64(100))},
		{Partition: 1, TargetEnd: ptr(int64(100))}, {Partition: 2, Unfenced: true}}, Unsettled: true}}
	p := orders.Partitions
	p[0].SourceEpochs = []describe.Epoch{{Epoch: 0, First: 0}, {Epoch: 2, First: 10}, {Epoch: 3, First: 50}, {Epoch: 7, First: 90}}
	p[0].Pad = &describe.Pad{Goal: 10, Reason: "padded", Stage: "restore", Done: true}
	p[0].Counters.Used = ptr(int64(220_000_000))
	p[0].Ledger = describe.Ledger{Totals: map[string]int64{"padded": 10, "marker": 12_345, "aborted": 7}, AsOf: &asOf, UpTo: ptr(int64(100)), Unexplained: 3, Ranges: []describe.Range{
		{From: 0, End: 10, Reason: "padded", Counts: map[string]int64{"padded": 10}},
		{From: 20, End: 99_999, Reason: describe.Mixed, Counts: map[string]int64{"marker": 12_345, "aborted": 7}}}}
	p[0].StaleKeys = &ledger.Stale{From: 20, End: 90, Since: asOf.Add(-48 * time.Hour)}
	p[1].Counters.Used = ptr(int64(0))
	p[1].Pad = &describe.Pad{From: 0, Goal: 1_000_000, Reason: "padded", Stage: "pad", RestorePolicy: ptr("compact")}
	p[1].Ledger = describe.Ledger{Totals: map[string]int64{}, AsOf: &asOf, UpTo: ptr(int64(100)), Ranges: []describe.Range{}}
	p[2].Ledger.Notes = []string{"nothing on record tells which markers of the log are the link's"}
	return out
}

// describing returns parts that describe the report they are given, or the last
// recorded one.
func describing(last state.Report, err error) (Parts, *DescribeRequest) {
	asked := new(DescribeRequest)
	return Parts{Describe: func(_ context.Context, _ *config.Config, req DescribeRequest) (describe.Result, error) {
		*asked = req
		if req.Report != nil {
			last = *req.Report
		}
		r, chooseErr := req.Choose(last)
		if chooseErr != nil {
			return describe.Result{}, chooseErr
		}
		return described(r), err
	}}, asked
}

func TestDescribeWithADaemon(t *testing.T) {
	d := newDaemon(testReport("east"))
	listen := freeAddress(t)
	file := configFile(t, listen, "east")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- execute(ctx, Parts{Wire: d.wire}, "run", "-c", file) }()
	<-d.running
	parts, asked := describing(state.Report{}, nil)
	r := execute(t.Context(), parts, "describe", "-c", file, "--ledger")
	if r.code != 0 || r.err != "" || asked.Detail != describe.WithRanges || asked.Exact || asked.Report == nil {
		t.Errorf("%+v, %+v", r, asked)
	}
	golden(t, "testdata/describe.golden", r.out)
	golden(t, "testdata/help-describe.golden", execute(t.Context(), Parts{}, "describe", "--help").out)
	stop()
	<-ended
}

func TestDescribeWithoutADaemon(t *testing.T) {
	old := testReport("east")
	old.AsOf = time.Now().Add(-90 * time.Second)
	file := configFile(t, freeAddress(t), "east")
	parts, asked := describing(old, nil)
	r := execute(t.Context(), parts, "describe", "-c", file, "orders", "--exact", "-o", "json")
	if r.code != 0 || !strings.Contains(r.err, "connection refused); states are its last record on the target, 1m3") || !asked.Exact || asked.Report != nil || asked.Detail != describe.TotalsOnly {
		t.Errorf("%+v, %+v", r, asked)
	}
	var got struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		Links   []struct{ Topics []map[string]any }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Command != "describe" || got.Version != 1 || len(got.Links[0].Topics) != 1 || got.Links[0].Topics[0]["source_topic"] != "orders" {
		t.Errorf("%v: %s", err, r.out)
	}
	parts, _ = describing(old, &PartlyError{Where: []string{"a/0", "a/1", "a/2", "a/3"}, Errs: slices.Repeat([]error{errors.New("no answer")}, 4)})
	r = execute(t.Context(), parts, "describe", "-c", file, "--exact", "-o", "json")
	if r.code != 1 || !json.Valid([]byte(r.out)) || !strings.Contains(r.err, "klink: describe: a/0: no answer; a/1: no answer; a/2: no answer; and 1 more\n") {
		t.Errorf("%+v", r)
	}
}

func TestDescribeUsage(t *testing.T) {
	old := testReport("east")
	file := configFile(t, freeAddress(t), "east")
	for name, c := range map[string]struct {
		err  error
		args []string
		code int
		want string
	}{
		"nothing":       {nil, nil, 2, "needs to know the target"},
		"only a daemon": {nil, []string{"--http", "127.0.0.1:1"}, 2, "needs to know the target"},
		"format":        {nil, []string{"-c", file, "-o", "xml"}, 2, "allowed: table, json"},
		"no such topic": {nil, []string{"-c", file, "ordres"}, 1, `no topic "ordres" is mirrored (did you mean orders?)`},
		"target down":   {errors.New("t:9092: nothing listens on that port"), []string{"-c", file}, 1, "klink: describe: t:9092: nothing listens on that port\n"},
	} {
		parts, _ := describing(old, c.err)
		if r := execute(t.Context(), parts, append([]string{"describe"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// onlyTarget is a target with one mirrored topic of three records and some
// fillers: offsets 3 and 4 are in the index, 5 to 7 in the log alone.
func onlyTarget(t testing.TB) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	srcID, dstID := feed.TopicID{1}, feed.TopicID(c.TopicInfo("orders").TopicID)
	for range 3 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	pid := appender.ProducerID("SRC", srcID, 0, 0)
	for i, reason := range []ledger.Reason{ledger.Marker, ledger.Marker, ledger.Aborted, ledger.Compacted, ledger.Marker} {
		writeMarker(t, c, cl, pid, ledger.CoordinatorEpoch(int32(i), reason))
	}
	stated := testReport("").Links[0].Topics[0]
	stated.Partitions = stated.Partitions[:2]
	x := new(ledger.Index)
	x.Add(ledger.Range{From: 3, End: 5, Reason: ledger.Marker})
	putOn(t, c, func(ctx context.Context, s *control.Store) error {
		return errors.Join(
			s.PutLink(ctx, control.LinkRecord{Link: config.FlagLink, Mode: "mirror", SourceClusterID: "SRC", TargetClusterID: "DST", AppliedAt: asOf}),
			s.PutTopic(ctx, control.TopicRecord{Link: config.FlagLink, SourceTopic: "orders", SourceID: srcID, TargetTopic: "orders", TargetID: dstID, Partitions: 1}),
			s.PutState(ctx, control.StateRecord{Link: config.FlagLink, AsOf: asOf, Topic: stated}),
			s.PutLedger(ctx, control.LedgerRecord{Link: config.FlagLink, Topic: "orders", SourceID: srcID, TargetID: dstID, Index: x.Encode(), AsOf: asOf}))
	})
	return c
}

// putOn writes to the control topic of a cluster.
func putOn(t testing.TB, c *kfake.Cluster, put func(ctx context.Context, s *control.Store) error) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := control.Open(ctx, control.Options{Client: cl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	ran := make(chan error, 1) // the result waits for the end
	go func() { ran <- s.Run(run) }()
	defer func() { stop(); <-ran; s.Close() }()
	if err := put(ctx, s); err != nil {
		t.Fatal(err)
	}
}

func writeMarker(t testing.TB, c *kfake.Cluster, cl *kgo.Client, pid int64, epoch int32) {
	t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.Committed, m.CoordinatorEpoch = pid, true, epoch
	mt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	mt.Topic, mt.Partitions = "orders", []int32{0}
	m.Topics = append(m.Topics, mt)
	req.Markers = append(req.Markers, m)
	resp, err := req.RequestWith(t.Context(), cl.Broker(int(c.LeaderFor("orders", 0))))
	if err != nil || resp.Markers[0].Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%v: %+v", err, resp)
	}
}

// Source and daemon are gone: the target tells all the same, without writing.
func TestDescribeFromTheTargetAlone(t *testing.T) {
	c := onlyTarget(t)
	args := []string{"describe", "--target", c.ListenAddrs()[0], "--http", "", "-o", "json", "--ledger"}
	type answer struct {
		AsOf  time.Time `json:"as_of"`
		Links []struct {
			Topics []struct {
				TargetID   string `json:"target_id"`
				Partitions []struct{ Ledger describe.Ledger }
			}
		}
	}
	ask := func(extra ...string) answer {
		var a answer
		r := execute(t.Context(), production(), append(args, extra...)...)
		if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != 0 || len(a.Links) != 1 || len(a.Links[0].Topics) != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		return a
	}
	a := ask()
	if l := a.Links[0].Topics[0].Partitions[0].Ledger; !a.AsOf.Equal(asOf) || *l.UpTo != 5 || !l.AsOf.Equal(asOf) || l.Totals["marker"] != 2 || len(l.Ranges) != 1 {
		t.Errorf("%+v", a)
	}
	if id := a.Links[0].Topics[0].TargetID; id != feed.TopicID(c.TopicInfo("orders").TopicID).String() {
		t.Errorf("target id %s", id)
	}
	// Only partition 0 is there; the state has two.
	r := execute(t.Context(), production(), append(args, "--exact")...)
	if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != 1 || !strings.Contains(r.err, "orders/1") {
		t.Fatalf("%v: %+v", err, r)
	}
	l := a.Links[0].Topics[0].Partitions[0].Ledger
	if *l.UpTo != 8 || !l.AsOf.After(asOf) || l.Totals["marker"] != 3 || l.Totals["aborted"] != 1 || l.Totals["compacted"] != 1 || len(l.Ranges) != 4 {
		t.Errorf("%+v", l)
	}
}

// Whoever asks for a link that is not there is told which are.
func TestUnknownLinkNamesThoseOnRecord(t *testing.T) {
	known := state.Report{Links: []state.Link{{Name: "east"}, {Name: "west"}}}
	if got := unknownLink("wst", known).Error(); !strings.HasSuffix(got, `of this name: "wst"; on record there: "east", "west"`) {
		t.Error(got)
	}
	if got := unknownLink("wst", state.Report{}).Error(); !strings.HasSuffix(got, "on record there: none") {
		t.Error(got)
	}
}
