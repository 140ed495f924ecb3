package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"klink/cmd/lab/install"
	"klink/cmd/lab/mm2"
	"klink/cmd/lab/process"
)

// Names of systems. MirrorMaker 2 with other settings is mm2:NAME.
const (
	klinkSystem = "klink"
	driftSystem = "klink:checkpoint"
	mm2System   = "mm2"
	loopSystem  = "loop"
)

// The settings that were best of those tried; README.md of package mm2 has the
// results. For latency the producers' linger has to be short.
const (
	bestMM2        = "idempotent"
	bestMM2Latency = "linger5"
	bestMM2Groups  = "failover"
)

// mm2SettingsOf names the settings that a system stands for in a workload.
func mm2SettingsOf(system string, w workload) string {
	if _, name, ok := strings.Cut(system, ":"); ok {
		return name
	}
	switch w.kind {
	case latency:
		return bestMM2Latency
	case switching:
		return bestMM2Groups
	default:
		return bestMM2
	}
}

func systemNames() []string {
	names := []string{klinkSystem, driftSystem, mm2System, loopSystem}
	for _, s := range mm2.Names() {
		names = append(names, mm2System+":"+s)
	}
	return names
}

func isMM2(system string) bool {
	return system == mm2System || strings.HasPrefix(system, mm2System+":")
}

// job is one start of a system.
type job struct {
	system   string
	workload workload
	pair     *pair
	dir      string // of this job alone: settings and output
	serial   int    // no two jobs have the same
}

// launcher knows how each system is started.
type launcher struct {
	self  string // this program
	klink string // the binary
	kafka *install.Distribution
}

// newLauncher builds klink into dir.
func newLauncher(ctx context.Context, dir string) (*launcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	kafka, err := install.Kafka(ctx, install.Newest)
	if err != nil {
		return nil, err
	}
	l := &launcher{self: self, klink: filepath.Join(dir, "klink"), kafka: kafka}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", l.klink, "klink/cmd/klink").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build klink: %w\n%s", err, out)
	}
	return l, nil
}

// mirror is a running system.
type mirror struct {
	*process.Process
	log     string // path of what it prints
	started time.Time
}

func (l *launcher) start(j job) (*mirror, error) {
	cmd, err := l.command(j)
	if err != nil {
		return nil, err
	}
	m := &mirror{log: filepath.Join(j.dir, "output.log")}
	out, err := os.Create(m.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, out, out
	m.started = time.Now()
	if m.Process, err = process.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", j.system, err)
	}
	return m, nil
}

func (l *launcher) command(j job) (*exec.Cmd, error) {
	src, dst := j.pair.src.Bootstrap()[0], j.pair.dst.Bootstrap()[0]
	switch {
	case j.system == klinkSystem:
		cmd := exec.Command(l.klink, "run", "--source", src, "--target", dst, "--topic", j.workload.topic(), "--http", "127.0.0.1:0", "--log-format", "json")
		if j.workload.kind == switching {
			cmd.Args = append(cmd.Args, "--group", "*")
		}
		return cmd, nil
	case j.system == driftSystem:
		file := filepath.Join(j.dir, "klink.yaml")
		link := fmt.Sprintf("links:\n  - name: bench\n    mode: checkpoint\n    source: {brokers: [%q]}\n    target: {brokers: [%q]}\n"+
			"    topics: {include: [%q]}\n    checkpoint: {replication_policy: identity}\n", src, dst, j.workload.topic())
		return exec.Command(l.klink, "run", "-c", file, "--http", "127.0.0.1:0", "--log-format", "json"), os.WriteFile(file, []byte(link), 0o600)
	case j.system == loopSystem:
		return exec.Command(l.self, loopCommand, "-source", src, "-target", dst, "-topic", j.workload.topic(), fmt.Sprintf("-keep=%t", j.workload.kind == keeping)), nil
	}
	return mm2.Command(l.kafka, j.dir, mm2SettingsOf(j.system, j.workload), mm2.Values{
		Source: src, Target: dst, Topics: j.workload.topic(), Codec: j.workload.codec.String(),
		S: "s" + strconv.Itoa(j.serial), T: "t" + strconv.Itoa(j.serial),
	})
}

// stop ends the system: klink and the loop in order, MirrorMaker 2, whose state
// nobody needs and which takes many seconds to end, at once.
func (m *mirror) stop(system string) error {
	if isMM2(system) {
		return m.Kill()
	}
	if err := m.Terminate(); err != nil {
		return err
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-m.Done():
		return nil
	case <-limit.C:
		return errors.Join(fmt.Errorf("%s did not end within %s", system, stopLimit), m.Kill())
	}
}

var errEnded = errors.New("the mirror ended by itself")

// ended says that the process is gone, and how, where it did not exit with 0.
func (m *mirror) ended() error {
	if err := m.Err(); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return errEnded
}

// tail is the end of what the system printed.
func (m *mirror) tail() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	const most = 3000
	return string(text[max(0, len(text)-most):])
}
