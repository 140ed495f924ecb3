package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// auditMirrors has klink run compare what it mirrors, under load: what is as it
// should be has no finding, and what somebody deleted on the target has one, in the
// status, in the metrics, in the log once, and on record.
func auditMirrors(t *testing.T, p pair) {
	ctx := within(t, 2*patience)
	create(t, p.src, lab.TopicSpec{Name: "a-plain", Partitions: 2, Configs: lab.KeepEverything()}, lab.TopicSpec{Name: "a-lost", Configs: lab.KeepEverything()})
	var g errgroup.Group
	g.Go(func() error {
		return shapes.Transactions(ctx, p.src, shapes.Place{Topic: "a-mixed", Partitions: 2, Seed: 6}, 10)
	})
	g.Go(func() error { return shapes.Compacted(ctx, p.src, shapes.Place{Topic: "a-compacted", Seed: 6}) })
	g.Go(func() error { return (&planter{ctx, p.src, "a-lost"}).write(planted()...) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	link := openLink("audited", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "a-*")
	mirrored := func(r state.Report) bool {
		return len(r.Links[0].Topics) == 4 && !slices.ContainsFunc(r.Links[0].Topics, func(t state.Topic) bool { return t.State != state.Active })
	}
	k := startKlink(t, "-c", configFile(t, link))
	k.awaitReport(t, "all topics mirrored", mirrored)
	k.stop(t)
	deleteRecords(t, p.dst, "a-lost", map[int32]int64{0: 3})

	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"a-plain"}, Seed: 9, RecordsPerSecond: 1_000})
	if err != nil {
		t.Fatal(err)
	}
	link["audit"] = object{"enabled": true}
	file := configFile(t, link)
	k = startKlink(t, "-c", file)
	r := k.awaitReport(t, "all partitions compared", func(r state.Report) bool {
		return len(r.Links[0].Topics) == 4 && !slices.ContainsFunc(r.Links[0].Topics, func(t state.Topic) bool {
			return slices.ContainsFunc(t.Partitions, func(p state.Partition) bool { return p.Audit == nil || p.Audit.Last == nil })
		})
	})
	metrics := k.metrics(t)
	if l := load.Stop(); l.Err != nil {
		t.Error(l.Err)
	}
	k.stop(t)
	requireAudits(t, r)
	if got := metrics[`klink_audit_findings{link="audited",partition="0",topic="a-lost"}`]; got != 1 {
		t.Errorf("findings in the metrics: %v", got)
	}
	if _, ok := metrics[`klink_audit_clean_age_seconds{link="audited",partition="0",topic="a-lost"}`]; ok {
		t.Error("what was never equal has an age")
	}
	if text, _ := k.log.read(); strings.Count(text, `"level":"ERROR"`) != 1 || strings.Count(text, "the target differs from the source") != 1 {
		t.Error("the finding is not told once")
	}
	recorded, _ := statusOf(t, "-c", file)
	requireAudits(t, recorded)
}

func requireAudits(t testing.TB, r state.Report) {
	t.Helper()
	for _, topic := range r.Links[0].Topics {
		for _, p := range topic.Partitions {
			lost := topic.SourceTopic == "a-lost"
			switch {
			case p.Audit == nil || p.Audit.Last == nil || p.Audit.Error != "":
				t.Errorf("%s/%d was not compared: %+v", topic.SourceTopic, p.Partition, p.Audit)
			case lost != (p.Audit.Last.Findings == 1) || lost != slices.Contains(p.Flags, state.Differs) || lost != (p.Audit.Clean == nil):
				t.Errorf("%s/%d: %+v, flags %v", topic.SourceTopic, p.Partition, p.Audit.Last, p.Flags)
			case topic.SourceTopic == "a-mixed" && p.Audit.Last.Records == 0:
				t.Errorf("%s/%d: nothing was compared", topic.SourceTopic, p.Partition)
			}
		}
	}
}
