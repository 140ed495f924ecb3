//go:build unix

package lab

import "syscall"

// isFree tells whether a port can be listened on. It binds only: a listener that is
// closed again at once lives on in a child that is between fork and exec at that
// moment, and whoever was given the port would find it taken.
func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	// As every listener does: else what is left of closed connections would count.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return false
	}
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}) == nil
}
