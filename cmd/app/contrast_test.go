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
	if r.code != 1 || !strings.Contains(r.out, "mirror BROKE ITS PROMISES:\n  3 records are lost") || !strings.HasSuffix(r.err, "klink: contrast: not every promise was kept\n") {
		t.Errorf("%+v", r)
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
