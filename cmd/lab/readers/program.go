package readers

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"klink/cmd/lab/process"
)

// Range is a piece of a partition, from an offset that is in the log up to
// another one (exclusive).
type Range struct {
	Topic     string
	Partition int32
	From, End int64
}

// Line is one record as a client has handed it out.
type Line struct {
	Topic     string
	Partition int32
	Offset    int64
	Digest    [32]byte // SHA-256 of the record in lab's canonical form, without its offset
	Key       string   // SHA-256 in hexadecimal digits; "" for null
	Tombstone bool     // its value is null
}

// Job is what a program is to read.
type Job struct {
	Bootstrap []string
	Isolation string // as Kafka names it: read_committed, read_uncommitted
	Ranges    []Range
}

// args are those of both programs.
func (j Job) args(output string) []string {
	args := []string{output, strings.Join(j.Bootstrap, ","), j.Isolation}
	for _, r := range j.Ranges {
		args = append(args, r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.From, 10), strconv.FormatInt(r.End, 10))
	}
	return args
}

// endLine is the last one of a program that has read all it was to.
const endLine = "END"

// run has a program read a job and calls each with what it has read, in the order
// of each partition.
func run(ctx context.Context, job Job, command func(args []string) *exec.Cmd, each func(Line) error) error {
	start := func(output string) *exec.Cmd { return command(job.args(output)) }
	return runProgram(ctx, start, func(output string) error { return parse(output, each) })
}

// runProgram runs a program to its end, or to that of ctx, and has the file read
// that it has put its output into.
func runProgram(ctx context.Context, command func(output string) *exec.Cmd, read func(output string) error) error {
	dir, err := os.MkdirTemp("", "klink-reader-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	output, log := filepath.Join(dir, "records"), filepath.Join(dir, "log")
	if err := runToEnd(ctx, command(output), log); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(log))
	}
	return read(output)
}

func runToEnd(ctx context.Context, cmd *exec.Cmd, logPath string) error {
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
		return p.Err()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Kill())
	}
}

// tailBytes is how much of a failed program's log its error shows.
const tailBytes = 3000

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailBytes):])
}

func parse(path string, each func(Line) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	last := ""
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if last = scanner.Text(); last == endLine {
			continue
		}
		line, err := parseLine(last)
		if err == nil {
			err = each(line)
		}
		if err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	if last != endLine {
		return fmt.Errorf("the reader's output ends in %q and not in %s", last, endLine)
	}
	return nil
}

func parseLine(text string) (Line, error) {
	var l Line
	fields := strings.Split(text, " ")
	if len(fields) != 6 {
		return l, fmt.Errorf("%q is no line of a reader", text)
	}
	number, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil {
		return l, err
	}
	l.Topic, l.Partition, l.Tombstone = fields[0], int32(number), fields[5] == "null"
	if l.Offset, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return l, err
	}
	if n, err := hex.Decode(l.Digest[:], []byte(fields[3])); err != nil || n != len(l.Digest) {
		return l, fmt.Errorf("%q is no digest: %w", fields[3], err)
	}
	if fields[4] != "-" {
		l.Key = fields[4]
	}
	return l, nil
}
