package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"klink/cmd/lab"
	"klink/linker/state"
)

// object is a piece of klink.yaml; JSON is YAML.
type object map[string]any

// configFile writes a configuration of links and returns its path.
func configFile(t testing.TB, links ...object) string {
	t.Helper()
	b, err := json.MarshalIndent(object{"links": links}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openLink is a link between listeners that want no login.
func openLink(name, src, dst string, topics ...string) object {
	return object{"name": name, "source": object{"brokers": []string{src}}, "target": object{"brokers": []string{dst}},
		"topics": object{"include": topics}}
}

// outcome is a command that has ended.
type outcome struct {
	code        int
	out, errOut string
}

// command runs klink to its end.
func command(t testing.TB, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(within(t, patience), binary, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("klink %s: %v", strings.Join(args, " "), err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// statusOf runs klink status and reads its JSON.
func statusOf(t testing.TB, args ...string) (state.Report, outcome) {
	t.Helper()
	o := command(t, append([]string{"status", "-o", "json"}, args...)...)
	var r struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		state.Report
	}
	if o.code != 0 {
		t.Fatalf("klink status %v: exit code %d: %s", args, o.code, o.errOut)
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || r.Command != "status" || r.Version != 1 {
		t.Fatalf("klink status %v: %v, command %q, version %d:\n%s", args, err, r.Command, r.Version, o.out)
	}
	return r.Report, o
}

// awaitReport polls the status of all links until it is as wanted.
func (k *klink) awaitReport(t testing.TB, what string, wanted func(state.Report) bool) state.Report {
	t.Helper()
	ctx := within(t, 2*patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last state.Report
	for {
		if r, err := k.report(ctx); err == nil {
			if last = r; wanted(last) {
				return last
			}
		}
		select {
		case <-tick.C:
		case <-k.proc.Done():
			t.Fatalf("klink ended while the test waited for: %s", what)
		case <-ctx.Done():
			b, _ := json.MarshalIndent(last, "", " ")
			t.Fatalf("never came: %s; last status:\n%s", what, b)
		}
	}
}

func linkOf(r state.Report, name string) state.Link {
	for _, l := range r.Links {
		if l.Name == name {
			return l
		}
	}
	return state.Link{}
}

func topicOf(l state.Link, name string) state.Topic {
	for _, t := range l.Topics {
		if t.SourceTopic == name {
			return t
		}
	}
	return state.Topic{}
}

// awaitLink waits for one link's state and reason, and holds that a person is
// told what and what to do.
func (k *klink) awaitLink(t testing.TB, name string, s state.State, why state.Reason, words ...string) state.Link {
	t.Helper()
	r := k.awaitReport(t, fmt.Sprintf("link %s %s %s with %q", name, s, why, words), func(r state.Report) bool {
		l := linkOf(r, name)
		return l.State == s && l.Reason == string(why) && tells(l.Detail, words)
	})
	l := linkOf(r, name)
	if why != "" {
		requireTold(t, "link "+name, l.Detail, l.Hint, words)
	}
	return l
}

// awaitTopic waits for one topic's state and reason in any link.
func (k *klink) awaitTopic(t testing.TB, name string, s state.State, why state.Reason, words ...string) state.Topic {
	t.Helper()
	var found state.Topic
	k.awaitReport(t, fmt.Sprintf("topic %s %s %s with %q", name, s, why, words), func(r state.Report) bool {
		for _, l := range r.Links {
			if found = topicOf(l, name); found.State == s && found.Reason == string(why) && tells(found.Detail, words) {
				return true
			}
		}
		return false
	})
	if why != "" {
		requireTold(t, "topic "+name, found.Detail, found.Hint, words)
	}
	return found
}

func tells(detail string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(detail, w) })
}

func requireTold(t testing.TB, what, detail, hint string, words []string) {
	t.Helper()
	if detail == "" || hint == "" {
		t.Errorf("%s: detail %q, hint %q: one is missing", what, detail, hint)
	}
	for _, w := range words {
		if !strings.Contains(detail, w) {
			t.Errorf("%s: the detail does not tell %q: %s", what, w, detail)
		}
	}
}

// requireUnready: /readyz says no and names each of the words, while /healthz
// is fine.
func (k *klink) requireUnready(t testing.TB, words ...string) {
	t.Helper()
	code, body, err := k.get(within(t, patience), "/readyz")
	if err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d, %v, want 503: %s", code, err, body)
	}
	for _, w := range words {
		if !strings.Contains(string(body), w) {
			t.Errorf("/readyz does not tell %q:\n%s", w, body)
		}
	}
	if code, body, err := k.get(within(t, patience), "/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("/healthz answers %d, %v: %s", code, err, body)
	}
}

// awaitReady waits for /readyz to be green.
func (k *klink) awaitReady(t testing.TB) {
	t.Helper()
	ctx := within(t, patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body, err := k.get(ctx, "/readyz")
		if err == nil && code == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("/readyz stays at %d, %v: %s", code, err, body)
		}
	}
}

// complaints counts the lines at WARN and above by what they are about; those
// about partitions of one topic are one kind per partition.
func (k *klink) complaints() map[string]int {
	text, _ := k.log.read()
	said := map[string]int{}
	for line := range strings.Lines(text) {
		var l struct {
			Level, Msg, Link, Topic, Reason, Detail, Warning string
			Partition                                        *int32
		}
		if json.Unmarshal([]byte(line), &l) != nil || (l.Level != "WARN" && l.Level != "ERROR") {
			continue
		}
		about := fmt.Sprintf("%s %s: link=%s topic=%s reason=%s", l.Level, l.Msg, l.Link, l.Topic, l.Reason)
		// Of one reason there can be one trouble on each side, and several rights.
		if side, _, ok := strings.Cut(l.Detail, ": "); ok && (side == "source" || side == "target") {
			about += " side=" + side
		}
		for _, m := range namedRight.FindAllString(l.Detail, -1) {
			about += " " + m
		}
		about += " " + l.Warning
		if l.Partition != nil {
			about += fmt.Sprintf(" partition=%d", *l.Partition)
		}
		said[about]++
	}
	return said
}

// requireSaidOnce holds that no trouble was told in a loop.
func (k *klink) requireSaidOnce(t testing.TB) {
	t.Helper()
	for about, n := range k.complaints() {
		if n > 1 {
			t.Errorf("said %d times: %s", n, about)
		}
	}
}

// requireSaid waits until some line of the log is about all the words: a status
// may show what is on record before a process has met it itself.
func (k *klink) requireSaid(t testing.TB, words ...string) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("the log to say %q", words), func() bool {
		for about := range k.complaints() {
			all := true
			for _, w := range words {
				all = all && strings.Contains(about, w)
			}
			if all {
				return true
			}
		}
		return false
	})
}

// fill makes topics on the source and writes records to all their partitions.
func fill(t testing.TB, c lab.Cluster, seed uint64, total int64, specs ...lab.TopicSpec) int64 {
	t.Helper()
	var names []string
	for i := range specs {
		if specs[i].Configs == nil {
			specs[i].Configs = lab.KeepEverything()
		}
		names = append(names, specs[i].Name)
	}
	create(t, c, specs...)
	return produce(t, c, lab.LoadOptions{Topics: names, Seed: seed, Total: total, MaxBatch: 50}).Acked
}
