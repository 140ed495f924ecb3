package process

import (
	"errors"
	"os/exec"
	"runtime"
)

// ErrUnsupported says that this operating system has no signals to stop,
// freeze and kill a process with.
var ErrUnsupported = errors.New("processes can be run on Unix systems only")

// Process is a running, or ended, program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start runs cmd, whose SysProcAttr it replaces. It returns once the program
// runs.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	// The kernel sends the death signal when the starting *thread* ends, so one
	// thread is kept for as long as the program runs.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended, as exec.Cmd.Wait says it; nil also while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// PID is the process id, which is also that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running says whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the program at once (SIGKILL), frozen or not, and waits for that.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	err := p.signal(kill)
	if err != nil && p.Running() {
		return err
	}
	<-p.done
	return nil
}

// Terminate asks for a clean stop (SIGTERM) and does not wait for it.
func (p *Process) Terminate() error { return p.send(terminate) }

// Freeze stops the program where it is (SIGSTOP), its connections open, until
// Thaw. It returns when all its threads stand still (on Linux).
func (p *Process) Freeze() error {
	if err := p.send(freeze); err != nil {
		return err
	}
	return p.awaitStopped()
}

// Thaw lets a frozen program go on (SIGCONT).
func (p *Process) Thaw() error { return p.send(thaw) }

// send is signal for a program that may have ended already, which is no error.
func (p *Process) send(s sign) error {
	if err := p.signal(s); err != nil && p.Running() {
		return err
	}
	return nil
}

type sign int

const (
	terminate sign = iota
	kill
	freeze
	thaw
)
