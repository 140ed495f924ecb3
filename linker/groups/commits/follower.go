package commits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

// Options are what a Follower needs.
type Options struct {
	// Client asks the source. It is for nothing else that fetches: a Fetch without
	// news holds its connection to each broker for half a second.
	Client *kgo.Client
	// Group and Topic tell of which events are wanted. They are called for each
	// record, from one goroutine, and have to be quick; nil wants all. What they
	// answer may change in time; what they refused is not told later.
	Group, Topic func(name string) bool
	Logger       *slog.Logger
}

// Follower follows the committed offsets of one cluster. Run runs it; the other
// methods may be called at any time.
type Follower struct {
	o     Options
	want  wanted
	out   chan Batch
	ready chan struct{}

	// Run's alone:
	look    looker
	answers chan answer
	looks   chan looked
	looking bool
	topicID [16]byte
	parts   []*part
	placed  bool // all parts were, once
	trouble trouble
	asked   map[int32]bool          // brokers with a request under way
	pause   map[int32]time.Duration // before the next one
	turn    int
	unknown int64

	mu     sync.Mutex // guards status
	status Status
}

// part is one partition of the topic.
type part struct {
	number int32
	// log is nil until its end is known.
	log    *partitionLog
	leader leaders.Leader
	// reading: a request under way asks for it.
	reading bool
	trouble trouble
	behind  int64
}

// New returns a Follower. The client stays the caller's.
func New(o Options) *Follower {
	return &Follower{o: o, want: wanted{o.Group, o.Topic},
		// Without a buffer: a consumer that is behind holds up the reading (O5).
		out: make(chan Batch), ready: make(chan struct{}), answers: make(chan answer), looks: make(chan looked),
		asked: make(map[int32]bool), pause: make(map[int32]time.Duration),
		status: Status{State: Starting, Since: time.Now()}}
}

// Batches delivers what changed (see Batch). It is never closed.
func (f *Follower) Batches() <-chan Batch { return f.out }

// Ready is closed once the ends of all partitions are noted: a poll that begins
// after it misses nothing that the events leave out. Where the topic cannot be
// read that never happens.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Status returns how the Follower stands.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Run follows until ctx ends, and then returns nil. Whatever stands in the way is
// in Status and tried again. It is called once.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	f.look = looker{cl: f.o.Client, leaders: leaders.New(f.o.Client)}
	defer f.look.leaders.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	f.trouble.lookAt = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		f.launch(ctx, &wg)
		f.show()
		timer.Reset(f.untilLook(time.Now()))
		select {
		case a := <-f.answers:
			f.take(ctx, a)
		case l := <-f.looks:
			f.takeLook(ctx, l)
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// launch starts the look that is due, and a fetch for each broker that has parts
// to be read and none under way.
func (f *Follower) launch(ctx context.Context, wg *sync.WaitGroup) {
	if !f.looking && f.untilLook(time.Now()) <= 0 {
		f.looking = true
		known, placed := f.topicID, f.placedParts()
		wg.Go(func() { send(ctx, f.looks, f.look.look(ctx, known, placed)) })
	}
	due := make(map[int32][]*part)
	for _, p := range f.parts {
		if b := p.leader.Broker; p.readable() && !f.asked[b] {
			due[b] = append(due[b], p)
			p.reading = true
		}
	}
	for broker, parts := range due {
		f.turn++
		q := newFetch(broker, f.topicID, parts, f.turn)
		q.pause = f.pause[broker]
		f.asked[broker] = true
		wg.Go(func() { send(ctx, f.answers, q.ask(ctx, f.o.Client)) })
	}
}

func send[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

func (p *part) readable() bool {
	return p.log != nil && !p.reading && p.leader.Broker >= 0 && p.trouble.lookAt.IsZero()
}

func (f *Follower) placedParts() map[int32]bool {
	placed := make(map[int32]bool, len(f.parts))
	for _, p := range f.parts {
		placed[p.number] = p.log != nil
	}
	return placed
}

// untilLook is the time until the next look is due, long where none is.
func (f *Follower) untilLook(now time.Time) time.Duration {
	const long = time.Hour
	if f.looking {
		return long
	}
	wait := f.trouble.until(now, long)
	for _, p := range f.parts {
		wait = min(wait, p.trouble.until(now, long))
	}
	return wait
}

// takeLook takes over where the partitions are. A batch with Gap follows where
// the end of one was noted anew.
func (f *Follower) takeLook(ctx context.Context, l looked) {
	f.looking = false
	now := time.Now()
	if l.err != nil {
		f.trouble.failed(l.err, now)
		return
	}
	f.trouble.ended()
	if l.id != f.topicID {
		f.topicID, f.parts = l.id, nil
	}
	for n := len(f.parts); n < len(l.leaders); n++ {
		f.parts = append(f.parts, &part{number: int32(n)})
	}
	gap := false
	for i, leader := range l.leaders {
		gap = f.parts[i].found(leader, l, f.want, now) || gap
	}
	if !gap {
		return
	}
	f.maybeReady()
	send(ctx, f.out, Batch{Gap: true, Received: time.Now()})
}

// found takes over what a look says of one partition; it reports whether the end
// was noted anew.
func (p *part) found(leader leaders.Leader, l looked, want wanted, now time.Time) (noted bool) {
	p.leader = leader
	at, listed := l.ends[p.number]
	switch {
	case leader.Broker < 0:
		p.trouble.failed(&remote.Fault{Op: "read " + Topic, Reason: state.NoLeader, Err: kerr.LeaderNotAvailable}, now)
	case p.log != nil:
		p.trouble.lookAt = time.Time{}
	case listed:
		p.log, p.behind = newPartitionLog(p.number, at, want), 0
		p.trouble.lookAt = time.Time{}
		return true
	case l.faults[p.number] != nil:
		p.trouble.failed(l.faults[p.number], now)
	default:
		// Lost its place while the look was under way.
		p.trouble.lookAt = now
	}
	return false
}

func (f *Follower) maybeReady() {
	if f.placed {
		return
	}
	for _, p := range f.parts {
		if p.log == nil {
			return
		}
	}
	f.placed = true
	close(f.ready)
}

// take takes an answer and delivers what changed.
func (f *Follower) take(ctx context.Context, a answer) {
	f.asked[a.broker], f.pause[a.broker] = false, 0
	err := a.err
	if err == nil {
		err = kerr.ErrorForCode(a.resp.ErrorCode)
	}
	b := Batch{Received: a.at}
	for _, p := range a.parts {
		p.reading = false
		switch {
		case int(p.number) >= len(f.parts) || f.parts[p.number] != p: // of the topic as it was before
		case err != nil:
			f.fail(p, err)
		default:
			gap, events := f.takePart(p, a)
			b.Gap = b.Gap || gap
			b.Events = append(b.Events, events...)
		}
	}
	if b.Gap || len(b.Events) > 0 {
		send(ctx, f.out, b)
	}
}

// fail notes that a part is not read before the next look.
func (f *Follower) fail(p *part, err error) {
	p.trouble.failed(remote.Classify("read "+Topic, remote.Right("Read", "topic", Topic), err), time.Now())
}

// errCut: the log was cut below what was read.
var errCut = errors.New("the log was cut below what was read")

func (f *Follower) takePart(p *part, a answer) (gap bool, events []Event) {
	got := a.of(p.number)
	if got == nil {
		f.fail(p, fmt.Errorf("broker %d did not answer for partition %d", a.broker, p.number))
		return false, nil
	}
	err := kerr.ErrorForCode(got.ErrorCode)
	if err == nil && got.DivergingEpoch.Epoch >= 0 {
		err = errCut
	}
	if err == nil {
		gap, err = p.log.read(got.RecordBatches, got.LastStableOffset, got.HighWatermark)
		f.unknown += p.log.unknown
		p.log.unknown = 0
	}
	if len(got.RecordBatches) > 0 {
		f.pause[a.broker] = gatherPause
	}
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange), errors.Is(err, errCut), errors.Is(err, errBytes):
		f.misplaced(p, err)
		return gap, nil
	case err != nil:
		f.fail(p, err)
		return gap, nil
	}
	p.trouble.ended()
	p.behind = max(0, got.HighWatermark-p.log.next)
	return gap, p.log.take(got.HighWatermark)
}

// misplaced gives up a part's place; it goes on at the end of the log, with a gap
// once that is noted (O3).
func (f *Follower) misplaced(p *part, err error) {
	f.o.Logger.Warn("commits of the source may have been missed and are asked for again",
		keyPartition, p.number, keyErr, err)
	p.log = nil
	f.fail(p, err)
}
