package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/cmd/config"
	"klink/cmd/demo"
	"klink/cmd/lab"
	"klink/linker/state"
)

// watched is an output that tells when a text has been written.
type watched struct {
	text string
	seen func()

	mu  sync.Mutex // guards all below
	out bytes.Buffer
	hit bool
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.out.Write(b)
	if w.seen != nil && !w.hit && strings.Contains(w.out.String(), w.text) {
		w.hit = true
		go w.seen()
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// runDemo runs the command with the real daemon; nothing may be left of it (D4).
func runDemo(t *testing.T, ctx context.Context, parts Parts, out *watched, args ...string) (code int, errOut string) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	var stderr watched
	code = runWith(ctx, parts, append([]string{"klink", "demo"}, args...), strings.NewReader(""), out, &stderr)
	goleak.VerifyNone(t, leaks)
	return code, stderr.String()
}

func TestDemoEndsEqual(t *testing.T) {
	var out watched
	code, errOut := runDemo(t, t.Context(), production(), &out, "--seconds", "2", "--rate", "3000")
	if code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, &out, errOut)
	}
	for _, want := range []string{"18 ACTIVE", "THE SOURCE IS DEAD", `group "billing" goes on at the target`, "18 SOURCE_UNAVAILABLE",
		"OFFSETS", "orders    lz4", "payments  none", "clicks    zstd", "sensors   snappy", "audit     gzip", "100 %", "The switch took", "EQUAL: all "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// planting is the real daemon; once it has lost the source, a record of somebody
// else's lies on the target.
type planting struct {
	Daemon
	plant func()
	once  sync.Once
}

func (p *planting) Report() state.Report {
	r := p.Daemon.Report()
	for _, l := range r.Links {
		for _, t := range l.Topics {
			if t.State == state.SourceUnavailable {
				p.once.Do(p.plant)
			}
		}
	}
	return r
}

func TestDemoFindsAPlantedRecord(t *testing.T) {
	parts := production()
	wire := parts.Wire
	parts.Wire = func(ctx context.Context, cfg *config.Config, d Deps) (Daemon, error) {
		daemon, err := wire(ctx, cfg, d)
		return &planting{Daemon: daemon, plant: func() { produceOne(t, cfg.Links[0].Target.Brokers) }}, err
	}
	var out watched
	code, errOut := runDemo(t, t.Context(), parts, &out, "--seconds", "2", "--rate", "1000", "-o", "json")
	var r demo.Result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v in\n%s\n%s", err, &out, errOut)
	}
	if code != 1 || r.Equal || len(r.Findings) == 0 || !strings.Contains(errOut, "not everything is equal: audit[0]") {
		t.Fatalf("exit %d, equal %v, %q\n%s", code, r.Equal, r.Findings, errOut)
	}
	if !strings.Contains(out.String(), `"_command": "demo"`) || len(r.Topics) != 5 || len(r.Topics[0].Partitions) != 6 || r.SwitchSeconds == nil {
		t.Errorf("not the whole result:\n%s", &out)
	}
}

func produceOne(t *testing.T, brokers []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "audit", Value: []byte("foreign")}).FirstErr(); err != nil {
		t.Error(err)
	}
}

func TestDemoIsStopped(t *testing.T) {
	moments := []string{"klink mirrors live", "18 ACTIVE", "THE SOURCE IS DEAD"}
	if testing.Short() {
		moments = moments[2:] // comes through the other two
	}
	for _, at := range moments {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &watched{text: at, seen: cancel}
			code, errOut := runDemo(t, ctx, production(), out, "--seconds", "1", "--rate", "500")
			if code != 1 || !strings.HasSuffix(errOut, "klink: demo: stopped before the end\n") {
				t.Errorf("exit %d, %s\n%s", code, errOut, out)
			}
		})
	}
}

// A daemon that ends is the end of the story.
func TestDemoWithoutItsDaemon(t *testing.T) {
	broken := newDaemon(testReport("default"))
	broken.failure = errors.New("broken invariant")
	var out watched
	code, errOut := runDemo(t, t.Context(), Parts{Wire: broken.wire}, &out)
	if code != 1 || !strings.Contains(errOut, "klink: demo: klink ended: broken invariant") {
		t.Errorf("exit %d, %s\n%s", code, errOut, &out)
	}
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{{"--seconds", "41"}, {"--rate", "99"}, {"-o", "xml"}, {"orders"}} {
		if code, errOut := runDemo(t, t.Context(), Parts{}, &watched{}, args...); code != 2 || !strings.HasPrefix(errOut, "klink: demo: ") {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}

// Kept, both clusters answer ordinary clients, and records go on being mirrored.
func TestDemoIsKept(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: "Ctrl-C ends everything"}
	out.seen = func() {
		defer cancel()
		var addrs [2][]string
		for line := range strings.Lines(out.String()) {
			for i, side := range []string{"  source  ", "  target  "} {
				if rest, ok := strings.CutPrefix(line, side); ok {
					addrs[i] = strings.Split(strings.TrimSpace(rest), ",")
				}
			}
		}
		awaitMoreMirrored(t, lab.At{kgo.SeedBrokers(addrs[0]...)}, lab.At{kgo.SeedBrokers(addrs[1]...)})
	}
	code, errOut := runDemo(t, ctx, production(), out, "--seconds", "1", "--rate", "500", "--keep")
	if code != 0 {
		t.Errorf("exit %d, %s\n%s", code, errOut, out)
	}
}

// awaitMoreMirrored waits until the source has got more records than it has now,
// and the target has them all.
func awaitMoreMirrored(t *testing.T, src, dst lab.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	topics := []string{"orders", "payments", "clicks", "sensors", "audit"}
	total := func() (n int64) {
		bounds, err := lab.ReadBounds(ctx, src, lab.ReadUncommitted, topics...)
		if err != nil {
			t.Error(err)
		}
		for _, b := range bounds {
			n += b.End
		}
		return n
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for before := total(); total() <= before+10; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Error("the kept source gets no records")
			return
		}
	}
	if err := lab.AwaitMirrored(ctx, src, dst, lab.CompareOptions{Topics: topics}); err != nil {
		t.Error(err)
	}
}
