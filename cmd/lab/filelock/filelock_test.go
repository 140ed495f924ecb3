//go:build unix

package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := TryLock(path); second != nil || err != nil {
		t.Errorf("TryLock of a held lock: taken %t, error %v", second != nil, err)
	}
	expired, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Lock(expired, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock of a held lock gave %v, want a deadline", err)
	}
	handed := make(chan error)
	go func() {
		second, err := Lock(t.Context(), path)
		if err == nil {
			second()
		}
		handed <- err
	}()
	unlock()
	if err := <-handed; err != nil {
		t.Errorf("the lock was not handed on: %v", err)
	}
}

func TestALockNeedsItsFolder(t *testing.T) {
	if _, err := TryLock(filepath.Join(t.TempDir(), "none", "lock")); err == nil {
		t.Error("no error for a folder that does not exist")
	}
}
