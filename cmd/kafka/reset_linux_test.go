package kafka

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"klink/cmd/config"
)

func TestMarkerConnectionsLimitUnackedBytes(t *testing.T) {
	addr := serve(t, func(c net.Conn) { c.Read(make([]byte, 1)) })
	m := newMaker(Options{}, config.Cluster{})
	conn, err := roleMarkers.dialer(m.dialer).Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if cErr := raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); cErr != nil || err != nil {
		t.Fatal(cErr, err)
	}
	if want := int(unackedLimit.Milliseconds()); got != want {
		t.Errorf("TCP_USER_TIMEOUT %d ms, want %d", got, want)
	}
}
