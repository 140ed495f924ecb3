package kafka

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacked sets TCP_USER_TIMEOUT (RFC 5482).
func limitUnacked(conn *net.TCPConn, limit time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return inner
}
