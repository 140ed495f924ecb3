package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/contrast"
)

// asKlink makes the test binary the program itself.
const asKlink = "KLINK_APP_TEST_AS_KLINK"

// testProgram is klink as a process of its own.
func testProgram(args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asKlink+"=1")
	return cmd, nil
}

// contrasting are the real parts, with the test binary as klink.
func contrasting() Parts {
	parts := production()
	parts.Contrast = runContrast(testProgram)
	return parts
}

func smallContrast(t testing.TB, args ...string) (contrast.Result, result) {
	t.Helper()
	r := execute(t.Context(), contrasting(), append([]string{"contrast", "--duration", "2s", "--rate", "500", "--seed", "7", "-o", "json"}, args...)...)
	var out contrast.Result
	if err := json.Unmarshal([]byte(r.out), &out); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return out, r
}

// Mirror mode loses, repeats and shifts nothing, nobody reads anything again, and
// the same seed gives the same counts (X2). What other modes there are lose nothing.
func TestContrast(t *testing.T) {
	folder := t.TempDir()
	second := make(chan map[string]int64)
	go func() {
		r, err := runContrast(testProgram)(t.Context(), ContrastRequest{Seed: 7, Load: 2 * time.Second, Rate: 500, BulkBytes: 1 << 20, Only: "mirror", Say: func(string) {}})
		if err != nil || len(r.Modes) != 1 {
			t.Errorf("%v: %+v", err, r)
			close(second)
			return
		}
		second <- r.Modes[0].Counts()
	}()
	first, ran := smallContrast(t, "--report", folder)
	if ran.code != 0 || !first.Kept || len(first.Modes) == 0 || first.Modes[0].Mode != "mirror" {
		t.Fatalf("%+v", ran)
	}
	for _, m := range first.Modes {
		if m.Error != "" || m.Weight == nil || m.Copied == 0 || m.Lost+m.Twice+m.Revealed+m.Disorder != 0 || m.Superseded == 0 || len(m.Groups) != 3 || m.SwitchSeconds == nil || m.LagP99Seconds == nil {
			t.Errorf("%+v", m)
		}
	}
	mirror := first.Modes[0]
	if *mirror.EqualShare != 1 || *mirror.ErrorMax != 0 || mirror.CarriedSeconds == nil || mirror.PeakMemoryBytes == nil {
		t.Errorf("%+v", mirror)
	}
	if diff := cmp.Diff(mirror.Counts(), <-second); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	for _, name := range []string{"contrast.json", "contrast.html"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), "mirror") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// On clusters of the user's nothing is left but klink's own topics.
func TestContrastOnOwnClusters(t *testing.T) {
	src, dst := pairOfClusters(t)
	text := fmt.Sprintf("links:\n  - name: east\n    source: {brokers: [%q]}\n    target: {brokers: [%q]}\n    topics: {include: [orders]}\n    groups: {tail: off, interval: 200ms}\n",
		src.ListenAddrs()[0], dst.ListenAddrs()[0])
	file := filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, ran := smallContrast(t, "-c", file, "--only", "mirror")
	if ran.code != 0 || !r.Kept || r.Modes[0].Copied == 0 || !strings.Contains(r.Clusters, "east") {
		t.Fatalf("%+v", ran)
	}
	mustHoldNoContrast(t, src, dst)
	// Nor when it is stopped in the midst, early or late.
	for _, scene := range []string{"mirror: the mirror starts", "mirror: load, with the mirror beside it"} {
		ctx, stop := context.WithCancel(t.Context())
		parts := contrasting()
		run := parts.Contrast
		parts.Contrast = func(ctx context.Context, req ContrastRequest) (contrast.Result, error) {
			req.Say = func(what string) {
				if what == scene {
					stop()
				}
			}
			return run(ctx, req)
		}
		ran := execute(ctx, parts, "contrast", "--duration", "2s", "--rate", "500", "-c", file, "--only", "mirror")
		if ran.code != 1 || ran.err != "klink: contrast: stopped; no mode was finished\n" || ran.out != "" {
			t.Errorf("%s: %+v", scene, ran)
		}
		mustHoldNoContrast(t, src, dst)
		stop()
	}
}

// mustHoldNoContrast looks for what klink contrast should have taken away.
func mustHoldNoContrast(t testing.TB, src, dst *kfake.Cluster) {
	t.Helper()
	for _, c := range []*kfake.Cluster{src, dst} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		topics, err := kadm.NewClient(cl).ListTopicsWithInternal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		groups, err := kadm.NewClient(cl).ListGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(topics.Names(), groups.Groups()...) {
			if strings.Contains(name, "contrast") {
				t.Errorf("%s is left", name)
			}
		}
	}
	if got := execute(t.Context(), production(), "status", "--target", dst.ListenAddrs()[0]); strings.Contains(got.out, "contrast") {
		t.Errorf("%+v", got)
	}
}

func TestContrastSaysWhatBroke(t *testing.T) {
	broken := contrast.Result{Seed: 7, Modes: []contrast.ModeResult{{Mode: "mirror", Weight: &contrast.Weight{Lost: 3}, Findings: []string{"3 records are lost"}}}}
	parts := Parts{Contrast: func(context.Context, ContrastRequest) (contrast.Result, error) { return broken, nil }}
	r := execute(t.Context(), parts, "contrast")
	if r.code != 1 || !strings.Contains(r.out, "mirror BROKE ITS PROMISES:\n  3 records are lost") || !strings.HasSuffix(r.err, "klink: contrast: not every promise was kept: mirror\n") {
		t.Errorf("%+v", r)
	}
	broken.Modes = append(broken.Modes, contrast.ModeResult{Mode: "checkpoint", Error: "it ended"})
	r = execute(t.Context(), parts, "contrast")
	if r.code != 1 || !strings.Contains(r.err, "klink: contrast: failed, and not measured: checkpoint\ncontrast: not every promise was kept: mirror\n") {
		t.Errorf("%+v", r)
	}
}

// What was finished before Ctrl-C is told in every form, and the rest is named.
func TestContrastThatIsStopped(t *testing.T) {
	r := contrast.Result{Seed: 7, Unfinished: []string{"checkpoint"}, Modes: []contrast.ModeResult{{Mode: "mirror", Weight: &contrast.Weight{Copied: 1234}}}}
	err := error(&contrast.StoppedError{Finished: []string{"mirror"}, Unfinished: r.Unfinished})
	parts := Parts{Contrast: func(context.Context, ContrastRequest) (contrast.Result, error) { return r, err }}
	folder := t.TempDir()
	const says = "klink: contrast: stopped; finished: mirror; not finished: checkpoint\n"
	told := execute(t.Context(), parts, "contrast", "--report", folder)
	if told.code != 1 || told.err != says || !strings.Contains(told.out, "1,234") || !strings.Contains(told.out, "STOPPED before these were finished: checkpoint\n") {
		t.Errorf("%+v", told)
	}
	for _, name := range []string{"contrast.json", "contrast.html"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), "checkpoint") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	told = execute(t.Context(), parts, "contrast", "-o", "json")
	var got contrast.Result
	if err := json.Unmarshal([]byte(told.out), &got); err != nil || told.code != 1 || told.err != says || len(got.Modes) != 1 || len(got.Unfinished) != 1 || got.Kept {
		t.Errorf("%v: %+v", err, told)
	}
	// An earlier report is not written over by one of nothing.
	r.Modes, err = nil, &contrast.StoppedError{Unfinished: []string{"mirror", "checkpoint"}}
	told = execute(t.Context(), parts, "contrast", "--report", folder)
	if told.code != 1 || told.err != "klink: contrast: stopped; no mode was finished\n" || told.out != "" {
		t.Errorf("%+v", told)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "contrast.json")); err != nil || !strings.Contains(string(text), "1234") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestContrastHelp(t *testing.T) {
	golden(t, "testdata/help-contrast.golden", execute(t.Context(), Parts{}, "contrast", "--help").out)
}

func TestContrastRefuses(t *testing.T) {
	for _, args := range [][]string{{"orders"}, {"--duration", "1s"}, {"--rate", "1"}, {"-o", "xml"}, {"--only", "both"}, {"--seed", "x"}, {"-c", "x.yaml", "--with-mm2"}, {"-c", "none.yaml"}} {
		if r := execute(t.Context(), contrasting(), append([]string{"contrast"}, args...)...); r.code != 2 || !strings.HasPrefix(r.err, "klink: ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
