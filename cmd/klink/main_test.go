package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// TestEndings: klink drains when its terminal goes, unless nohup said otherwise.
func TestEndings(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	if slices.Contains(endings(), os.Signal(syscall.SIGHUP)) {
		t.Error("nohup counts for nothing")
	}
	signal.Reset(syscall.SIGHUP)
	if !signal.Ignored(syscall.SIGHUP) && len(endings()) != 3 {
		t.Errorf("got %v", endings())
	}
}
