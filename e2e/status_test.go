package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/state"
)

// whatIsShown: status, metrics and health of two links in one process, with the
// daemon alive, dead, and started again without its source.
func whatIsShown(t *testing.T, p pair) {
	const records = 3_000
	n := fill(t, p.src, 41, records, lab.TopicSpec{Name: "sales", Partitions: 3})
	n += fill(t, p.src, 42, records, lab.TopicSpec{Name: "stock", Partitions: 2})
	door := detour(t, p.src.Bootstrap()[0], proxy.Pass)
	sales := openLink("sales-link", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "sales")
	sales["topics"].(object)["rename"] = object{"prefix": "dr."}
	file := configFile(t, sales, openLink("stock-link", door.Addr(), p.dst.Bootstrap()[0], "stock"))
	renamed := lab.CompareOptions{Topics: []string{"sales", "stock"}, Rename: map[string]string{"sales": "dr.sales"}}

	k := startKlink(t, "-c", file)
	if err := lab.AwaitMirrored(within(t, patience), p.src, p.dst, renamed); err != nil {
		t.Fatal(err)
	}
	c, err := lab.CompareClusters(within(t, patience), p.src, p.dst, renamed)
	if err != nil || !c.Equal() || !c.SameEnds() || c.Records() != n {
		t.Fatalf("%v, %d records of %d: %s", err, c.Records(), n, c)
	}
	ends := map[string]map[int32]int64{}
	for _, x := range c.Partitions {
		if ends[x.Src.Topic] == nil {
			ends[x.Src.Topic] = map[int32]int64{}
		}
		ends[x.Src.Topic][x.Src.Number] = x.SrcBounds.End
	}
	for topic := range ends {
		k.awaitTopic(t, topic, state.Active, "")
	}
	k.awaitReady(t)
	requireMetrics(t, p, k, ends)

	r, o := statusOf(t, "-c", file, "--http", k.addr)
	if o.errOut != "" {
		t.Errorf("klink status complains: %s", o.errOut)
	}
	requireShown(t, r, ends)
	requireContract(t, o.out)
	if r, _ := statusOf(t, "stock", "-c", file, "--http", k.addr, "--link", "stock-link"); len(r.Links) != 1 || len(r.Links[0].Topics) != 1 {
		t.Errorf("one link and topic asked for, shown: %+v", r)
	}
	if o := command(t, "status", "dr.sales", "--http", k.addr); o.code != 0 || !strings.Contains(o.out, "sales -> dr.sales") || strings.Contains(o.out, "stock ") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	if o := command(t, "status", "salez", "-o", "json", "-c", file, "--http", k.addr); o.code != 1 || !strings.Contains(o.errOut, "sales") || o.out != "" {
		t.Errorf("a topic that is not there: exit code %d: %s%s", o.code, o.out, o.errOut)
	}
	if code, page, err := k.get(within(t, patience), "/"); err != nil || code != 200 || !strings.Contains(string(page), "dr.sales") {
		t.Errorf("status page: %d, %v", code, err)
	}

	// The record on the target is at most two seconds behind; then nobody is there
	// to be asked, and the last record is shown with its age.
	dead := func() state.Report { r, _ := statusOf(t, "-c", file, "--http", "127.0.0.1:1"); return r }
	deadline := time.Now().Add(patience)
	for !shows(dead(), ends) {
		if time.Now().After(deadline) {
			t.Fatalf("the record on the target never became %v: %+v", ends, dead())
		}
	}
	k.kill(t)
	killed := time.Now()
	r, o = statusOf(t, "-c", file, "--http", k.addr)
	requireShown(t, r, ends)
	requireContract(t, o.out)
	if !strings.Contains(o.errOut, "no answer from a running klink") || !strings.Contains(o.errOut, " old") || r.AsOf.After(killed) || r.AsOf.Before(killed.Add(-3*patience)) {
		t.Errorf("as of %s, killed at %s: %s", r.AsOf, killed, o.errOut)
	}
	if o := command(t, "status", "--http", "127.0.0.1:1"); o.code != 1 || !strings.Contains(o.errOut, "no answer from a running klink") {
		t.Errorf("nobody to ask: exit code %d: %s", o.code, o.errOut)
	}

	// Without its source the link shows what it knew; what it cannot know is null.
	if err := door.SetMode(proxy.Refuse); err != nil {
		t.Fatal(err)
	}
	k = startKlink(t, "-c", file)
	k.awaitLink(t, "stock-link", state.Failed, state.Unreachable)
	k.awaitReport(t, "the record of stock", func(r state.Report) bool { return len(topicOf(linkOf(r, "stock-link"), "stock").Partitions) == 2 })
	r, o = statusOf(t, "-c", file, "--http", k.addr)
	requireContract(t, o.out)
	for _, s := range topicOf(linkOf(r, "stock-link"), "stock").Partitions {
		if s.State != state.Pending || s.LagRecords != nil || s.LagSeconds != nil || s.TargetEnd == nil {
			t.Errorf("%+v", s)
		}
	}
	if _, m, err := k.get(within(t, patience), "/metrics"); err != nil || strings.Contains(string(m), `klink_lag_records{link="stock-link"`) {
		t.Errorf("an unknown lag is in the metrics, %v", err)
	}
	k.awaitLink(t, "sales-link", state.Active, "")
	if err := door.SetMode(proxy.Pass); err != nil {
		t.Fatal(err)
	}
	k.awaitTopic(t, "stock", state.Active, "")
	k.requireSaidOnce(t)

	// Ctrl-C is as good as SIGTERM.
	if err := syscall.Kill(k.proc.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	k.awaitExit(t, 0)
}

// awaitExit waits for klink to end by itself.
func (k *klink) awaitExit(t testing.TB, code int) {
	t.Helper()
	select {
	case <-k.proc.Done():
	case <-time.After(stopTime):
		t.Fatalf("klink did not end within %v", stopTime)
	}
	if err := k.proc.Err(); (err == nil) != (code == 0) || err != nil && err.Error() != fmt.Sprintf("exit status %d", code) {
		t.Errorf("klink ended with %v, want exit code %d", err, code)
	}
}

// lagging: a link that may read little is behind, and says by how much.
func lagging(t *testing.T, p pair) {
	n := fill(t, p.src, 43, 4_000, lab.TopicSpec{Name: "narrow", Partitions: 1})
	l := openLink("narrow", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "narrow")
	l["limits"] = object{"bytes_per_second": "100KiB"}
	k := startKlink(t, "-c", configFile(t, l))
	seen := k.await(t, "a lag", func(l state.Link) bool {
		s, ok := partition(l, "narrow", 0)
		return ok && s.State == state.CatchingUp && s.LagRecords != nil && *s.LagRecords > 0 && s.LagSeconds != nil && *s.LagSeconds > 0.2
	})
	s, _ := partition(seen, "narrow", 0)
	if *s.SourceEnd != n || *s.LagRecords != *s.SourceEnd-*s.TargetEnd {
		t.Errorf("%d records; source end %d, target end %d, lag %d", n, *s.SourceEnd, *s.TargetEnd, *s.LagRecords)
	}
	m := k.metrics(t)
	if lag := m[`klink_lag_records{link="narrow",partition="0",topic="narrow"}`]; lag <= 0 || lag > float64(*s.LagRecords) {
		t.Errorf("lag %v in the metrics after %d in the status", lag, *s.LagRecords)
	}
	if lag := m[`klink_lag_seconds{link="narrow",partition="0",topic="narrow"}`]; lag < *s.LagSeconds {
		t.Errorf("lag of %v s in the metrics after %v in the status", lag, *s.LagSeconds)
	}
	requireMirrored(t, p, n, "narrow")
	k.awaitTopic(t, "narrow", state.Active, "")
	if lag := k.metrics(t)[`klink_lag_seconds{link="narrow",partition="0",topic="narrow"}`]; lag != 0 {
		t.Errorf("lag of %v s when all is mirrored", lag)
	}
	k.stop(t)
}

// metrics reads all series by their names with labels.
func (k *klink) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	code, body, err := k.get(within(t, patience), "/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("/metrics answers %d, %v", code, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil || !strings.HasPrefix(line, "klink_") {
			t.Errorf("a line that is no metric of klink's: %s", line)
		}
		out[line[:at]] = v
	}
	return out
}

// requireMetrics holds records, bytes and lag against what the target holds.
func requireMetrics(t testing.TB, p pair, k *klink, ends map[string]map[int32]int64) {
	t.Helper()
	dirs, err := admin(t, p.dst).DescribeAllLogDirs(within(t, patience), nil)
	if err != nil {
		t.Fatal(err)
	}
	size := map[string]int64{}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(x kadm.DescribedLogDirPartition) { size[fmt.Sprintf("%s/%d", x.Topic, x.Partition)] = x.Size })
	})
	m := k.metrics(t)
	target := map[string]string{"sales": "dr.sales", "stock": "stock"}
	for topic, parts := range ends {
		for n, end := range parts {
			labels := fmt.Sprintf(`{link="%s-link",partition="%d",topic="%s"}`, topic, n, topic)
			for name, want := range map[string]int64{
				"klink_mirrored_records_total": end,
				"klink_mirrored_bytes_total":   size[fmt.Sprintf("%s/%d", target[topic], n)],
				"klink_lag_records":            0,
				"klink_lag_seconds":            0,
			} {
				if got, ok := m[name+labels]; !ok || got != float64(want) {
					t.Errorf("%s%s is %v (there: %t), want %d", name, labels, got, ok, want)
				}
			}
			shown := fmt.Sprintf(`klink_partition_state{link="%s-link",partition="%d",reason="",state="ACTIVE",topic="%s"}`, topic, n, topic)
			if m[shown] != 1 {
				t.Errorf("%s is %v", shown, m[shown])
			}
		}
	}
	for _, name := range []string{"klink_fetch_duration_seconds_count", "klink_produce_duration_seconds_count", "klink_mirrored_batches_total"} {
		found := false
		for series, v := range m {
			found = found || strings.HasPrefix(series, name+"{") && v > 0
		}
		if !found {
			t.Errorf("nothing is counted in %s", name)
		}
	}
}

func shows(r state.Report, ends map[string]map[int32]int64) bool {
	for topic, parts := range ends {
		for n, end := range parts {
			s, ok := partition(linkOf(r, topic+"-link"), topic, n)
			if !ok || s.State != state.Active || s.TargetEnd == nil || *s.TargetEnd != end || s.LagRecords == nil || *s.LagRecords != 0 {
				return false
			}
		}
	}
	return true
}

func requireShown(t testing.TB, r state.Report, ends map[string]map[int32]int64) {
	t.Helper()
	if !shows(r, ends) || len(r.Links) != 2 {
		b, _ := json.MarshalIndent(r, "", " ")
		t.Errorf("shown is not that all is mirrored up to %v:\n%s", ends, b)
	}
}

// requireContract holds the raw JSON against the names and kinds that scripts
// rely on: no list is null, and every key is there.
func requireContract(t testing.TB, text string) {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		t.Fatal(err)
	}
	has := func(where string, m map[string]any, keys ...string) {
		for _, key := range keys {
			if _, ok := m[key]; !ok {
				t.Errorf("%s has no %s: %v", where, key, maps.Keys(m))
			}
		}
	}
	list := func(m map[string]any, key string) (out []map[string]any) {
		items, ok := m[key].([]any)
		if !ok {
			t.Errorf("%s is no list but %v", key, m[key])
		}
		for _, i := range items {
			out = append(out, i.(map[string]any))
		}
		return out
	}
	has("the report", top, "_command", "_version", "as_of", "links")
	if at, err := time.Parse(time.RFC3339, top["as_of"].(string)); err != nil || at.IsZero() {
		t.Errorf("as_of %v: %v", top["as_of"], err)
	}
	for _, l := range list(top, "links") {
		has("a link", l, "name", "mode", "state", "reason", "topics", "groups")
		list(l, "groups")
		for _, topic := range list(l, "topics") {
			has("a topic", topic, "source_topic", "target_topic", "mode", "state", "partitions")
			for _, s := range list(topic, "partitions") {
				has("a partition", s, "partition", "mode", "state", "reason", "hint", "source_start", "source_end", "source_high_watermark",
					"target_start", "target_end", "lag_records", "lag_seconds", "filled", "padded", "flags", "worker", "as_of")
				if _, ok := s["flags"].([]any); !ok {
					t.Errorf("flags are no list: %v", s["flags"])
				}
			}
		}
	}
}

// TestExitCodes: what cannot be used is refused with code 2 by its name, before
// anything is dialled.
func TestExitCodes(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "klink.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const two = "links:\n- name: a\n  source: {brokers: ['127.0.0.1:1']}\n  target: {brokers: ['127.0.0.1:2']}\n  topics: {include: [x]}\n"
	busy := httpPort(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"help", []string{"--help"}, 0, nil},
		{"help of run", []string{"run", "--help"}, 0, nil},
		{"version", []string{"version"}, 0, nil},
		{"unknown command", []string{"runn"}, 2, []string{"runn", "run"}},
		{"unknown flag", []string{"run", "--sauce", "a:1"}, 2, []string{"sauce"}},
		{"flag after a topic", []string{"status", "orders", "--nope"}, 2, []string{"nope"}},
		{"topics of run", []string{"run", "orders", "--source", "a:1", "--target", "b:1", "--topic", "x"}, 2, []string{"orders"}},
		{"format", []string{"status", "-o", "xml"}, 2, []string{"xml", "table, json"}},
		{"nothing to mirror", []string{"run"}, 2, []string{"-c klink.yaml", "--source"}},
		{"half of a link", []string{"run", "--source", "a:1", "--topic", "x"}, 2, []string{"target"}},
		{"no file", []string{"run", "-c", "/nowhere/klink.yaml"}, 2, []string{"/nowhere/klink.yaml"}},
		{"unknown key", []string{"run", "-c", write(two + "  mood: good\n")}, 2, []string{"klink.yaml:6", "links[0].mood"}},
		{"unknown link", []string{"run", "-c", write(two), "--link", "b"}, 2, []string{"b", "a"}},
		{"no pattern of a group", []string{"run", "-c", write(two + "  groups: {include: ['/(/']}\n")}, 2, []string{"groups.include", "regular expression"}},
		{"not built: acls", []string{"run", "-c", write(two + "  acls: {sync: true}\n")}, 2, []string{"acls.sync", "not built"}},
		{"no pattern of a group by flag", []string{"run", "--source", "a:1", "--target", "b:1", "--topic", "x", "--group", "/"}, 2, []string{"--group", "no pattern"}},
		{"password file", []string{"run", "-c", write(strings.Replace(two, "['127.0.0.1:1']", "['127.0.0.1:1'], sasl: {mechanism: PLAIN, username: u, password_file: /nowhere/secret}", 1))}, 2,
			[]string{"password_file", "/nowhere/secret"}},
		{"the same name twice", []string{"run", "-c", write(two + strings.TrimPrefix(two, "links:\n"))}, 2, []string{"name"}},
		{"a port that is taken", []string{"run", "-c", write(two), "--http", busy}, 2, []string{busy}},
		{"nobody to ask", []string{"status", "--http", "127.0.0.1:1"}, 1, []string{"no answer"}},
		{"nobody at all", []string{"status", "--http", "127.0.0.1:1", "-c", write(two)}, 1, []string{"no answer from a running klink", "none from the target", "nothing listens"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := command(t, c.args...)
			if o.code != c.code {
				t.Fatalf("exit code %d, want %d: %s%s", o.code, c.code, o.out, o.errOut)
			}
			for _, w := range c.says {
				if !strings.Contains(o.errOut, w) {
					t.Errorf("does not say %q: %s", w, o.errOut)
				}
			}
			if c.code != 0 && o.out != "" {
				t.Errorf("a failure writes to stdout: %s", o.out)
			}
		})
	}
}
