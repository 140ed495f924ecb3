package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"klink/cmd/lab/process"
	"klink/cmd/lab/readers"
	"klink/linker/state"
)

// binary is klink, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) {
	if readers.Main() {
		return
	}
	// What bounds how much runs at once is seats: a test that waits for the turn of
	// its subtests keeps its clusters meanwhile.
	flag.Parse()
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "klink-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "klink")
	out, err := exec.Command("go", "build", "-o", binary, "klink/cmd/klink").CombinedOutput()
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "build klink: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// klink is the program as a process of its own.
type klink struct {
	proc *process.Process
	log  *lineLog
	addr string
}

// lineLog keeps what a process writes and tells when something was written.
type lineLog struct {
	mu      sync.Mutex // guards all below
	text    bytes.Buffer
	changed chan struct{}
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(b)
}

func (l *lineLog) read() (text string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.changed
}

// patience is how long a test waits for something that takes well under a
// second on an idle machine.
const patience = 60 * time.Second

// slack is by how much longer than README promises something may take here: other
// tests run beside it, and machines differ.
const slack = 3

// stopTime is how soon klink has to end when it is told to.
const stopTime = slack * 10 * time.Second

// startKlink runs "klink run" with its status service on a free port and
// returns when it has said that it started. It is killed with the test.
func startKlink(t testing.TB, args ...string) *klink {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"run", "--http", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"}, args...)...)
	k := &klink{log: &lineLog{changed: make(chan struct{})}}
	cmd.Stdout, cmd.Stderr = k.log, k.log
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	k.proc = p
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := k.log.read()
			t.Logf("klink %s wrote:\n%s", strings.Join(args, " "), text[max(0, len(text)-20_000):])
			k.dump(t)
		}
		_ = p.Kill() // gone already where the test ended it
	})
	k.addr = k.awaitAddress(t)
	return k
}

// awaitAddress reads the start line.
func (k *klink) awaitAddress(t testing.TB) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		text, changed := k.log.read()
		for _, line := range strings.Split(text, "\n") {
			var l struct{ Msg, HTTP string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "klink started" {
				return l.HTTP
			}
		}
		select {
		case <-changed:
		case <-k.proc.Done():
			t.Fatalf("klink ended at its start: %v\n%s", k.proc.Err(), text)
		case <-deadline:
			t.Fatalf("klink did not start:\n%s", text)
		}
	}
}

// dump ends a klink that runs and shows what all its goroutines were at: what a
// test has waited for in vain is held up somewhere.
func (k *klink) dump(t testing.TB) {
	t.Helper()
	if !k.proc.Running() || k.proc.Thaw() != nil {
		return
	}
	before, _ := k.log.read()
	if err := syscall.Kill(k.proc.PID(), syscall.SIGQUIT); err != nil {
		t.Logf("no goroutines of klink: %v", err)
		return
	}
	select {
	case <-k.proc.Done():
	case <-time.After(stopTime):
	}
	const most = 300_000
	text, _ := k.log.read()
	text = ownStacks(text[len(before):])
	t.Logf("its goroutines:\n%s", text[:min(most, len(text))])
}

// ownStacks leaves out goroutines in which there is nothing of klink: those of the
// clients' connections are many, and come first.
func ownStacks(dump string) string {
	all := strings.Split(dump, "\n\n")
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return !strings.Contains(s, "klink/") }), "\n\n")
}

// kill is kill -9.
func (k *klink) kill(t testing.TB) {
	t.Helper()
	if err := k.proc.Kill(); err != nil {
		t.Fatal(err)
	}
}

// stop is SIGTERM; klink must drain and exit 0, which it gives up after ten seconds
// by its own clock.
func (k *klink) stop(t testing.TB) {
	t.Helper()
	if err := k.proc.Terminate(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-k.proc.Done():
		if err := k.proc.Err(); err != nil {
			t.Fatalf("klink exited with %v, want 0", err)
		}
	case <-time.After(stopTime):
		t.Fatalf("klink did not end within %v of SIGTERM", stopTime)
	}
}

// get asks the status service.
func (k *klink) get(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+k.addr+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

func (k *klink) report(ctx context.Context) (r state.Report, err error) {
	code, b, err := k.get(ctx, "/v1/status")
	if err != nil {
		return r, err
	}
	if code != http.StatusOK {
		return r, fmt.Errorf("status answers %d: %s", code, b)
	}
	return r, json.Unmarshal(b, &r)
}

// await polls the status until it is as wanted; what it last was is told when
// it never becomes so.
func (k *klink) await(t testing.TB, what string, wanted func(state.Link) bool) state.Link {
	t.Helper()
	return k.awaitFor(t, patience, what, wanted)
}

// awaitFor is await for what takes its time.
func (k *klink) awaitFor(t testing.TB, limit time.Duration, what string, wanted func(state.Link) bool) state.Link {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last state.Link
	for {
		if r, err := k.report(ctx); err == nil && len(r.Links) == 1 {
			if last = r.Links[0]; wanted(last) {
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

// partition picks one partition of a report.
func partition(l state.Link, topic string, n int32) (state.Partition, bool) {
	for _, t := range l.Topics {
		if t.SourceTopic != topic {
			continue
		}
		for _, p := range t.Partitions {
			if p.Partition == n {
				return p, true
			}
		}
	}
	return state.Partition{}, false
}

// awaitHalt waits for one partition to halt for a reason.
func (k *klink) awaitHalt(t testing.TB, topic string, n int32, why state.Reason) state.Partition {
	t.Helper()
	l := k.await(t, fmt.Sprintf("%s/%d HALTED %s", topic, n, why), func(l state.Link) bool {
		p, ok := partition(l, topic, n)
		return ok && p.State == state.Halted && p.Reason == string(why)
	})
	p, _ := partition(l, topic, n)
	if p.Hint == "" || p.Detail == "" {
		t.Errorf("%s/%d halted without detail or hint: %+v", topic, n, p)
	}
	return p
}

// awaitEnds waits until partitions of the target end where they should.
func (k *klink) awaitEnds(t testing.TB, topic string, ends map[int32]int64) {
	t.Helper()
	k.await(t, fmt.Sprintf("%s mirrored to %v", topic, ends), func(l state.Link) bool {
		for n, end := range ends {
			p, ok := partition(l, topic, n)
			if !ok || p.TargetEnd == nil || *p.TargetEnd < end || p.State != state.Active {
				return false
			}
		}
		return true
	})
}
