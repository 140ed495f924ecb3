package readers

import (
	"cmp"
	"context"
	_ "embed" // for the programs
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"klink/cmd/lab/install"
	"klink/cmd/lab/process"
)

//go:embed Follower.java
var javaFollower []byte

//go:embed follower.py
var pythonFollower string

// Maker is whose consumer a follower is, and by which protocol it is a member of
// its group.
type Maker string

const (
	// JavaClassic is Kafka's own consumer with group.protocol=classic.
	JavaClassic Maker = "java-classic"
	// JavaConsumer is the same with group.protocol=consumer (KIP-848).
	JavaConsumer Maker = "java-consumer"
	// LibrdkafkaClassic is librdkafka, by way of Python.
	LibrdkafkaClassic Maker = "librdkafka"
	// FranzGoClassic is franz-go, in a process of its own.
	FranzGoClassic Maker = "franz-go"
)

// Makers are all of them.
var Makers = []Maker{JavaClassic, JavaConsumer, LibrdkafkaClassic, FranzGoClassic}

// ErrReset says that a group had no offset to go on from, or one that the log
// does not have: what auto.offset.reset=none is for.
var ErrReset = errors.New("no valid offset to go on from (auto.offset.reset=none)")

// Run is offsets of one partition that were delivered one after the other, from
// First up to, without, Next, which holds no gap.
type Run struct {
	Topic       string
	Partition   int32
	First, Next int64
}

// Commit is a commit of one partition that the broker has acknowledged.
type Commit struct {
	Topic     string
	Partition int32
	Offset    int64
}

// FollowOptions say who follows what. CommitEvery and the functions may be left
// out.
type FollowOptions struct {
	Maker     Maker
	Bootstrap []string
	Group     string // with a commit for every partition, or ErrReset is the outcome
	Topics    []string
	// CommitEvery is how often it commits, 0 is 1 s: whenever the wall clock has
	// come to another multiple of it, so that several followers do at one time.
	CommitEvery time.Duration
	// Delivered and Committed are called by one goroutine in the client's order.
	Delivered func(Run)
	Committed func(Commit)
}

// Follower is a consumer of some maker, the only member of its group, as a
// process. What it was given it has told before it commits it.
type Follower struct {
	maker Maker
	proc  *process.Process
	stdin io.Closer
	told  *told
}

// Follow starts a follower. It goes on until Kill, Stop or an error; ctx bounds
// the install of the client only.
func Follow(ctx context.Context, o FollowOptions) (*Follower, error) {
	if len(o.Bootstrap) == 0 || o.Group == "" || len(o.Topics) == 0 {
		return nil, errors.New("follow: no addresses, group or topics")
	}
	cmd, err := followCommand(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("follow with %s: %w", o.Maker, err)
	}
	f := &Follower{maker: o.Maker, told: &told{options: o}}
	if f.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = f.told, &f.told.log
	if f.proc, err = process.Start(cmd); err != nil {
		return nil, fmt.Errorf("follow with %s: %w", o.Maker, err)
	}
	return f, nil
}

func followCommand(ctx context.Context, o FollowOptions) (*exec.Cmd, error) {
	period := cmp.Or(o.CommitEvery, time.Second).Milliseconds()
	args := []string{strings.Join(o.Bootstrap, ","), o.Group, strconv.FormatInt(period, 10)}
	background := context.WithoutCancel(ctx)
	switch o.Maker {
	case JavaClassic, JavaConsumer:
		kafka, err := install.Kafka(ctx, install.Newest)
		if err != nil {
			return nil, err
		}
		program, err := kafka.Program(ctx, "Follower", javaFollower)
		if err != nil {
			return nil, err
		}
		protocol := strings.TrimPrefix(string(o.Maker), "java-")
		return program.Command(background, append(append(args, protocol), o.Topics...)...), nil
	case LibrdkafkaClassic:
		python, err := install.Python(ctx, install.Librdkafka)
		if err != nil {
			return nil, err
		}
		return exec.Command(python, append(append([]string{"-c", pythonFollower}, args...), o.Topics...)...), nil
	case FranzGoClassic:
		return ownCommand(append(args, o.Topics...))
	}
	return nil, errors.New("no such maker")
}

// ownCommand runs this very program again. One that does not call Main would
// begin anew what it is doing here.
func ownCommand(args []string) (*exec.Cmd, error) {
	if !mainCalled.Load() {
		return nil, errors.New("this program does not call Main")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	return cmd, nil
}

// Kill is kill -9: what came since the last commit is delivered again to
// whoever goes on. When it returns, the functions of the options have been
// called for all that the client was given and had told.
func (f *Follower) Kill() error { return f.proc.Kill() }

// Stop lets it commit all that it was given, leave its group and end. Where ctx
// ends before, it is killed.
func (f *Follower) Stop(ctx context.Context) error {
	if err := f.stdin.Close(); err != nil && f.proc.Running() {
		return errors.Join(err, f.proc.Kill())
	}
	select {
	case <-f.proc.Done():
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: %w", f.maker, ctx.Err()), f.proc.Kill(), f.Err())
	}
	if err := errors.Join(f.Err(), f.proc.Err()); err != nil {
		return fmt.Errorf("%s: %w\n%s", f.maker, err, f.Log())
	}
	if !f.told.hasEnded() {
		return fmt.Errorf("%s ended without a last word\n%s", f.maker, f.Log())
	}
	return nil
}

// Done is closed when it has ended, however.
func (f *Follower) Done() <-chan struct{} { return f.proc.Done() }

// Err is the error that the client ended with, or nil. It wraps ErrReset where
// that is what it was.
func (f *Follower) Err() error { return f.told.failure() }

// Log is the end of what the client has logged.
func (f *Follower) Log() string { return f.told.log.tail() }
