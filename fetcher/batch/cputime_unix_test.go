//go:build unix

package batch

import (
	"syscall"
	"time"
)

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other cause than a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
