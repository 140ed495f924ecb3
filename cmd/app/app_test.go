package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"klink/cmd/config"
	"klink/linker/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if os.Getenv(asKlink) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := Run(ctx, append([]string{"klink"}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), written anew with -update:\n%s", file, diff)
	}
}

func ptr[T any](v T) *T { return &v }

var asOf = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func testReport(link string) state.Report {
	known := func(n int32, s state.State, lag int64, seconds float64) state.Partition {
		return state.Partition{Partition: n, Mode: "mirror", State: s, LagRecords: &lag, LagSeconds: &seconds, TargetEnd: ptr(int64(100)), AsOf: state.Seen{Time: asOf}}
	}
	held := func(p state.Partition) state.Partition {
		p.Detail = "offsets 120 to 479 wait for the transaction of producer 7 (epoch 0), open at offset 120 since 2026-01-31T11:00:00Z or longer"
		return p
	}
	diverged := state.Partition{Partition: 2, Mode: "mirror", State: state.Halted, Reason: "DIVERGED", Detail: "records differ at offset 7", Hint: "compare both logs", AsOf: state.Seen{Time: asOf}}
	return state.Report{AsOf: asOf, Links: []state.Link{{
		Name: link, Mode: "mirror", State: state.Active,
		Topics: []state.Topic{
			{SourceTopic: "orders", TargetTopic: "orders", Mode: "mirror", State: state.Halted, Partitions: []state.Partition{
				known(0, state.Active, 0, 0), known(1, state.Active, 0, 0), diverged, held(known(3, state.CatchingUp, 1234, 2.5))}},
			{SourceTopic: "payments.eu", TargetTopic: "x.payments.eu", Mode: "mirror", State: state.Pending, Reason: "TOPIC_MISSING", Hint: "klink waits for it"},
		},
	}}}
}

// fakeDaemon mirrors nothing.
type fakeDaemon struct {
	report  state.Report
	failure error // of Run at once
	wired   *config.Config
	once    sync.Once
	running chan struct{}
	drained bool
}

func newDaemon(r state.Report) *fakeDaemon {
	return &fakeDaemon{report: r, running: make(chan struct{})}
}

func (d *fakeDaemon) wire(_ context.Context, cfg *config.Config, _ Deps) (Daemon, error) {
	d.wired = cfg
	return d, nil
}

func (d *fakeDaemon) Run(ctx context.Context) error {
	d.once.Do(func() { close(d.running) })
	if d.failure != nil {
		return d.failure
	}
	<-ctx.Done()
	d.drained = true
	return ctx.Err()
}

func (d *fakeDaemon) Report() state.Report { return d.report }

type result struct {
	code     int
	out, err string
}

func execute(ctx context.Context, p Parts, args ...string) result {
	var out, errOut bytes.Buffer
	code := runWith(ctx, p, append([]string{"klink"}, args...), strings.NewReader(""), &out, &errOut)
	return result{code: code, out: out.String(), err: errOut.String()}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// configFile writes a file with one link per name.
func configFile(t testing.TB, listen string, links ...string) string {
	t.Helper()
	text := fmt.Sprintf("http: {listen: %q}\nlinks:\n", listen)
	for _, name := range links {
		text += fmt.Sprintf("  - name: %s\n    source: {brokers: [s:9092]}\n    target: {brokers: [t:9092]}\n    topics: {include: [orders]}\n", name)
	}
	file := filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The whole way: run with a daemon, ask it over HTTP, stop it.
func TestRunAndStatus(t *testing.T) {
	d := newDaemon(testReport("east"))
	listen := freeAddress(t)
	file := configFile(t, listen, "east")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- execute(ctx, Parts{Wire: d.wire}, "run", "-c", file) }()
	<-d.running

	asTable := execute(t.Context(), Parts{}, "status", "-c", file)
	if asTable.code != 0 || asTable.err != "" {
		t.Errorf("%+v", asTable)
	}
	golden(t, "testdata/status.golden", asTable.out)
	golden(t, "testdata/status-topic.golden", execute(t.Context(), Parts{}, "status", "orders", "-c", file).out)

	asJSON := execute(t.Context(), Parts{}, "status", "-o", "json", "--http", listen)
	var got map[string]any
	if err := json.Unmarshal([]byte(asJSON.out), &got); err != nil || got["_command"] != "status" || got["_version"] != 1.0 || got["as_of"] != "2026-01-31T12:00:00Z" {
		t.Errorf("%v: %+v", err, asJSON)
	}
	if r := execute(t.Context(), Parts{}, "status", "x.pay*", "-c", file); r.code != 0 || !strings.Contains(r.out, "payments.eu") || strings.Contains(r.out, "orders") {
		t.Errorf("%+v", r)
	}
	if r := execute(t.Context(), Parts{}, "status", "ordres", "-c", file); r.code != 1 || r.err != "klink: status: no topic \"ordres\" is mirrored (did you mean orders?)\n" {
		t.Errorf("%+v", r)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200} {
		if code := fetch(t, listen, path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}

	stop()
	r := <-ended
	if r.code != 0 || !d.drained || r.out != "" {
		t.Errorf("drained %v, %+v", d.drained, r)
	}
	for _, want := range []string{`msg="klink started"`, "config_hash=", "links=1", "http=" + listen, "memory_limit=96MiB", `msg="klink is draining"`, `msg="klink stopped"`} {
		if strings.Count(r.err, want) != 1 {
			t.Errorf("not one %q in\n%s", want, r.err)
		}
	}
	if d.wired.Links[0].Name != "east" {
		t.Errorf("wired with %+v", d.wired)
	}
}

func fetch(t testing.TB, address, path string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestRunWithFlagsOnly(t *testing.T) {
	d := newDaemon(state.Report{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- execute(ctx, Parts{Wire: d.wire}, "run", "--source", "s:9092", "--target", "t:9092", "--topic", "/a{1,2}/", "--topic", "b*", "--http", "", "--log-level", "error")
	}()
	select {
	case <-d.running:
	case r := <-ended:
		t.Fatalf("%+v", r)
	}
	stop()
	if r := <-ended; r.code != 0 || r.err != "" {
		t.Errorf("%+v", r)
	}
	l := d.wired.Links[0]
	if diff := cmp.Diff([]string{"/a{1,2}/", "b*"}, l.Topics.Include); l.Name != config.FlagLink || diff != "" {
		t.Errorf("%s\n%s", l.Name, diff)
	}
}

// What ends klink, and with which code (A3).
func TestRunEnds(t *testing.T) {
	broken := newDaemon(state.Report{})
	broken.failure = errors.New("base offset 7 where 5 was proven")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	refuse := func(err error) Parts {
		return Parts{Wire: func(context.Context, *config.Config, Deps) (Daemon, error) { return nil, err }}
	}
	good := configFile(t, "", "east")
	for _, c := range []struct {
		name  string
		parts Parts
		args  []string
		code  int
		err   string
	}{
		{"broken invariant", Parts{Wire: broken.wire}, []string{"-c", good}, 1, "klink: run: base offset 7 where 5 was proven\n"},
		{"no file", Parts{Wire: broken.wire}, []string{"-c", "testdata/none.yaml"}, 2, "testdata/none.yaml: does not exist"},
		{"nothing", Parts{Wire: broken.wire}, nil, 2, "nothing says what to mirror"},
		{"unknown mode", Parts{Wire: broken.wire}, []string{"--source", "s:1", "--target", "t:1", "--topic", "a", "--mode", "checkpont"}, 2, `"checkpont" is not allowed (did you mean checkpoint?)`},
		{"topic", Parts{Wire: broken.wire}, []string{"-c", good, "orders"}, 2, `takes no topics, but got "orders"`},
		{"port taken", Parts{Wire: broken.wire}, []string{"-c", configFile(t, busy.Addr().String(), "east")}, 2, "address already in use"},
		{"wiring refuses the configuration", refuse(fmt.Errorf("wire: %w", &config.Error{Problems: []config.Problem{{Field: "topics.include[0]", What: "is no pattern"}}})), []string{"-c", good}, 2, "topics.include[0]: is no pattern"},
		{"wiring fails", refuse(errors.New("no entropy")), []string{"-c", good}, 1, "klink: no entropy\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t.Context(), c.parts, append([]string{"run"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.err, c.err) || r.out != "" {
				t.Errorf("%+v", r)
			}
			if strings.Count(r.err, c.err) > 1 {
				t.Errorf("said twice:\n%s", r.err)
			}
		})
	}
}

// Without a daemon the target is asked, and the age is said.
func TestStatusFromTarget(t *testing.T) {
	old := testReport("east")
	old.AsOf = time.Now().Add(-90 * time.Second)
	var asked *config.Config
	parts := Parts{ReportFromTarget: func(_ context.Context, cfg *config.Config) (state.Report, error) { asked = cfg; return old, nil }}
	file := configFile(t, freeAddress(t), "east")
	r := execute(t.Context(), parts, "status", "-c", file)
	if r.code != 0 || !strings.Contains(r.err, "connection refused); this is its last record on the target, 1m3") || !strings.Contains(r.out, "orders") {
		t.Errorf("%+v", r)
	}
	r = execute(t.Context(), parts, "status", "--target", "t:9092", "--http", freeAddress(t), "-o", "json")
	if r.code != 0 || asked.Links[0].Name != config.FlagLink || !json.Valid([]byte(r.out)) {
		t.Errorf("%+v", r)
	}

	failing := Parts{ReportFromTarget: func(context.Context, *config.Config) (state.Report, error) {
		return state.Report{}, errors.New("t:9092: nothing listens on that port")
	}}
	r = execute(t.Context(), failing, "status", "-c", file)
	if r.code != 1 || !strings.Contains(r.err, "no answer from a running klink") || !strings.Contains(r.err, "and none from the target: t:9092") || r.out != "" {
		t.Errorf("%+v", r)
	}
}

// A klink that mirrors other links is not ours; its word is not taken.
func TestStatusFromAnotherDaemon(t *testing.T) {
	d := newDaemon(testReport("west"))
	listen := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- execute(ctx, Parts{Wire: d.wire}, "run", "-c", configFile(t, listen, "west")) }()
	<-d.running
	r := execute(t.Context(), Parts{}, "status", "-c", configFile(t, listen, "east"))
	if r.code != 1 || !strings.Contains(r.err, "mirrors west and not east") {
		t.Errorf("%+v", r)
	}
	if r := execute(t.Context(), Parts{}, "status", "--http", listen, "--link", "west"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	stop()
	<-ended
}

func TestStatusFromSomethingElse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"status":"up"}`) })}
	go other.Serve(l)
	defer other.Close()
	r := execute(t.Context(), Parts{}, "status", "--http", l.Addr().String())
	if r.code != 1 || !strings.Contains(r.err, "what answers there is not this version of klink") {
		t.Errorf("%+v", r)
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{"help": {"--help"}, "help-run": {"help", "run"}, "help-status": {"status", "--help"}} {
		r := execute(t.Context(), Parts{}, args...)
		if r.code != 0 || r.err != "" {
			t.Errorf("%s: %+v", name, r)
		}
		golden(t, "testdata/"+name+".golden", r.out)
	}
	if r := execute(t.Context(), Parts{}); r.code != 2 || r.out != "" || !strings.Contains(r.err, "name a command") {
		t.Errorf("%+v", r)
	}
}

func TestVersion(t *testing.T) {
	if r := execute(t.Context(), Parts{}, "version"); r.code != 0 || !strings.HasPrefix(r.out, "klink dev (go1.") {
		t.Errorf("%+v", r)
	}
	r := execute(t.Context(), Parts{}, "--version", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got["_command"] != "version" || got["version"] != "dev" {
		t.Errorf("%v: %+v", err, r)
	}
	if r := execute(t.Context(), Parts{}, "version", "-o", "xml"); r.code != 2 || !strings.Contains(r.err, "allowed: table, json") {
		t.Errorf("%+v", r)
	}
}

func TestCompletion(t *testing.T) {
	golden(t, "testdata/completion.bash.golden", execute(t.Context(), Parts{}, "completion", "bash").out)
	for shell, want := range map[string]string{"zsh": "bashcompinit", "fish": "complete -c klink"} {
		if r := execute(t.Context(), Parts{}, "completion", shell); r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: %+v", shell, r)
		}
	}
	if r := execute(t.Context(), Parts{}, "completion", "tcsh"); r.code != 2 {
		t.Errorf("%+v", r)
	}
}

func TestColours(t *testing.T) {
	s := &shell{colour: true}
	if got := s.paint(state.Halted); got != "\x1b[31mHALTED\x1b[0m" {
		t.Errorf("%q", got)
	}
	s.colour = false
	if got := s.paint(state.Halted); got != "HALTED" {
		t.Errorf("%q", got)
	}
}
