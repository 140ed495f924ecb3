package maps

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
	"klink/translate/exact"
)

// Options are what a Store needs.
type Options struct {
	// Client is the store's alone. Its producer must ask for acks from all in-sync
	// replicas and be idempotent, as kgo's is unless told otherwise.
	Client *kgo.Client
	// ReplicationFactor of the topic if it has to be made; 0 is 3, or the number of
	// brokers where there are fewer.
	ReplicationFactor int16
	Logger            *slog.Logger
}

// Store reads and writes the maps of a target. It is safe for concurrent use, of
// different partitions; a partition's Puts must follow one another (M4).
type Store struct {
	cl *kgo.Client

	reading sync.Mutex // guards log; held over requests
	log     *ownlog.Log

	mu   sync.Mutex // guards all below
	view *View
	on   map[Place][]chunk // as Load and Put left them
}

// Open makes the topic if it is missing, reads it to its end and returns. It fails
// with a *ownlog.Fault that names what stood in the way; then trying again later is
// right. Close must be called on what it returns.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{cl: o.Client, log: ownlog.New(o.Client, TopicName), view: newView(), on: make(map[Place][]chunk)}
	// A client that saw an earlier topic of this name would refuse this one.
	s.cl.PurgeTopicsFromProducing(TopicName)
	_, err := s.log.Ensure(ctx, o.ReplicationFactor)
	if err == nil {
		err = s.log.ReadToEnd(ctx, s.take)
	}
	if err == nil {
		err = s.log.MayProduce(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if n := s.view.Malformed(); n > 0 {
		o.Logger.Warn("records of "+TopicName+" are malformed and ignored", "records", n)
	}
	return s, nil
}

// Read reads the topic once, to its end, and writes nothing. Describe and Read on
// the topic are all it needs. A cluster without the topic gives a *ownlog.Fault with
// TOPIC_MISSING.
func Read(ctx context.Context, cl *kgo.Client) (*View, error) {
	log := ownlog.New(cl, TopicName)
	defer log.Close()
	if err := log.Locate(ctx); err != nil {
		return nil, err
	}
	v := newView()
	if err := log.ReadToEnd(ctx, v.take); err != nil {
		return nil, err
	}
	return v, nil
}

// Close ends what Open began; not the client.
func (s *Store) Close() { s.log.Close() }

func (s *Store) take(records []*kgo.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.take(records)
}

// Load returns a partition's map as it is on record now (M4); see View.Map. The map
// is the caller's.
func (s *Store) Load(ctx context.Context, p Place) (*exact.Map, Cursor, error) {
	s.reading.Lock()
	err := s.log.ReadToEnd(ctx, s.take)
	s.reading.Unlock()
	if err != nil {
		return nil, Cursor{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, c, chunks, err := s.view.read(p)
	if err != nil {
		return nil, Cursor{}, err
	}
	s.on[p] = chunks
	return m, c, nil
}

// Put writes what changed of a partition's map since it was loaded or put last, and
// settles it (M1, M2). The caller has Loaded it before, and does so
// again after an error.
func (s *Store) Put(ctx context.Context, p Place, m *exact.Map) error {
	s.mu.Lock()
	on := s.on[p]
	s.mu.Unlock()
	e := editsOf(on, m)
	now := e.kept
	for _, stage := range [][]numbered{e.first, e.more} {
		put, err := s.putChunks(ctx, p, stage)
		if err != nil {
			return err
		}
		now = append(now, put...)
	}
	if err := s.dropChunks(ctx, p, e.drop); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[p] = now
	m.Settled()
	return nil
}

// putChunks writes chunks, in any order, and tells them as they are on record then.
func (s *Store) putChunks(ctx context.Context, p Place, all []numbered) (now []chunk, err error) {
	var records []*kgo.Record
	for _, c := range all {
		b, err := exact.Encode(nil, c.runs)
		if err != nil {
			return nil, fmt.Errorf("encode chunk %d of the map of %s[%d]: %w", c.number, p.Topic, p.Partition, err)
		}
		r, err := record(p.key(kindRuns, c.number), b)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		now = append(now, chunk{c.number, len(c.runs), c.runs[len(c.runs)-1].SrcEnd(), b})
	}
	return now, s.write(ctx, records)
}

func (s *Store) dropChunks(ctx context.Context, p Place, numbers []int64) error {
	var records []*kgo.Record
	for _, n := range numbers {
		r, err := record(p.key(kindRuns, n), nil)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.write(ctx, records)
}

// PutCursor writes how far a partition's mirror has come. What the map was begun with
// stays on record.
func (s *Store) PutCursor(ctx context.Context, p Place, c Cursor) error {
	s.mu.Lock()
	if h := s.view.held[p]; h != nil && h.cursor != nil && c.Adopted == 0 {
		if on, err := decodeCursor(h.cursor); err == nil {
			c.Floor, c.Adopted = on.Floor, on.Adopted
		}
	}
	s.mu.Unlock()
	value, err := encodeCursor(c)
	if err != nil {
		return err
	}
	r, err := record(p.key(kindCursor, 0), value)
	if err != nil {
		return err
	}
	return s.write(ctx, []*kgo.Record{r})
}

// Drop deletes all that is on record of a topic of a link, in all its incarnations.
func (s *Store) Drop(ctx context.Context, link, topic string) error {
	var records []*kgo.Record
	s.mu.Lock()
	for p, h := range s.view.held {
		if p.Link != link || p.Topic != topic {
			continue
		}
		keys := []key{p.key(kindCursor, 0)}
		for n := range h.chunks {
			keys = append(keys, p.key(kindRuns, n))
		}
		for _, k := range keys {
			r, err := record(k, nil)
			if err != nil {
				s.mu.Unlock()
				return err
			}
			records = append(records, r)
		}
		delete(s.on, p)
	}
	s.mu.Unlock()
	return s.write(ctx, records)
}

func record(k key, value []byte) (*kgo.Record, error) {
	b, err := k.encode()
	if err != nil {
		return nil, fmt.Errorf("encode the key of a record of %s: %w", TopicName, err)
	}
	return &kgo.Record{Topic: TopicName, Key: b, Value: value}, nil
}

// write returns once all records are acknowledged. After an error any of them may be
// on record, and what failed may still arrive: the next Load tells.
func (s *Store) write(ctx context.Context, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	results := s.cl.ProduceSync(ctx, records...)
	s.mu.Lock()
	for _, r := range results {
		if r.Err == nil {
			s.view.apply(r.Record.Key, r.Record.Value)
		}
	}
	s.mu.Unlock()
	return ownlog.Classify("write "+TopicName, "Write on topic "+TopicName, results.FirstErr())
}
