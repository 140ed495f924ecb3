package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func ptr[T any](v T) *T { return &v }

func sampleFrame(s state.State) frame {
	partition := func(n int32) state.Partition {
		return state.Partition{Partition: n, State: s, SourceEnd: ptr(int64(1500)), TargetEnd: ptr(int64(1400)), LagRecords: ptr(int64(100)), LagSeconds: ptr(.25)}
	}
	return frame{
		topics: []topic{{"orders", 2, "lz4", 100}},
		report: state.Report{Links: []state.Link{{Topics: []state.Topic{{SourceTopic: "orders", Partitions: []state.Partition{partition(0), partition(1)}}}}}},
		groups: []state.Group{{Partitions: []state.GroupPartition{
			{SourceTopic: "orders", SourceOffset: ptr(int64(1300)), TargetOffset: ptr(int64(1200))}, {SourceTopic: "orders", Partition: 1, SourceOffset: ptr(int64(7))}}}},
		produced: 3010, read: 2900,
	}
}

func TestPlainLine(t *testing.T) {
	var out bytes.Buffer
	v := newView(Screen{Out: &out})
	v.start(time.Now())
	v.show(sampleFrame(state.Active))
	want := " 0.0 s  produced 3,010 (0/s)  mirrored 2,800 (0/s)  group read 2,900  lag 200, 0.25 s  committed 1,307, carried over 1,200  2 ACTIVE\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// What is said and logged stands above the table, which is drawn over itself.
func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	v := newView(Screen{Out: &out, Logs: &out, Size: func() (int, int) { return 120, 40 }})
	v.start(time.Now())
	v.show(sampleFrame(state.CatchingUp))
	v.show(sampleFrame(state.Active))
	v.say("hello")
	if _, err := v.logs().Write([]byte("a log line\n")); err != nil {
		t.Fatal(err)
	}
	v.stop()
	v.say("below")
	want := []string{
		"hello",
		"a log line",
		" TOPIC   CODEC  SOURCE  TARGET  LAG  SECONDS  STATE     COMMITTED  CARRIED ",
		" orders  lz4     3,000   2,800  200     0.25  2 ACTIVE      1,307    1,200 ",
		" 0.0 s  produced 3,010 (0/s)  mirrored 2,800 (0/s)  group read 2,900",
		"below",
		"",
	}
	if diff := cmp.Diff(want, terminal(t, out.String())); diff != "" {
		t.Error(diff)
	}
}

// terminal plays what goes to a terminal, as far as the view uses one.
func terminal(t *testing.T, written string) []string {
	t.Helper()
	lines := []string{""}
	at := 0
	for len(written) > 0 {
		if rest, ok := strings.CutPrefix(written, "\r\x1b[3A\x1b[J"); ok {
			at -= 3
			lines = append(lines[:at], "")
			written = rest
			continue
		}
		switch c := written[0]; c {
		case '\x1b', '\r':
			t.Fatalf("unexpected: %q", written)
		case '\n':
			at++
			lines = append(lines, "")
		default:
			lines[at] += string(c)
		}
		written = written[1:]
	}
	return lines
}

// Without colour there is no escape but those that move the cursor; a narrow
// terminal gets no half numbers, a low one plain lines.
func TestNarrowAndLow(t *testing.T) {
	for _, c := range []struct {
		name           string
		columns, lines int
		want           string
	}{
		{"narrow", 60, 40, " TOPIC   CODEC  SOURCE  TARGET  LAG  SECONDS  STATE    "},
		{"low", 120, 4, " 0.0 s  produced 3,010 (0/s)  mirrored 2,800 (0/s)  group read 2,900  lag 200, 0.25 s  committed 1,307, carried over 1,200  2 ACTIVE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			v := newView(Screen{Out: &out, Size: func() (int, int) { return c.columns, c.lines }})
			v.start(time.Now())
			v.show(sampleFrame(state.Active))
			first, _, _ := strings.Cut(out.String(), "\n")
			if diff := cmp.Diff(c.want, first); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("escapes in %q", out.String())
			}
			for line := range strings.Lines(out.String()) {
				if len([]rune(line)) > c.columns+1 && c.lines > 10 {
					t.Errorf("wider than the terminal: %q", line)
				}
			}
		})
	}
}

func TestStateWords(t *testing.T) {
	for _, c := range []struct {
		f    frame
		want string
	}{
		{frame{}, "no partition yet"},
		{frame{report: state.Report{Links: []state.Link{{State: state.Failed, Reason: "UNREACHABLE", Detail: "target"}}}}, "FAILED: UNREACHABLE target"},
		{sampleFrame(state.Halted), "2 HALTED"},
	} {
		if got := c.f.of("").stateWords(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
