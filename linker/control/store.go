package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
	"klink/linker/state"
)

const (
	// followWait is how long the broker may hold a fetch with nothing new. A
	// deletion of the topic ends it early.
	followWait = 2 * time.Second
	// retryMin and retryMax bound the pauses after a failed read.
	retryMin = 100 * time.Millisecond
	retryMax = 2 * time.Second
	// maxRecordBytes bounds one record's key and value. Producers and brokers take
	// 1 MB by default; the rest is for the batch around it and for topics whose
	// limit is a little lower.
	maxRecordBytes = 800_000
)

// Options are what a Store needs.
type Options struct {
	// Client is the store's alone. Its producer must ask for acks from all
	// in-sync replicas and be idempotent, as kgo's is unless told otherwise.
	Client *kgo.Client
	// ReplicationFactor of the topic if it has to be made; 0 is 3, or the
	// number of brokers where there are fewer.
	ReplicationFactor int16
	// Patience bounds what Open does before it reads, and after it, and the wait for
	// each answer as it reads: not the whole, since a large log on a busy machine may
	// take long, and who began anew each time would never end. 0: nothing but Open's
	// context bounds it.
	Patience time.Duration
	Logger   *slog.Logger
}

func (o Options) ensure(ctx context.Context, log *ownlog.Log) (created bool, err error) {
	ctx, cancel := ownlog.Within(ctx, o.Patience)
	defer cancel()
	return log.Ensure(ctx, o.ReplicationFactor)
}

func (o Options) mayProduce(ctx context.Context, log *ownlog.Log) error {
	ctx, cancel := ownlog.Within(ctx, o.Patience)
	defer cancel()
	return log.MayProduce(ctx)
}

// Store reads and writes the control topic. It is safe for concurrent use.
type Store struct {
	cl      *kgo.Client
	log     *slog.Logger
	tail    *ownlog.Log // Open's, then Run's alone
	created bool
	id      [16]byte

	failedCh chan struct{} // closed when failed is set

	mu     sync.Mutex // guards all below; never held over a request
	view   *View
	next   int64         // the follower has read everything below
	end    int64         // the log's end (exclusive) when the follower last read
	moved  chan struct{} // closed and replaced when next moves
	failed error         // ErrLost or ErrNewer: final
	// changed is closed and replaced when the view changes.
	changed chan struct{}
	// reserving has a channel, closed at its end, for each partition that a
	// ReserveCounters is at work on; given is the end of the highest block that
	// one returned.
	reserving map[lineKey]chan struct{}
	given     map[lineKey]int32
	// tries counts the writings of each command, by its key without one.
	tries map[Key]int
}

// Open makes the topic if it is missing, reads it to its end and returns. It
// fails with ErrNewer, or with a *Fault that names what stood in the way, a
// missing right to write too; then trying again later is right. Close must be called on what it returns.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{cl: o.Client, log: o.Logger, failedCh: make(chan struct{}),
		view: newView(), moved: make(chan struct{}), changed: make(chan struct{}),
		reserving: make(map[lineKey]chan struct{}), given: make(map[lineKey]int32), tries: make(map[Key]int)}
	s.tail = ownlog.New(o.Client, TopicName)
	// A client that saw an earlier topic of this name would refuse this one.
	s.cl.PurgeTopicsFromProducing(TopicName)
	var err error
	if s.created, err = o.ensure(ctx, s.tail); err == nil {
		s.tail.Patience = o.Patience
		err = readWhole(ctx, s.tail, s.take)
	}
	if err == nil {
		err = o.mayProduce(ctx, s.tail)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.id, s.next = s.tail.ID(), s.tail.Next()
	if p := s.Problems(); p.Malformed > 0 {
		s.log.Warn("control records are malformed and ignored", keyRecords, p.Malformed,
			keyOffset, p.LastOffset, keyErr, p.LastErr)
	}
	return s, nil
}

// Close ends what Open began; not the client. Run must have returned.
func (s *Store) Close() { s.tail.Close() }

// Created reports whether Open made the topic: then whatever mirrors the target
// holds are not on record here.
func (s *Store) Created() bool { return s.created }

// TopicID returns the control topic's own id.
func (s *Store) TopicID() [16]byte { return s.id }

// Run follows the topic until ctx ends (nil), or until the topic is gone
// (ErrLost) or holds what this klink does not understand (ErrNewer); every Put
// fails with the same error from then on. An unreachable cluster does not end it.
func (s *Store) Run(ctx context.Context) error {
	wait, down := retryMin, false
	for ctx.Err() == nil {
		err := s.step(ctx)
		switch {
		case err == nil:
			if down {
				s.log.Info("control topic is read again")
			}
			wait, down = retryMin, false
			continue
		case errors.Is(err, ErrLost), errors.Is(err, ErrNewer):
			return s.fail(err)
		case ctx.Err() != nil:
			return nil
		case !down:
			s.log.Warn("control topic cannot be read", keyErr, err)
			down = true
		}
		ownlog.Pause(ctx, wait)
		wait = min(2*wait, retryMax)
	}
	return nil
}

// step reads once; after an error it looks for the topic's new leader.
func (s *Store) step(ctx context.Context) error {
	got, err := s.tail.Fetch(ctx, followWait)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return s.reread(ctx)
	}
	if err != nil {
		if located := s.tail.Locate(ctx); errors.Is(located, ErrLost) {
			return located
		}
		return err
	}
	if err := s.take(got.Records); err != nil {
		return err
	}
	s.advance(got.End)
	return nil
}

// reread builds the view anew: the log was cut, at either end, behind what was
// read, so what the view says may be on record no longer. Readers see the old
// view until the new one is whole.
func (s *Store) reread(ctx context.Context) error {
	s.log.Warn("control topic was cut and is read anew", keyOffset, s.tail.Next())
	if err := s.tail.ToStart(ctx); err != nil {
		return err
	}
	fresh := newView()
	if err := readWhole(ctx, s.tail, fresh.take); err != nil {
		return err
	}
	s.mu.Lock()
	s.view = fresh
	s.noticeLocked()
	s.mu.Unlock()
	s.advance(s.tail.Next())
	return nil
}

func (s *Store) take(records []*kgo.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.view.changes
	err := s.view.take(records)
	if s.view.changes != before {
		s.noticeLocked()
	}
	return err
}

// noticeLocked wakes those who wait for a change.
func (s *Store) noticeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of anything that
// is read from the Store, by whomever. To miss none, get it before looking.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) advance(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	if s.next == s.tail.Next() {
		return
	}
	s.next = s.tail.Next()
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
		close(s.failedCh)
	}
	return err
}

func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// waitFor returns when the follower has read past offset.
func (s *Store) waitFor(ctx context.Context, offset int64) error {
	for {
		s.mu.Lock()
		next, moved := s.next, s.moved
		s.mu.Unlock()
		if next > offset {
			return nil
		}
		select {
		case <-moved:
		case <-s.failedCh:
			return s.failure()
		case <-ctx.Done():
			return ownlog.Classify("read back from "+TopicName, "", ctx.Err())
		}
	}
}

// catchUp returns when the follower has read past offset, and all that was in
// the log when it did: whatever the cleaner took away before the follower came
// to it, what superseded it has been read (C6).
func (s *Store) catchUp(ctx context.Context, offset int64) error {
	if err := s.waitFor(ctx, offset); err != nil {
		return err
	}
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	return s.waitFor(ctx, end-1)
}

// CatchUp returns once reads of this Store show all that was on record when it
// was called, by whomever it was written. It goes on trying while the cluster
// cannot be reached, until ctx ends. It needs Run to be running.
func (s *Store) CatchUp(ctx context.Context) error {
	for {
		if err := s.failure(); err != nil {
			return err
		}
		end, err := s.tail.End(ctx)
		if err == nil {
			return s.waitFor(ctx, end-1)
		}
		var f *Fault
		if errors.As(err, &f) && (f.Reason == state.NoPermission || f.Reason == state.Authentication) {
			return err
		}
		if !ownlog.Pause(ctx, ownlog.SettleWait) {
			return err
		}
		// Run looks for a new leader only where its own reads fail.
		_ = s.tail.Refresh(ctx)
	}
}

type written struct {
	offset int64
	at     time.Time
	err    error
}

// pending is a record on its way.
type pending struct {
	key, value []byte
	done       chan written // size 1: the promise must not wait for a caller who left
}

// send hands one record to the producer. A nil value deletes the key.
func (s *Store) send(ctx context.Context, k Key, v any) (*pending, error) {
	key, err := k.encode()
	if err != nil {
		return nil, fmt.Errorf("encode control key: %w", err)
	}
	var value []byte
	if v != nil {
		if value, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("encode control record %s: %w", k, err)
		}
	}
	if size := len(key) + len(value); size > maxRecordBytes {
		return nil, fmt.Errorf("%w: one of kind %q has %d bytes of at most %d", ErrTooLarge, k.Kind, size, maxRecordBytes)
	}
	return s.sendBytes(ctx, key, value)
}

// sendBytes is send for what is encoded already.
func (s *Store) sendBytes(ctx context.Context, key, value []byte) (*pending, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	p := &pending{key: key, value: value, done: make(chan written, 1)}
	s.cl.Produce(ctx, &kgo.Record{Topic: TopicName, Key: p.key, Value: p.value}, func(r *kgo.Record, err error) {
		p.done <- written{offset: r.Offset, at: r.Timestamp, err: err}
	})
	return p, nil
}

// settle waits for the acknowledgement.
func (s *Store) settle(ctx context.Context, p *pending) (written, error) {
	const op, right = "write " + TopicName, "Write on topic " + TopicName
	select {
	case w := <-p.done:
		return w, ownlog.Classify(op, right, w.err)
	case <-s.failedCh:
		return written{}, s.failure()
	case <-ctx.Done():
		return written{}, ownlog.Classify(op, right, ctx.Err())
	}
}

// put writes one record and makes it visible to reads of this store (C1). The
// follower will bring it again, which changes nothing.
func (s *Store) put(ctx context.Context, k Key, v any) error {
	p, err := s.send(ctx, k, v)
	if err != nil {
		return err
	}
	return s.finish(ctx, p)
}

// putThrough writes one record and returns its offset once the follower has read
// past it: then reads of this store see all that was written before.
func (s *Store) putThrough(ctx context.Context, k Key, v any) (int64, error) {
	p, err := s.send(ctx, k, v)
	if err != nil {
		return 0, err
	}
	w, err := s.settle(ctx, p)
	if err != nil {
		return 0, err
	}
	return w.offset, s.catchUp(ctx, w.offset)
}

func (s *Store) finish(ctx context.Context, p *pending) error {
	w, err := s.settle(ctx, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.view.changes
	err = s.view.apply(w.offset, w.at, p.key, p.value)
	if s.view.changes != before {
		s.noticeLocked()
	}
	return err
}
