package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"klink/cmd/config"
	"klink/linker/intent"
	"klink/linker/state"
	"klink/linker/switchover"
)

// fakeSwitcher tells a result, and remembers what it was asked.
type fakeSwitcher struct {
	result switchover.Result
	err    error
	access []SwitchAccess
	asked  []string
	last   switchover.Request
	cfg    *config.Config
}

func (f *fakeSwitcher) Link() state.Link { return testReport("east").Links[0] }
func (f *fakeSwitcher) Close()           {}

func (f *fakeSwitcher) ask(what string, r switchover.Request) (switchover.Result, error) {
	if r.DryRun {
		what += " --dry-run"
	}
	f.asked, f.last = append(f.asked, what), r
	out := f.result
	out.DryRun = r.DryRun
	return out, f.err
}

func (f *fakeSwitcher) Forecast(_ context.Context, r switchover.Request) (switchover.Result, error) {
	return f.ask("forecast", r)
}

func (f *fakeSwitcher) Failover(_ context.Context, r switchover.Request) (switchover.Result, error) {
	return f.ask("failover", r)
}

func (f *fakeSwitcher) Promote(_ context.Context, r switchover.Request) (switchover.Result, error) {
	return f.ask("promote", r)
}

func (f *fakeSwitcher) parts() Parts {
	return Parts{Switch: func(_ context.Context, cfg *config.Config, a SwitchAccess) (Switcher, error) {
		f.cfg, f.access = cfg, append(f.access, a)
		return f, nil
	}}
}

// switched is the result of a failover with something of everything.
func switched() switchover.Result {
	seen := asOf.Add(-3200 * time.Millisecond)
	whole := func(n int32, end, lost int64) switchover.Partition {
		return switchover.Partition{Partition: n, TargetEnd: ptr(end + 1), LastMirrored: ptr(end - 1), SourceEnd: ptr(end + lost), SourceEndAsOf: &seen,
			RecordsLost: &lost, UnseenSeconds: ptr(3.2), OpenRecords: ptr(int64(0)), Fenced: true, FenceOffset: &end}
	}
	confirmed := whole(1, 2_000, 1_234)
	confirmed.TargetEnd, confirmed.Fenced, confirmed.FenceOffset, confirmed.Detail = ptr(int64(2_000)), false, nil, "worker w1 confirmed that it stopped"
	unknown := switchover.Partition{Partition: 0, Detail: "UNFENCED: write markers: no answer; its end cannot be read: no answer"}
	empty := switchover.Partition{Partition: 1, TargetEnd: ptr(int64(0)), SourceEnd: ptr(int64(0)), SourceEndAsOf: &seen, RecordsLost: ptr(int64(0)), UnseenSeconds: ptr(3.2), OpenRecords: ptr(int64(12))}
	return switchover.Result{Link: "east", Switch: ptr("0a1b2c3d"), AsOf: asOf, Failed: 1, UnseenSeconds: nil,
		Topics: []switchover.Topic{
			{SourceTopic: "orders", TargetTopic: "orders", State: "STOPPED", OK: true, Partitions: []switchover.Partition{whole(0, 1_000_000, 0), confirmed}},
			{SourceTopic: "payments.eu", TargetTopic: "x.payments.eu", State: "STOPPED", Reason: "UNFENCED", Detail: "partition 0: UNREACHABLE: write markers: no answer",
				Hint: "run the same command again once the cause is gone", Partitions: []switchover.Partition{unknown, empty}},
		},
		Groups: []switchover.Group{
			{Group: "billing", State: "SYNCED", Partitions: []switchover.GroupPartition{{SourceTopic: "orders", SourceOffset: ptr(int64(900)), TargetOffset: ptr(int64(900)), AgeSeconds: ptr(0.25), RecordsToRead: ptr(int64(100)), RecordsReadAgain: ptr(int64(0))}}},
			{Group: "audit", State: "SYNCING", Reason: "CLAMPED", Partitions: []switchover.GroupPartition{{SourceTopic: "orders", Reason: "CLAMPED"}}},
		},
		Notes:    []string{"another failover was first and is completed"},
		Warnings: []switchover.Warning{{Right: "Write on topic __klink", Known: true, Detail: "a stop cannot be put on record", Hint: "grant it"}},
	}
}

// lossless is the result of a promotion that went well.
func lossless() switchover.Result {
	r := switched()
	r.Topics, r.Failed, r.RecordsLost, r.UnseenSeconds, r.Notes, r.Warnings, r.Groups = r.Topics[:1], 0, new(int64), ptr(0.1), nil, nil, nil
	r.Topics[0].Partitions = r.Topics[0].Partitions[:1]
	return r
}

func TestFailover(t *testing.T) {
	f := &fakeSwitcher{result: switched(), err: &switchover.ItemsFailedError{Failed: 1, Of: 2}}
	r := execute(t.Context(), f.parts(), "failover", "--target", "t:9092", "--yes")
	if r.code != 1 || !strings.Contains(r.err, "klink: failover: 1 of 2 topics failed: run the command again to do the rest\n") || f.access[0] != TargetAlone ||
		f.last.DryRun || f.last.Topics != nil || !strings.Contains(f.last.By, "@") || f.cfg.Links[0].Name != config.FlagLink {
		t.Errorf("%+v, %+v", r, f)
	}
	golden(t, "testdata/failover.golden", r.out)
	golden(t, "testdata/help-failover.golden", execute(t.Context(), Parts{}, "failover", "--help").out)

	// klink's machine may be gone, and its file with it.
	if execute(t.Context(), f.parts(), "failover", "--target", "t:9092", "--link", "east", "--yes"); f.cfg.Links[0].Name != "east" {
		t.Errorf("%+v", f.cfg.Links)
	}
	r = execute(t.Context(), f.parts(), "failover", "-c", configFile(t, "", "east"), "x.pay*", "--yes", "-o", "json")
	var got struct {
		Command     string `json:"_command"`
		Version     int    `json:"_version"`
		Switch      string
		RecordsLost *int64 `json:"records_lost"`
		Topics      []struct{ Partitions []map[string]any }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 1 || got.Command != "failover" || got.Version != 1 || got.Switch != "0a1b2c3d" || got.RecordsLost != nil {
		t.Errorf("%v: %+v", err, r)
	}
	if p := got.Topics[1].Partitions[0]; p["records_lost"] != nil || p["target_end"] != nil || p["fenced"] != false {
		t.Errorf("%+v", p)
	}
	if len(f.last.Topics) != 1 || f.last.Topics[0] != "payments.eu" {
		t.Errorf("%+v", f.last)
	}
}

func TestForecast(t *testing.T) {
	result := switched()
	result.Switch, result.Failed = nil, 0
	f := &fakeSwitcher{result: result}
	r := execute(t.Context(), f.parts(), "forecast", "--target", "t:9092")
	if r.code != 0 || r.err != "" || f.access[0] != LookOnly || f.asked[0] != "forecast" {
		t.Errorf("%+v, %+v", r, f)
	}
	golden(t, "testdata/forecast.golden", r.out)
	golden(t, "testdata/help-forecast.golden", execute(t.Context(), Parts{}, "forecast", "--help").out)
}

// What could not be looked at makes a forecast fail, and nothing is said of doing
// the rest.
func TestForecastOfThePartlyUnknown(t *testing.T) {
	f := &fakeSwitcher{result: switched(), err: &switchover.ItemsFailedError{Failed: 1, Of: 2}}
	for _, command := range []string{"forecast", "failover --dry-run"} {
		r := execute(t.Context(), f.parts(), append(strings.Fields(command), "--target", "t:9092")...)
		if r.code != 1 || !strings.HasSuffix(r.err, ": the numbers of 1 of 2 topics are not all known\n") {
			t.Errorf("%+v", r)
		}
	}
}

// Of many partitions only those are listed that somebody has to look at.
func TestForecastOfMany(t *testing.T) {
	result := lossless()
	one := result.Topics[0].Partitions[0]
	for n := range int32(200) {
		one.Partition = n + 1
		result.Topics[0].Partitions = append(result.Topics[0].Partitions, one)
	}
	result.Topics[0].Partitions[7].RecordsLost = ptr(int64(1))
	f := &fakeSwitcher{result: result}
	r := execute(t.Context(), f.parts(), "forecast", "--target", "t:9092")
	if strings.Count(r.out, "\n orders ") != 2 || !strings.Contains(r.out, "200 partitions more lose nothing") {
		t.Errorf("%s", r.out)
	}
	if r = execute(t.Context(), f.parts(), "forecast", "--target", "t:9092", "orders"); strings.Count(r.out, "\n orders ") != 202 {
		t.Errorf("%d lines", strings.Count(r.out, "\n orders "))
	}
}

func TestPromote(t *testing.T) {
	file := configFile(t, "", "east")
	f := &fakeSwitcher{result: lossless()}
	r := execute(t.Context(), f.parts(), "promote", "-c", file, "--yes", "--timeout", "90s")
	if r.code != 0 || r.err != "" || f.access[0] != BothSides || f.last.Timeout != 90*time.Second || f.asked[0] != "promote" {
		t.Errorf("%+v, %+v", r, f)
	}
	golden(t, "testdata/promote.golden", r.out)
	golden(t, "testdata/help-promote.golden", execute(t.Context(), Parts{}, "promote", "--help").out)

	f.err = &switchover.RefusedError{Why: "orders/0 lacks 12 records after 5m0s"}
	r = execute(t.Context(), f.parts(), "promote", "-c", file, "--yes", "-o", "json")
	if r.code != 4 || !json.Valid([]byte(r.out)) || r.err != "klink: promote: not promoted: orders/0 lacks 12 records after 5m0s\n" {
		t.Errorf("%+v", r)
	}
	// What was not promoted has lost nothing, and its topics say why without a reason.
	f.result.Switch, f.result.RecordsLost, f.result.Topics[0].Detail = nil, ptr(int64(12)), "not promoted, since all are promoted together or none"
	r = execute(t.Context(), f.parts(), "promote", "-c", file, "--yes")
	if !strings.Contains(r.out, "\nwould be lost: at most 12 records") || !strings.Contains(r.out, "\norders: not promoted, since") {
		t.Errorf("%+v", r)
	}
	if r = execute(t.Context(), f.parts(), "promote", "--target", "t:9092", "--yes"); r.code != 2 || !strings.Contains(r.err, "source") {
		t.Errorf("%+v", r)
	}
}

// TestPromoteOfASourceThatWentOn: what is done and lost something is not done with 0.
func TestPromoteOfASourceThatWentOn(t *testing.T) {
	f := &fakeSwitcher{result: lossless(), err: &switchover.LateError{Records: 200, Topics: 1}}
	f.result.RecordsLost = ptr(int64(200))
	r := execute(t.Context(), f.parts(), "promote", "-c", configFile(t, "", "east"), "--yes")
	if r.code != 1 || !strings.HasPrefix(r.err, "klink: promote: promoted, but the source took in at most 200 records of 1 topic after the cut") ||
		!strings.Contains(r.out, "\nlost: at most 200 records") || !strings.Contains(r.out, "\nThese topics are STOPPED") {
		t.Errorf("%+v", r)
	}
	// The source did not answer after the cut.
	f.result.RecordsLost, f.err = nil, nil
	if r = execute(t.Context(), f.parts(), "promote", "-c", configFile(t, "", "east"), "--yes"); r.code != 0 || !strings.Contains(r.out, "\nlost: unknown in all") {
		t.Errorf("%+v", r)
	}
}

// Whoever is asked has seen the numbers; nothing is done without a yes.
func TestSwitchAsks(t *testing.T) {
	file := configFile(t, "", "east")
	for _, c := range []struct {
		args, answer string
		code         int
		asked        string
	}{
		{"failover", "", 2, "[]"},
		{"failover --dry-run", "", 0, "[failover --dry-run]"},
		{"failover", "y\n", 0, "[failover --dry-run failover]"},
		{"failover", "n\n", 2, "[failover --dry-run]"},
		{"promote", "y\n", 0, "[promote --dry-run promote]"},
	} {
		f := &fakeSwitcher{result: lossless()}
		var out, errOut bytes.Buffer
		s := &shell{parts: f.parts(), in: strings.NewReader(c.answer), out: &out, errOut: &errOut, interactive: c.answer != ""}
		code := s.execute(t.Context(), append([]string{"klink"}, strings.Fields(c.args+" -c "+file)...))
		if code != c.code || fmt.Sprint(f.asked) != c.asked {
			t.Errorf("%s %q: %d, %v, %s", c.args, c.answer, code, f.asked, &errOut)
		}
		if c.answer != "" && !strings.Contains(errOut.String(), "would be lost") {
			t.Errorf("%s: not shown: %s", c.args, &errOut)
		}
	}
	f := &fakeSwitcher{result: lossless()}
	if execute(t.Context(), f.parts(), "failover", "-c", file, "--dry-run"); f.access[0] != LookOnly {
		t.Errorf("a dry run asks for %v", f.access)
	}
}

func TestSwitchUsage(t *testing.T) {
	f := &fakeSwitcher{result: lossless()}
	file := configFile(t, "", "east")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":       {[]string{"failover", "--yes"}, 2, "needs to know the target"},
		"two links":     {[]string{"forecast", "-c", configFile(t, "", "east", "west")}, 2, "choose with --link one of east, west"},
		"no such topic": {[]string{"failover", "--yes", "-c", file, "ordres"}, 1, `no topic "ordres" is mirrored (did you mean orders?)`},
		"no promise":    {[]string{"forecast", "-c", file, "--yes"}, 2, "unknown flag --yes"},
	} {
		if r := execute(t.Context(), f.parts(), c.args...); r.code != c.code || !strings.Contains(r.err, c.want) || r.out != "" || len(f.asked) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A failover needs nothing but the target, and running it again changes nothing.
func TestFailoverOnATarget(t *testing.T) {
	c := onlyTarget(t)
	answer := func(r result) (a struct {
		switchover.Result
		Command string `json:"_command"`
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != 0 {
			t.Fatalf("%v: %+v", err, r)
		}
		return a
	}
	before := answer(on(t, c, "forecast"))
	if p := before.Topics[0].Partitions[0]; before.Command != "forecast" || p.Fenced || *p.TargetEnd != 8 || onRecord(t, c).Intents(config.FlagLink).Of("orders").Want != intent.Mirror {
		t.Errorf("%+v", before)
	}
	done := answer(on(t, c, "failover", "--yes"))
	p := done.Topics[0].Partitions[0]
	if done.Topics[0].State != string(state.Stopped) || !p.Fenced || p.FenceOffset == nil || *p.FenceOffset != 8 || *p.TargetEnd != 9 {
		t.Errorf("%+v", done)
	}
	if v := onRecord(t, c); v.Intents(config.FlagLink).Of("orders").Want != intent.Stopped || len(v.Cuts(config.FlagLink, *done.Switch)) != 1 {
		t.Errorf("%+v", v.Commands(config.FlagLink))
	}
	again := answer(on(t, c, "failover", "--yes"))
	if *again.Switch != *done.Switch || *again.Topics[0].Partitions[0].FenceOffset != 8 {
		t.Errorf("%+v", again)
	}
	if r := on(t, c, "pause", "orders", "--yes"); r.code != 1 || !strings.Contains(r.out, "promoted or failed over") {
		t.Errorf("%+v", r)
	}
}

// TestGroupsBesideMM2: in checkpoint mode the table has what MirrorMaker 2's syncs
// would make of the commits, and ? where they would not translate them.
func TestGroupsBesideMM2(t *testing.T) {
	part := func(sampled *int64) switchover.GroupPartition {
		return switchover.GroupPartition{AgeSeconds: ptr(1.0), RecordsToRead: ptr(int64(50)), RecordsReadAgain: ptr(int64(2)), RecordsReadAgainMM2: sampled}
	}
	got := switchGroups([]switchover.Group{
		{Group: "billing", State: "SYNCED", Partitions: []switchover.GroupPartition{part(ptr(int64(90))), part(ptr(int64(7)))}},
		{Group: "audit", State: "SYNCED", Partitions: []switchover.GroupPartition{part(ptr(int64(1))), part(nil)}},
	})
	want := ` GROUP    PARTITIONS  STATE   RECORDS TO READ  READ AGAIN  READ AGAIN BY MM2'S SYNCS  COMMIT AGE SECONDS  REASON
 billing           2  SYNCED              100           4                         97                 1.0
 audit             2  SYNCED              100           4                          ?                 1.0
`
	if strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
