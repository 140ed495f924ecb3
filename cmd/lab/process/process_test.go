//go:build linux

package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain makes the test binary its own parent process for the test of P1:
// with this variable set it starts a child, prints its id and waits for ever.
func TestMain(m *testing.M) {
	if os.Getenv("KLINK_PROCESS_PARENT") == "" {
		os.Exit(m.Run())
	}
	p, err := Start(exec.Command("sleep", "600"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	<-p.Done()
}

func TestP1AChildDiesWithItsKilledParent(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		parent := exec.Command(os.Args[0])
		parent.Env = append(os.Environ(), "KLINK_PROCESS_PARENT=1")
		out, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("the parent said %q", line)
		}
		child := &Process{cmd: &exec.Cmd{Process: &os.Process{Pid: pid}}, done: make(chan struct{})}
		if frozen {
			// Not Freeze: that waits, which is for a parent to do.
			if err := child.send(freeze); err != nil {
				t.Fatal(err)
			}
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait() // it was killed: the error is the point
		awaitGone(t, pid)
	}
}

// awaitGone returns when pid has ended; a zombie counts as ended, since whoever
// adopts orphans here may never wait for it.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for t.Context().Err() == nil {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		if _, after, ok := bytes.Cut(stat, []byte(") ")); ok && after[0] == 'Z' {
			return
		}
	}
	t.Fatalf("process %d still runs", pid)
}

func TestTerminateEndsAndDoneTells(t *testing.T) {
	p, err := Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Running() || p.Err() != nil {
		t.Fatal("a running process says that it has ended")
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Running() || p.Err() == nil {
		t.Errorf("ended by a signal: Running %t, Err %v", p.Running(), p.Err())
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing an ended process: %v", err)
	}
}

func TestKillEndsAFrozenProcess(t *testing.T) {
	p, err := Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil || !bytes.Contains(stat, []byte(") T ")) {
		t.Errorf("a frozen process is in state %s, %v", stat, err)
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if !p.Running() {
		t.Error("a frozen process ended at SIGTERM")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingProgramIsAnError(t *testing.T) {
	if _, err := Start(exec.Command("/no/such/program")); err == nil {
		t.Error("no error for a program that does not exist")
	}
}
