//go:build !linux

package process

// Holds is not to be had here: the list of open sockets is Linux's own.
func (p *Process) Holds(local, remote string) (bool, error) { return false, ErrUnsupported }
