package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"klink/cmd/lab/process"
	"klink/cmd/lab/proxy"
)

// ErrRunning says that a broker that was to be started runs already.
var ErrRunning = errors.New("the broker is running")

// Broker is one node of a real cluster, running or not. Its methods may be
// called from several goroutines; a Start and a Stop of one broker at the same
// time are one after the other.
type Broker struct {
	cluster *Kafka
	id      int32
	dir     string
	proxy   *proxy.Proxy // nil without

	clientPort, internalPort, controllerPort int

	mu   sync.Mutex // guards proc
	proc *process.Process
}

// ID is the node id: 1, 2, 3.
func (b *Broker) ID() int32 { return b.id }

// Addr is the address that clients are told: the proxy's where there is one.
func (b *Broker) Addr() string {
	if b.proxy != nil {
		return b.proxy.Addr()
	}
	return localAddr(b.clientPort)
}

// Proxy is the fault proxy in front of the client listener; nil without one.
func (b *Broker) Proxy() *proxy.Proxy { return b.proxy }

// Running says whether the broker's process exists, frozen or not.
func (b *Broker) Running() bool {
	p := b.process()
	return p != nil && p.Running()
}

// PID is the process id of the broker's latest run; 0 before the first. What the
// system tells of that process (time, memory) is of use while Running.
func (b *Broker) PID() int {
	if p := b.process(); p != nil {
		return p.PID()
	}
	return 0
}

func (b *Broker) process() *process.Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// Start starts a broker that was stopped or killed, on the same ports and data,
// and returns when it answers and sees itself as part of the cluster. While most
// of the cluster is down that needs the others started at the same time:
// Kafka.Start does.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.launch(); err != nil {
		return err
	}
	return b.awaitReady(ctx, 1)
}

func (b *Broker) launch() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != nil && b.proc.Running() {
		return fmt.Errorf("start broker %d: %w", b.id, ErrRunning)
	}
	log, err := os.OpenFile(b.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The process outlives the start's context: Stop, Kill and Close end it.
	// Codecs unpack native libraries into the temporary folder, and a killed broker
	// leaves them there: let them go with the broker's folder.
	jvm := append(b.cluster.opts.jvm(), "-Djava.io.tmpdir="+b.dir)
	cmd := b.cluster.dist.Command(context.Background(), jvm, "kafka.Kafka", b.configPath())
	cmd.Dir = b.dir
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		return fmt.Errorf("start broker %d: %w", b.id, err)
	}
	b.proc = p
	return nil
}

// Stop shuts the broker down in order (leaders move away first) and waits for
// it. When ctx ends before, it is killed and the error says so.
func (b *Broker) Stop(ctx context.Context) error {
	p := b.process()
	if p == nil || !p.Running() {
		return nil
	}
	// A frozen process takes no notice of SIGTERM until it is thawed.
	if err := errors.Join(p.Thaw(), p.Terminate()); err != nil {
		return fmt.Errorf("stop broker %d: %w", b.id, err)
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop broker %d in order: %w", b.id, ctx.Err()), p.Kill())
	}
}

// Kill is kill -9: nothing is flushed, handed over or closed.
func (b *Broker) Kill() error {
	if p := b.process(); p != nil {
		return p.Kill()
	}
	return nil
}

// Freeze stops the process where it stands (SIGSTOP): its connections stay open
// and nothing answers, until Thaw.
func (b *Broker) Freeze() error {
	if p := b.process(); p != nil {
		return p.Freeze()
	}
	return nil
}

// Thaw ends a Freeze.
func (b *Broker) Thaw() error {
	if p := b.process(); p != nil {
		return p.Thaw()
	}
	return nil
}

// Restart is Stop and Start.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return err
	}
	return b.Start(ctx)
}

// LogPath is the file that holds what the broker has printed, over all its runs.
// It goes with the cluster's folder at Close.
func (b *Broker) LogPath() string { return filepath.Join(b.dir, "broker.log") }

// LogTail is the end of the log, at most maxBytes of it; empty if there is none.
func (b *Broker) LogTail(maxBytes int) string {
	text, err := os.ReadFile(b.LogPath())
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-maxBytes):])
}

// readyPoll is how often a starting broker is asked. Each try is one connection.
const readyPoll = 50 * time.Millisecond
