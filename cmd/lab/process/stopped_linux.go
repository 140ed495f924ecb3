package process

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// stopPoll is how often a program that was told to stop is looked at; it takes
// it some milliseconds on a busy machine.
const stopPoll = time.Millisecond

// awaitStopped returns when every thread of the program has stopped, or when it
// has ended: kill returns as soon as the signal is under way. What the kernel
// says is left for others to hear.
func (p *Process) awaitStopped() error {
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for p.Running() {
		// It does not block: a program that ends while we wait for its stop would
		// not wake us.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.PID(), &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECHILD) {
			return err
		}
		if err == nil && info.Signo != 0 {
			return nil
		}
		select {
		case <-p.done:
		case <-tick.C:
		}
	}
	return nil
}
