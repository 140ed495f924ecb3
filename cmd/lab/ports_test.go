package lab

import (
	"context"
	"net"
	"os/exec"
	"sync"
	"testing"
)

// Clusters start side by side: one reserves ports while the other one starts a
// program.
func TestPortsAreFreeWhileProgramsStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	defer programs.Wait()
	defer cancel()
	for range 4 {
		programs.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command("true").Run() // that it begins is all
			}
		})
	}
	for range 500 {
		addr, release, err := ReservePort()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("a port that was free a moment ago: %v", err)
		}
		l.Close()
		release()
	}
}

func TestPortsInUseAreNotGiven(t *testing.T) {
	addr, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if isFree(l.Addr().(*net.TCPAddr).Port) {
		t.Errorf("%s is said to be free", addr)
	}
}
