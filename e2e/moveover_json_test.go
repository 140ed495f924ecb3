package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"klink/cmd/lab/process"
	"klink/linker/state"
)

// switchReport is what promote, failover and forecast print with -o json. Null
// is unknown.
type switchReport struct {
	Command       string    `json:"_command"`
	Version       int       `json:"_version"`
	Link          string    `json:"link"`
	Switch        string    `json:"switch"`
	DryRun        bool      `json:"dry_run"`
	AsOf          time.Time `json:"as_of"`
	Topics        []switchedTopic
	Groups        []switchedGroup
	RecordsLost   *int64   `json:"records_lost"`
	UnseenSeconds *float64 `json:"unseen_seconds"`
	Failed        int      `json:"failed"`
}

type switchedTopic struct {
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	State       string
	OK          bool
	Reason      string
	Detail      string
	Hint        string
	Partitions  []switchedPartition
}

type switchedPartition struct {
	Partition     int32
	TargetEnd     *int64    `json:"target_end"`
	LastMirrored  *int64    `json:"last_mirrored"`
	SourceEnd     *int64    `json:"source_end"`
	SourceEndAsOf time.Time `json:"source_end_as_of"`
	RecordsLost   *int64    `json:"records_lost"`
	UnseenSeconds *float64  `json:"unseen_seconds"`
	Fenced        bool
	FenceOffset   *int64 `json:"fence_offset"`
	Detail        string
}

type switchedGroup struct {
	Group      string
	State      string
	Reason     string
	Partitions []switchedOffset
}

type switchedOffset struct {
	SourceTopic   string `json:"source_topic"`
	Partition     int32
	SourceOffset  *int64 `json:"source_offset"`
	TargetOffset  *int64 `json:"target_offset"`
	RecordsToRead *int64 `json:"records_to_read"`
	Reason        string
}

func (r switchReport) topic(name string) switchedTopic {
	for _, t := range r.Topics {
		if t.SourceTopic == name {
			return t
		}
	}
	return switchedTopic{}
}

// toRead sums up what a group reads of a topic, as it was foretold; ok is false
// where anything is unknown, or nothing is told.
func (r switchReport) toRead(group, topic string) (n int64, ok bool) {
	for _, g := range r.Groups {
		if g.Group != group {
			continue
		}
		for _, p := range g.Partitions {
			if p.SourceTopic != topic {
				continue
			}
			if p.RecordsToRead == nil {
				return 0, false
			}
			n, ok = n+*p.RecordsToRead, true
		}
	}
	return n, ok
}

// switchover runs promote, failover or forecast and requires an exit code.
func switchover(t testing.TB, code int, verb string, args ...string) switchReport {
	t.Helper()
	return startCommand(t, append([]string{verb, "-o", "json"}, args...)...).report(t, code)
}

// running is a command that has not ended, or has.
type running struct {
	proc        *process.Process
	args        string
	out, errOut lineLog
}

// startCommand runs klink in the background. It is killed with the test.
func startCommand(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{args: strings.Join(args, " ")}
	r.out.changed, r.errOut.changed = make(chan struct{}), make(chan struct{})
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &r.out, &r.errOut
	var err error
	if r.proc, err = process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.proc.Kill() }) // gone already, as a rule
	return r
}

// wait returns when the command has ended.
func (r *running) wait(t testing.TB) outcome {
	t.Helper()
	select {
	case <-r.proc.Done():
	case <-time.After(2 * patience):
		_ = r.proc.Kill()
		errOut, _ := r.errOut.read()
		t.Fatalf("klink %s does not end: %s", r.args, errOut)
	}
	o := outcome{}
	var exit *exec.ExitError
	if err := r.proc.Err(); errors.As(err, &exit) {
		o.code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("klink %s: %v", r.args, err)
	}
	o.out, _ = r.out.read()
	o.errOut, _ = r.errOut.read()
	return o
}

// report waits for the end, requires an exit code and reads the JSON.
func (r *running) report(t testing.TB, code int) switchReport {
	t.Helper()
	o := r.wait(t)
	if o.code != code {
		t.Fatalf("klink %s: exit code %d, want %d:\n%s%s", r.args, o.code, code, o.out, o.errOut)
	}
	var s switchReport
	d := json.NewDecoder(bytes.NewReader([]byte(o.out)))
	if err := d.Decode(&s); err != nil || s.Version != 1 || s.Command != strings.Fields(r.args)[0] {
		t.Fatalf("klink %s: %v, command %q, version %d:\n%s%s", r.args, err, s.Command, s.Version, o.out, o.errOut)
	}
	return s
}

// requireStopped holds that topics are STOPPED for good and returns the cut: where
// what is mirrored ends. A fence may lie behind it.
func requireStopped(t testing.TB, r switchReport, topics ...string) map[string]map[int32]int64 {
	t.Helper()
	cuts := map[string]map[int32]int64{}
	if r.Failed != 0 || r.Link == "" || r.Switch == "" || r.AsOf.IsZero() {
		t.Errorf("%d failed in link %q, switch %q, as of %v", r.Failed, r.Link, r.Switch, r.AsOf)
	}
	for _, name := range topics {
		s := r.topic(name)
		if !s.OK || s.State != "STOPPED" || len(s.Partitions) == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		cuts[name] = map[int32]int64{}
		for _, p := range s.Partitions {
			if p.LastMirrored != nil {
				cuts[name][p.Partition] = *p.LastMirrored + 1
			}
			if p.TargetEnd == nil || *p.TargetEnd < cuts[name][p.Partition] {
				t.Errorf("%s/%d ends on the target before what is mirrored: %+v", name, p.Partition, p)
			}
		}
	}
	return cuts
}

// awaitStopped waits until a topic is STOPPED; where a worker came upon the fence
// before the command, FENCED stays as the reason.
func (k *klink) awaitStopped(t testing.TB, topic string) {
	t.Helper()
	k.await(t, topic+" STOPPED", func(l state.Link) bool {
		s := topicOf(l, topic)
		return s.State == state.Stopped && (s.Reason == "" || s.Reason == string(state.Fenced))
	})
}
