package readers

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// followEnd is the last line of a follower that was stopped.
const followEnd = "@end"

// told reads what a follower writes. Its own lines begin with an @: what is
// delivered, committed or wrong. Others are its client's log, since log4j writes
// to the same stream.
type told struct {
	options FollowOptions
	log     logTail
	part    []byte // of a line that is not complete; of the goroutine that writes

	mu    sync.Mutex // guards all below
	err   error
	ended bool
}

// Write takes output as it comes. It never fails: the program is to go on.
func (t *told) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		t.part = append(t.part, line...)
		if !complete {
			return n, nil
		}
		t.line(strings.TrimSuffix(string(t.part), "\r"))
		t.part, b = t.part[:0], rest
	}
}

func (t *told) line(text string) {
	fields := strings.Split(text, " ")
	var err error
	switch fields[0] {
	case "@records":
		var r Run
		if r, err = parseRun(fields); err == nil && t.options.Delivered != nil {
			t.options.Delivered(r)
		}
	case "@commit":
		var c Commit
		if c, err = parseCommit(fields); err == nil && t.options.Committed != nil {
			t.options.Committed(c)
		}
	case "@error":
		err = parseError(text)
	case followEnd:
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
	default:
		t.log.add(text + "\n")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *told) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *told) hasEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

func parseRun(fields []string) (Run, error) {
	if len(fields) != 5 {
		return Run{}, fmt.Errorf("%q is no line of a follower", strings.Join(fields, " "))
	}
	numbers, err := parseNumbers(fields[2:])
	if err == nil && (numbers[1] < 0 || numbers[2] <= numbers[1]) {
		err = fmt.Errorf("%q is no run", strings.Join(fields, " "))
	}
	if err != nil {
		return Run{}, err
	}
	return Run{Topic: fields[1], Partition: int32(numbers[0]), First: numbers[1], Next: numbers[2]}, nil
}

func parseCommit(fields []string) (Commit, error) {
	if len(fields) != 4 {
		return Commit{}, fmt.Errorf("%q is no line of a follower", strings.Join(fields, " "))
	}
	numbers, err := parseNumbers(fields[2:])
	if err != nil {
		return Commit{}, err
	}
	return Commit{Topic: fields[1], Partition: int32(numbers[0]), Offset: numbers[1]}, nil
}

func parseNumbers(fields []string) ([]int64, error) {
	var out []int64
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func parseError(text string) error {
	rest := strings.TrimPrefix(text, "@error ")
	kind, what, _ := strings.Cut(rest, " ")
	if kind == "reset" {
		return fmt.Errorf("%w: %s", ErrReset, what)
	}
	return fmt.Errorf("the client failed: %s", what)
}

// logTail keeps the end of a log.
type logTail struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *logTail) Write(b []byte) (int, error) {
	l.add(string(b))
	return len(b), nil
}

func (l *logTail) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text...)
	if len(l.text) > 2*tailBytes {
		l.text = append([]byte(nil), l.text[len(l.text)-tailBytes:]...)
	}
}

func (l *logTail) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-tailBytes):])
}
