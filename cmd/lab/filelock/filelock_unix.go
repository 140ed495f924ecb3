//go:build unix

package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// poll is how often Lock tries a taken lock again. What it waits for is another
// process's work of seconds, so a tenth of a second is not noticed.
const poll = 100 * time.Millisecond

// TryLock takes the exclusive lock on path, made if missing. It gives a nil
// function and no error when somebody else holds it.
func TryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Lock is TryLock that waits for the lock until ctx ends.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		unlock, err := TryLock(path)
		if unlock != nil || err != nil {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}
