package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/cmd/lab"
	"klink/cmd/lab/proc"
	"klink/cmd/lab/process"
	"klink/contrast"
	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
)

// klinkPatience is how long klink may take to carry a commit over: a second by
// its defaults, and much more on a machine that has other things to do.
const klinkPatience = 20 * time.Second

// klinkMode mirrors with klink as a process of its own, so that what it uses can
// be told apart.
type klinkMode struct {
	mode    config.Mode
	link    config.Link // as far as it is the same for all runs
	klink   func(args ...string) (*exec.Cmd, error)
	promise contrast.Promise
}

func (k klinkMode) Name() string              { return string(k.mode) }
func (k klinkMode) Promise() contrast.Promise { return k.promise }
func (k klinkMode) Patience() time.Duration   { return klinkPatience }

// klinkPromises are what the modes promise.
var klinkPromises = map[config.Mode]contrast.Promise{
	config.ModeMirror:     {NothingLost: true, NothingTwice: true, SameOffsets: true, NothingReadAgain: true},
	config.ModeCheckpoint: {NothingLost: true, NothingTwice: true, NothingReadAgain: true},
}

// Start writes a klink.yaml and runs it.
func (k klinkMode) Start(ctx context.Context, j contrast.Job) (contrast.Mirror, error) {
	l := k.link
	l.Name, l.Mode = j.Name, k.mode
	users := len(l.Source.Brokers) > 0
	if !users {
		l.Source.Brokers, l.Target.Brokers = j.Source.Bootstrap(), j.Target.Bootstrap()
	}
	l.Topics.Include, l.Groups.Include = literally(j.Topics), literally(j.Groups)
	if k.mode == config.ModeCheckpoint {
		l.Checkpoint.ReplicationPolicy = config.PolicyIdentity // names as in all other modes
	}
	r, err := newMirrorProcess(j.Target)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, "klink.yaml")
	err = os.WriteFile(file, []byte("links:\n"+item(l.Definition())), 0o600)
	var cmd *exec.Cmd
	if err == nil {
		cmd, err = k.klink("run", "-c", file, "--http", "127.0.0.1:0", "--log-level", "warn")
	}
	if err == nil {
		err = r.run(cmd)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return &klinkRun{mirrorProcess: r, name: l.Name, file: file, klink: k.klink, users: users}, nil
}

// literally makes patterns of names.
func literally(names []string) (patterns []string) {
	for _, n := range names {
		patterns = append(patterns, "="+n)
	}
	return patterns
}

// item makes a mapping an item of a list.
func item(text string) string {
	return "  - " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

// klinkRun is klink at work.
type klinkRun struct {
	*mirrorProcess
	name  string // of the link
	file  string
	klink func(args ...string) (*exec.Cmd, error)
	users bool // the clusters are the user's, and outlive the run
}

// TargetTopic implements contrast.Mirror.
func (r *klinkRun) TargetTopic(topic string) string { return topic }

// Move is klink failover.
func (r *klinkRun) Move(context.Context) error { return r.order("failover") }

// order runs a klink command on the link.
func (r *klinkRun) order(command string, topics ...string) error {
	cmd, err := r.klink(append([]string{command, "-c", r.file, "--yes", "-o", "json"}, topics...)...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("klink %s: %w\n%s", command, err, out)
	}
	return nil
}

// Stop also takes topics and link off the record of a target that outlives the run.
func (r *klinkRun) Stop() error {
	var err error
	if r.users {
		r.users = false
		err = r.forget()
	}
	return errors.Join(err, r.mirrorProcess.Stop())
}

// forget removes the topics while there is a klink to confirm it, and the link with
// what is left of them when there is none. One that was stopped early may have put
// neither on record.
func (r *klinkRun) forget() error {
	var first error
	if _, topics := r.onRecord(); topics > 0 {
		first = r.order("remove", "*")
	}
	if err := r.drain(); err != nil {
		return errors.Join(first, err)
	}
	if link, _ := r.onRecord(); link {
		return r.order("remove")
	}
	return nil
}

// onRecord tells whether the link is on the target's record, and with how many
// topics. What cannot be read counts as there.
func (r *klinkRun) onRecord() (link bool, topics int) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	view, err := control.Read(ctx, r.client)
	switch {
	case remote.ReasonOf(err) == state.TopicMissing:
		return false, 0
	case err != nil:
		return true, 1
	}
	_, link = view.LinkReport(r.name)
	return link, len(view.Topics(r.name))
}

// orderlyEnd is how long klink may take to end in order.
const orderlyEnd = 20 * time.Second

func (r *klinkRun) drain() error {
	if err := r.process.Terminate(); err != nil {
		return err
	}
	limit := time.NewTimer(orderlyEnd)
	defer limit.Stop()
	select {
	case <-r.process.Done():
		return nil
	case <-limit.C:
		return fmt.Errorf("klink did not end within %s", orderlyEnd)
	}
}

// Resume is what the group has committed at the target.
func (r *klinkRun) Resume(ctx context.Context, group string) (map[lab.Partition]int64, error) {
	return r.committed(ctx, group)
}

// mirrorProcess is the process of a mirror and a view of its target.
type mirrorProcess struct {
	dir     string // settings and output
	client  *kgo.Client
	process *process.Process // nil before run
}

func newMirrorProcess(target contrast.Cluster) (*mirrorProcess, error) {
	dir, err := os.MkdirTemp("", "klink-contrast-")
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(target.AdminOpts()...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &mirrorProcess{dir: dir, client: client}, nil
}

func (r *mirrorProcess) output() string { return filepath.Join(r.dir, "output.log") }

func (r *mirrorProcess) run(cmd *exec.Cmd) error {
	out, err := os.Create(r.output())
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if r.process, err = process.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// Ended implements contrast.Mirror.
func (r *mirrorProcess) Ended() <-chan struct{} { return r.process.Done() }

// Err is how the process ended, with the end of what it printed.
func (r *mirrorProcess) Err() error {
	const most = 3000
	text, err := os.ReadFile(r.output())
	return fmt.Errorf("%w\n%s", errors.Join(r.process.Err(), err), text[max(0, len(text)-most):])
}

// Usage implements contrast.Mirror.
func (r *mirrorProcess) Usage() (u contrast.Usage, err error) {
	if u.CPU, err = proc.CPUTime(r.process.PID()); err == nil {
		u.PeakMemory, err = proc.PeakMemory(r.process.PID())
	}
	return u, err
}

// Stop kills the process: nobody needs what it still had to say.
func (r *mirrorProcess) Stop() error {
	r.client.Close()
	var err error
	if r.process != nil {
		err = r.process.Kill()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// committed is what a group has committed at the target; nothing for one that is
// not there.
func (r *mirrorProcess) committed(ctx context.Context, group string) (map[lab.Partition]int64, error) {
	got, err := kadm.NewClient(r.client).FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err == nil {
		err = got.Error()
	}
	places := map[lab.Partition]int64{}
	got.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			places[lab.Partition{Topic: o.Topic, Number: o.Partition}] = o.At
		}
	})
	return places, err
}
