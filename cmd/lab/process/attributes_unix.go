//go:build unix && !linux

package process

import "syscall"

// attributes cannot promise P1 for SIGKILL here: the death signal is Linux's own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
