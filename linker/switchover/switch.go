package switchover

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"
)

// Options are what a Switch needs. Link, Store, Target, Settings and Owner are
// required.
type Options struct {
	Link  string
	Store Store
	// Target's leaders are looked up once for all partitions before fences go out.
	Target Target
	// Reader reads the tails of partitions where it is not certain at which offset
	// a fence stands. Without it that stays unknown.
	Reader   Reader
	Settings Settings
	// Groups is asked for the numbers of groups; without it they come from the
	// record alone.
	Groups Groups
	// Copies is asked for what lies where in checkpoint mode; nil where no partition of
	// the link is in it.
	Copies Copies
	// Source is for Promote alone.
	Source SourceEnds
	// CarriesGroups makes Promote wait for the confirmation of the worker that
	// writes group offsets.
	CarriesGroups bool
	// Preflight is asked by Forecast for the rights that will be missed. Optional.
	Preflight func(ctx context.Context) []Warning
	// Owner is unique to this run of this process: marker counters are reserved in
	// its name.
	Owner string
	// Times: what is 0 takes its default.
	Times Times
	// Concurrency is how many partitions are dealt with side by side; 0 is all, so
	// that their fences share requests.
	Concurrency int
	Logger      *slog.Logger
}

// Times bound the steps.
type Times struct {
	// Acks is how long a failover waits for workers to say that they stopped: some
	// ten times what a living one takes. 1.5 s.
	Acks time.Duration
	// Hold is how long a promotion may keep the mirrors held before whoever
	// mirrors takes it back. 30 s.
	Hold time.Duration
	// Poll lies between two looks at both clusters while a promotion waits. 250 ms.
	Poll time.Duration
	// Quiet is how long the source's ends must not have moved before a promotion holds
	// the mirrors, or half its timeout where that is less: a hold lasts for less time than
	// lies between two batches of many a producer, and would come to its end between
	// them. 2 s.
	Quiet time.Duration
	// Record bounds one write to, or look at, the control topic during a failover,
	// after which it goes on without. 2 s.
	Record time.Duration
	// Try bounds one small question. 3 s.
	Try time.Duration
	// Session is the workers' session timeout: a worker that is cut off writes no
	// more once it is over. A failover that cannot fence waits for it. 10 s.
	Session time.Duration
	// Look bounds one look at ends, groups and settings. 5 s.
	Look time.Duration
	// Timeout is that of a promotion whose Request has none. 5 min.
	Timeout time.Duration
}

// DefaultTimes is the only home of the defaults.
func DefaultTimes() Times {
	return Times{Acks: 1500 * time.Millisecond, Hold: 30 * time.Second, Poll: 250 * time.Millisecond, Quiet: 2 * time.Second, Record: 2 * time.Second,
		Try: 3 * time.Second, Session: 10 * time.Second, Look: 5 * time.Second, Timeout: 5 * time.Minute}
}

func (t Times) orDefault() Times {
	d := DefaultTimes()
	for _, p := range []struct{ have, want *time.Duration }{
		{&t.Acks, &d.Acks}, {&t.Hold, &d.Hold}, {&t.Poll, &d.Poll}, {&t.Quiet, &d.Quiet}, {&t.Record, &d.Record},
		{&t.Try, &d.Try}, {&t.Session, &d.Session}, {&t.Look, &d.Look}, {&t.Timeout, &d.Timeout},
	} {
		if *p.have <= 0 {
			*p.have = *p.want
		}
	}
	return t
}

// Switch switches the mirrors of one link over. One command at a time.
type Switch struct {
	o     Options
	log   *slog.Logger
	reads chan struct{} // one for each read of a tail under way
}

// New returns a Switch.
func New(o Options) *Switch {
	o.Times = o.Times.orDefault()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Switch{o: o, log: o.Logger.With(keyLink, o.Link), reads: make(chan struct{}, tailReads)}
}

// Request is what one command is to do.
type Request struct {
	// Topics are source topics; none means all that the link has on record.
	Topics []string
	// DryRun writes nothing and tells the numbers.
	DryRun bool
	// Timeout is how long a promotion waits until everything is mirrored; 0 is the
	// default.
	Timeout time.Duration
	// By is user@host of who gives the command.
	By string
	// Progress is told in a sentence what is being done or waited for. Optional;
	// it is called by one goroutine at a time.
	Progress func(string)
}

func (r Request) tell(s string) {
	if r.Progress != nil {
		r.Progress(s)
	}
}

// newID returns a random id, unlike any other.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
