package linker

import (
	"testing"
	"time"
)

// TestPaced: with ten thousand partitions each is still looked at within what is
// promised for idle ones, five seconds.
func TestPaced(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2*time.Second + 200*time.Microsecond,
		1000: 2200 * time.Millisecond, 10_000: 4 * time.Second, 1_000_000: 202 * time.Second} {
		if got := paced(lookEvery, n); got != want {
			t.Errorf("%d partitions: every %v, want %v", n, got, want)
		}
	}
	if paced(lookEvery, 10_000) >= 5*time.Second || paced(trimEvery, 10_000) >= 5*time.Second {
		t.Error("longer than promised")
	}
}
