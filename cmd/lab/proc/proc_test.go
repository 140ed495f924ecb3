package proc

import (
	"errors"
	"testing"
	"time"
)

func TestParseStatSkipsAnyName(t *testing.T) {
	const text = "4242 (a) b (c 9) S 1 4242 4242 0 -1 4194560 1 2 3 4 1234 566 7 8 20 0 1 0 99 1000 2\n"
	got, err := parseStat(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := 18 * time.Second; got != want {
		t.Errorf("user and system time %s, want %s", got, want)
	}
}

func TestParseStatRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "1 (x", "1 (x) S 1 2 3", "1 (x) S 1 1 1 0 -1 1 1 1 1 1 user 566 7"} {
		if _, err := parseStat(text); !errors.Is(err, ErrText) {
			t.Errorf("parseStat(%q) = %v, want ErrText", text, err)
		}
	}
}

func TestParseMachineStatLeavesIdleAndGuestOut(t *testing.T) {
	got, err := parseMachineStat("cpu  100 20 30 999 888 4 5 6 777 666\ncpu0 1 1 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := 1650 * time.Millisecond; got != want {
		t.Errorf("busy for %s, want %s", got, want)
	}
	for _, text := range []string{"", "intr 1 2 3", "cpu 1 2 3", "cpu  100 20 30 999 888 4 x 6 777 666\n"} {
		if _, err := parseMachineStat(text); !errors.Is(err, ErrText) {
			t.Errorf("parseMachineStat(%q) = %v, want ErrText", text, err)
		}
	}
}

func TestParseKiB(t *testing.T) {
	const status = "Name:\tjava\nVmPeak:\t  9000 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"
	got, err := parseKiB(status, "VmHWM")
	if err != nil || got != 2<<20 {
		t.Errorf("VmHWM = %d, %v; want %d", got, err, 2<<20)
	}
	for _, key := range []string{"Name", "VmSwap"} {
		if _, err := parseKiB(status, key); !errors.Is(err, ErrText) {
			t.Errorf("parseKiB(%s) = %v, want ErrText", key, err)
		}
	}
}

func TestParseModel(t *testing.T) {
	if got := parseModel("processor\t: 0\nmodel name\t: Some CPU: 3 GHz\n"); got != "Some CPU: 3 GHz" {
		t.Errorf("model %q", got)
	}
	if got := parseModel("processor\t: 0\n"); got != "" {
		t.Errorf("model %q of none", got)
	}
}
