package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"klink/cmd/lab/install"
	"klink/cmd/lab/process"
)

// Names of systems. MirrorMaker 2 with other settings is mm2:NAME.
const (
	klinkSystem = "klink"
	mm2System   = "mm2"
	loopSystem  = "loop"
)

// The settings that were best of those tried; mm2/README.md has the results. For
// latency the producers' linger has to be short.
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

//go:embed mm2/*.properties
var mm2Files embed.FS

// mm2Settings are the names of the committed settings.
func mm2Settings() []string {
	entries, err := mm2Files.ReadDir("mm2")
	if err != nil {
		panic(err) // it was embedded at build time
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".properties"))
	}
	return names
}

func systemNames() []string {
	names := []string{klinkSystem, mm2System, loopSystem}
	for _, s := range mm2Settings() {
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
	case j.system == loopSystem:
		return exec.Command(l.self, loopCommand, "-source", src, "-target", dst, "-topic", j.workload.topic(), fmt.Sprintf("-keep=%t", j.workload.kind == keeping)), nil
	}
	text, jvm, err := mm2Properties(mm2SettingsOf(j.system, j.workload), mm2Values{
		Source: src, Target: dst, Topics: j.workload.topic(), Codec: j.workload.codec.String(),
		S: "s" + strconv.Itoa(j.serial), T: "t" + strconv.Itoa(j.serial),
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(j.dir, "mm2.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	// The process outlives no job: stop ends it, and the kernel at the latest.
	jvm = append(jvm, "-Djava.io.tmpdir="+filepath.Dir(path)) // native codecs are unpacked there
	return l.kafka.Command(context.Background(), jvm, "org.apache.kafka.connect.mirror.MirrorMaker", path), nil
}

// mm2Values fill a settings file in.
type mm2Values struct {
	Source, Target string // bootstrap addresses
	S, T           string // aliases: new ones for each run, so that it begins afresh
	Topics, Codec  string
}

var errNoJVM = errors.New("the first line is not '# jvm: FLAGS'")

// mm2Properties gives a settings file filled in, and the flags of the Java
// launcher from its first line.
func mm2Properties(name string, v mm2Values) (text string, jvm []string, err error) {
	raw, err := mm2Files.ReadFile("mm2/" + name + ".properties")
	if err != nil {
		return "", nil, fmt.Errorf("settings of MirrorMaker 2: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	flags, ok := strings.CutPrefix(first, "# jvm: ")
	if !ok {
		return "", nil, fmt.Errorf("mm2/%s.properties: %w", name, errNoJVM)
	}
	tmpl, err := template.New(name).Parse(string(raw))
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, v); err != nil {
		return "", nil, err
	}
	return b.String(), strings.Fields(flags), nil
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
