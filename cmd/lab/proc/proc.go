package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc: USER_HZ is 100 on every
// architecture that Go runs on.
const tick = time.Second / 100

// ErrText says that /proc does not hold what it is known to.
var ErrText = errors.New("unexpected text in /proc")

// CPUTime is the user and system time that a process has used.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat reads fields 14 and 15 of /proc/PID/stat (proc(5)). The second
// field is a name in brackets that may hold anything, so counting begins after it.
func parseStat(text string) (time.Duration, error) {
	i := strings.LastIndexByte(text, ')')
	if i < 0 {
		return 0, fmt.Errorf("%w: no name in %q", ErrText, text)
	}
	const user, system = 14 - 3, 15 - 3
	fields := strings.Fields(text[i+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("%w: %d fields", ErrText, len(fields))
	}
	return sumTicks(fields[user], fields[system])
}

func sumTicks(fields ...string) (time.Duration, error) {
	var sum time.Duration
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrText, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// PeakMemory is the largest resident size that a process has had, in bytes.
func PeakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseKiB(string(text), "VmHWM")
}

// parseKiB finds a line like "VmHWM:   123 kB".
func parseKiB(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, key+":")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			return 0, fmt.Errorf("%w: %q", ErrText, line)
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrText, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("%w: no %s", ErrText, key)
}

// MachineTime is the time that all cores together were busy.
func MachineTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachineStat(string(text))
}

// parseMachineStat adds up the first line of /proc/stat but for idle and iowait
// (the 4th and 5th number) and for guest time (from the 9th on), which user time
// contains.
func parseMachineStat(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("%w: %q", ErrText, line)
	}
	return sumTicks(fields[1], fields[2], fields[3], fields[6], fields[7], fields[8])
}

// Machine says in some words what figures were taken on. What the system does
// not tell is left out.
func Machine() (parts []string) {
	parts = []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if model := parseModel(string(text)); model != "" {
			parts[0] += " " + model
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if total, err := parseKiB(string(text), "MemTotal"); err == nil {
			parts = append(parts, fmt.Sprintf("%.0f GiB", float64(total)/(1<<30)))
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, runtime.GOOS+" "+strings.TrimSpace(string(text)))
	}
	return append(parts, runtime.Version())
}

// parseModel finds the processor's name in /proc/cpuinfo.
func parseModel(text string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
