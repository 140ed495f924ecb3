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
		of            *Process
		local, remote string
		want          bool
	}{
		{self, conn.LocalAddr().String(), conn.RemoteAddr().String(), true},
		{other, conn.LocalAddr().String(), conn.RemoteAddr().String(), false},
		{self, conn.LocalAddr().String(), "127.0.0.1:1", false},
		{self, "127.0.0.1:1", conn.RemoteAddr().String(), false},
	} {
		if got, err := c.of.Holds(c.local, c.remote); err != nil || got != c.want {
			t.Errorf("%d holds %s to %s: %t, %v, want %t", c.of.PID(), c.local, c.remote, got, err, c.want)
		}
	}
	if _, err := self.Holds("nonsense", "127.0.0.1:1"); err == nil {
		t.Error("nonsense is taken for an address")
	}
}
