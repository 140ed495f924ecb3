//go:build unix

package process

import "syscall"

// signal goes to the whole group. The group cannot be a stranger's: its leader
// is waited for only by us, and a caller asks Running first.
func (p *Process) signal(s sign) error {
	return syscall.Kill(-p.PID(), map[sign]syscall.Signal{
		terminate: syscall.SIGTERM,
		kill:      syscall.SIGKILL,
		freeze:    syscall.SIGSTOP,
		thaw:      syscall.SIGCONT,
	}[s])
}
