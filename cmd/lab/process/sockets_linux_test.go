package process

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

func TestHoldsTellsWhoseAConnectionIs(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other, err := Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Kill() //nolint:errcheck // it ends with us at the latest
	self := &Process{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	for _, c := range []struct {
		of    *Process
		local string
		want  bool
	}{
		{self, conn.LocalAddr().String(), true},
		{other, conn.LocalAddr().String(), false},
		{self, "127.0.0.1:1", false},
	} {
		if got, err := c.of.Holds(c.local); err != nil || got != c.want {
			t.Errorf("%d holds %s: %t, %v, want %t", c.of.PID(), c.local, got, err, c.want)
		}
	}
	if _, err := self.Holds("nonsense"); err == nil {
		t.Error("nonsense is taken for an address")
	}
}
