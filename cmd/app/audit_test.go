package app

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/state"
)

// TestG9_AuditOfARunningMirror: what an operator destroys on the target while klink
// does not run is found by the audit, told in the log once, and shown with the
// klink that found it and without.
func TestG9_AuditOfARunningMirror(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorBoth(t, src, dst)
	k.await(t, "orders", state.Active)
	k.await(t, "payments", state.Active)
	k.stop()
	cl, err := kgo.NewClient(kgo.SeedBrokers(dst.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	lost := kadm.Offsets{}
	lost.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 5})
	if r, err := kadm.NewClient(cl).DeleteRecords(t.Context(), lost); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}

	k = mirrorWith(t, src, dst, "    audit: {enabled: true}\n")
	r := k.awaitAudits(t)
	orders, _ := topicOf(r.Links[0], "orders")
	payments, _ := topicOf(r.Links[0], "payments")
	for _, p := range payments.Partitions {
		if p.Audit.Clean == nil || p.Audit.Last.To != *p.TargetEnd || p.Audit.Last.Records != *p.TargetEnd || *p.Audit.CleanAgeSeconds > 60 || len(p.Flags) != 0 {
			t.Errorf("%+v %+v", p, p.Audit)
		}
	}
	if p := orders.Partitions[0]; p.Audit.Clean == nil || len(p.Flags) != 0 {
		t.Errorf("%+v %+v", p, p.Audit)
	}
	p := orders.Partitions[1]
	if p.Audit.Clean != nil || p.Audit.Last.Findings != 1 || p.Audit.Last.From != 5 || len(p.Flags) != 1 || p.Flags[0] != state.Differs ||
		p.Audit.Last.First[0] != (state.AuditFinding{Kind: "start", Detail: "the source starts at 0, the target 5 offsets later, at 5"}) {
		t.Errorf("%+v %+v", p, p.Audit)
	}
	const summary, finding = "audit of link east: 3 of 4 partitions equal, as read ", "orders/1: 1 difference below offset"
	shown := func(command string) {
		t.Helper()
		out := execute(t.Context(), production(), command, "-c", k.file)
		if out.code != 0 || !strings.Contains(out.out, finding) || (command == "status") != strings.Contains(out.out, summary) || !strings.Contains(out.out, state.Differs) {
			t.Errorf("%s: %+v", command, out)
		}
	}
	shown("status")
	shown("describe")
	if log := k.stop(); strings.Count(log, "the target differs from the source") != 1 || strings.Count(log, "level=ERROR") != 1 {
		t.Errorf("logged %s", log)
	}
	shown("status") // from the record
	shown("describe")
}

// awaitAudits asks until all partitions were compared.
func (k running) awaitAudits(t testing.TB) state.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var r state.Report
		got := k.ask(t, "status")
		if json.Unmarshal([]byte(got.out), &r) == nil && audited(r) {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not everything was compared: %s %s", got.out, got.err)
		}
	}
}

func audited(r state.Report) bool {
	n := 0
	for _, l := range r.Links {
		for _, t := range l.Topics {
			for _, p := range t.Partitions {
				if n++; p.Audit == nil || p.Audit.Last == nil {
					return false
				}
			}
		}
	}
	return n > 0
}
