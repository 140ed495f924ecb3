package linker

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
)

// memLog is one partition's log as a broker keeps it, in the plainest way: a
// list of batches. It is the judge of the loops under test, so it knows the
// broker's rules for sequences and nothing of the loops.
type memLog struct {
	mu       sync.Mutex // guards all below
	id       feed.TopicID
	start    int64
	end      int64
	batches  [][]byte // base offsets set
	producer map[int64]memProducer
	changed  chan struct{} // closed and renewed at every append
	unheard  int           // so many looks find no such topic
	aborted  []memAborted
}

// memAborted is an aborted transaction: its marker is at last.
type memAborted struct{ producer, first, last int64 }

// abortedFrom lists the transactions that end at or after an offset.
func (l *memLog) abortedFrom(at int64) (out []feed.Aborted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.aborted {
		if a.last >= at {
			out = append(out, feed.Aborted{ProducerID: a.producer, FirstOffset: a.first})
		}
	}
	return out
}

type memProducer struct {
	epoch int16
	last  int32
	// the last five batches, for duplicates
	recent []memAppend
	// marked: it has written markers, the last one with this coordinator epoch.
	marked      bool
	coordinator int32
}

type memAppend struct {
	first, last int32
	base        int64
}

func newMemLog(id byte) *memLog {
	return &memLog{id: feed.TopicID{id}, producer: map[int64]memProducer{}, changed: make(chan struct{})}
}

var (
	errOutOfOrder = errors.New("out of order sequence")
	errFenced     = errors.New("invalid producer epoch")
)

// append takes a batch as a broker takes a Produce: where its log ends.
func (l *memLog) append(b []byte) (base int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := batch.ParseHeader(b)
	if err != nil {
		return -1, err
	}
	if err := batch.CheckCRC(b); err != nil {
		return -1, err
	}
	last := appender.NextSequence(h.BaseSequence, h.Count-1)
	if h.ProducerID >= 0 {
		p, known := l.producer[h.ProducerID]
		if h.ProducerEpoch < p.epoch {
			return -1, errFenced
		}
		for _, r := range p.recent {
			if r.first == h.BaseSequence && r.last == last {
				return r.base, nil
			}
		}
		if known && h.BaseSequence != appender.NextSequence(p.last, 1) {
			return -1, errOutOfOrder
		}
		p.last = last
		p.recent = append(p.recent, memAppend{h.BaseSequence, last, l.end})
		if len(p.recent) > 5 {
			p.recent = p.recent[1:]
		}
		l.producer[h.ProducerID] = p
	}
	return l.putLocked(b, h), nil
}

func (l *memLog) putLocked(b []byte, h batch.Header) int64 {
	own := append([]byte(nil), b...)
	binary.BigEndian.PutUint64(own, uint64(l.end))
	base := l.end
	l.batches = append(l.batches, own)
	l.end += int64(h.Count)
	close(l.changed)
	l.changed = make(chan struct{})
	return base
}

// write appends records as any producer would.
func (l *memLog) write(recs []batch.Record, epoch int32, codec batch.Codec) {
	made, err := batch.Encode(iterate(recs), batch.RecodeOptions{Codec: codec})
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range made {
		binary.BigEndian.PutUint32(m.Bytes[12:], uint32(epoch))
		h, err := batch.ParseHeader(m.Bytes)
		if err != nil {
			panic(err)
		}
		l.putLocked(m.Bytes, h)
	}
}

func iterate(recs []batch.Record) iter.Seq2[batch.Record, error] {
	return func(yield func(batch.Record, error) bool) {
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// from returns copies of up to n batches from the one that holds an offset on.
func (l *memLog) from(at int64, n int) (out [][]byte, end int64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		h, _ := batch.ParseHeader(b)
		if h.LastOffset() < at || len(out) == n {
			continue
		}
		out = append(out, append([]byte(nil), b...))
	}
	return out, l.end, l.changed
}

// starts returns the first offset.
func (l *memLog) starts() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start
}

// delete moves the start, as DeleteRecords and retention do.
func (l *memLog) delete(below int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = below
}

// records reads the whole log into memory.
func (l *memLog) records() (out []batch.Record) {
	bs, _, _ := l.from(0, 1<<30)
	visible := plan.Visible(bs, l.abortedFrom(0))
	for i, b := range bs {
		if !visible[i] {
			continue
		}
		for r, err := range batch.Records(b, batch.Limits{}) {
			if err != nil {
				panic(err)
			}
			out = append(out, r.Clone())
		}
	}
	return out
}

// truncate cuts the tail, as an unclean election does.
func (l *memLog) truncate(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) > 0 {
		h, _ := batch.ParseHeader(l.batches[len(l.batches)-1])
		if h.LastOffset() < end {
			break
		}
		l.batches = l.batches[:len(l.batches)-1]
		l.end = h.BaseOffset
	}
	l.producer = map[int64]memProducer{}
	for _, b := range l.batches {
		h, _ := batch.ParseHeader(b)
		if h.ProducerID >= 0 {
			p := l.producer[h.ProducerID]
			if m, err := batch.ParseMarker(b); err == nil {
				p.marked, p.coordinator = true, m.CoordinatorEpoch
			} else {
				p.last = appender.NextSequence(h.BaseSequence, h.Count-1)
			}
			l.producer[h.ProducerID] = p
		}
	}
}

// memReader is the Reader over a memLog.
type memReader struct{ log *memLog }

func (r memReader) Bounds(_ context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.log.unheard > 0 {
		r.log.unheard--
		return feed.Bounds{}, feed.NewFault(feed.Gone, p, feed.Unknown, nil)
	}
	if id != r.log.id {
		return feed.Bounds{}, feed.NewFault(feed.Recreated, p, feed.Unknown, nil)
	}
	return feed.Bounds{ID: id, LogStart: r.log.start, LastStable: r.log.end, HighWatermark: r.log.end, LogEnd: r.log.end, SeenAt: time.Now()}, nil
}

func (r memReader) Read(_ context.Context, _ feed.Partition, _ feed.TopicID, from int64, _ int32) (*feed.Chunk, error) {
	bs, end, _ := r.log.from(from, 3)
	return &feed.Chunk{Next: from, Batches: bs, LastStable: end, HighWatermark: end, Aborted: r.log.abortedFrom(from)}, nil
}

// memSource streams a memLog, cut into chunks at random.
type memSource struct {
	log  *memLog
	rand *rand.Rand
	mu   sync.Mutex // guards rand
	wg   sync.WaitGroup
	// most is how many batches a chunk holds at most, 4 where it is 0.
	most int
	// fault is asked before every chunk.
	fault func(p feed.Partition, next int64) *feed.Fault
	// mended, where there is one, ends what a fault told of.
	mended chan struct{}
}

func (s *memSource) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *memSource) Open(start feed.Start) feed.Stream {
	events, done := make(chan feed.Event), make(chan struct{})
	var once sync.Once
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer close(events)
		s.stream(start, events, done)
	}()
	return feed.Stream{Events: events, Close: func() { once.Do(func() { close(done) }) }}
}

func (s *memSource) stream(start feed.Start, events chan<- feed.Event, done <-chan struct{}) {
	for next := start.Next; ; {
		if s.fault != nil {
			if f := s.fault(start.Partition, next); f != nil {
				select {
				case events <- feed.Event{Fault: f}:
				case <-done:
					return
				}
				if !f.Kind.Temporary() {
					return
				}
				if s.mended != nil {
					<-s.mended
				}
			}
		}
		bs, end, changed := s.log.from(next, 1+s.dice(cmp.Or(s.most, 4)))
		c := &feed.Chunk{Next: next, Batches: bs, LogStart: s.log.starts(), LastStable: end, HighWatermark: end, Aborted: s.log.abortedFrom(next), SeenAt: time.Now()}
		if n := len(bs); n > 0 {
			h, _ := batch.ParseHeader(bs[n-1])
			next = h.NextOffset()
		}
		select {
		case events <- feed.Event{Chunk: c}:
		case <-done:
			return
		}
		if len(bs) == 0 {
			select {
			case <-changed:
			case <-time.After(500 * time.Millisecond):
			case <-done:
				return
			}
		}
	}
}

// memTarget is the Target over a memLog. Its lose function decides per append
// what goes wrong.
type memTarget struct {
	log *memLog
	// lose is asked for every append; it may act on the log itself.
	lose func() memLoss
	// blind hides the producer state, as a missing right does.
	blind bool

	mu      sync.Mutex // guards appends
	appends int
}

var errLost = errors.New("connection lost")

// memLoss is what becomes of one append.
type memLoss int

const (
	deliver    memLoss = iota
	loseReply          // appended, and the answer is lost
	loseSend           // lost on the way
	refuse             // the broker says not enough replicas
	replyTwice         // appended twice by an old request: the second is a duplicate
)

// memFlights tells what became of appends that others may follow.
var memFlights sync.Map // *appender.Pending -> *memFlight

type memFlight struct {
	ended   chan struct{}
	outcome appender.Outcome
}

// Begin appends in a goroutine of its own, after the append it follows.
func (t *memTarget) Begin(_ context.Context, _ appender.Target, b appender.Batch) *appender.Pending {
	p, settle := appender.Promise()
	f := &memFlight{ended: make(chan struct{})}
	memFlights.Store(p, f)
	go func() {
		r := appender.Result{Outcome: appender.NotSent, Base: -1, Err: appender.ErrPredecessor}
		ok := true
		if before, known := memFlights.LoadAndDelete(b.After); known {
			was := before.(*memFlight)
			<-was.ended
			// Behind a failure it comes back unsent, or was on its way already.
			t.mu.Lock()
			ok = was.outcome == appender.Appended || t.appends%2 == 0
			t.mu.Unlock()
		}
		if ok {
			r = t.append(b)
		}
		f.outcome = r.Outcome
		close(f.ended)
		settle(r)
	}()
	return p
}

func (t *memTarget) append(batch appender.Batch) appender.Result {
	b, expect := batch.Bytes, batch.Expect
	t.mu.Lock()
	t.appends++
	t.mu.Unlock()
	how := deliver
	if t.lose != nil {
		how = t.lose()
	}
	unknown := appender.Result{Outcome: appender.Unknown, Base: -1, Err: errLost}
	switch how {
	case loseSend:
		return unknown
	case refuse:
		return appender.Result{Outcome: appender.Refused, Base: -1, Reason: state.NotEnoughReplicas, Err: errors.New("not enough replicas")}
	}
	base, err := t.log.append(b)
	switch {
	case how == loseReply:
		return unknown
	case how == replyTwice && err == nil:
		base, err = t.log.append(b)
	}
	switch {
	case errors.Is(err, errFenced):
		return appender.Result{Outcome: appender.Fenced, Base: -1, Err: err}
	case errors.Is(err, errOutOfOrder):
		return appender.Result{Outcome: appender.OutOfOrder, Base: -1, Err: err}
	case err != nil:
		return appender.Result{Outcome: appender.Refused, Reason: state.Corrupt, Base: -1, Err: err}
	case base > expect:
		return appender.Result{Outcome: appender.Misplaced, Base: base}
	case base < expect:
		return appender.Result{Outcome: appender.Duplicate, Base: base}
	}
	return appender.Result{Outcome: appender.Appended, Base: base}
}

func (t *memTarget) LogEnds(_ context.Context, ts []appender.Target) map[appender.Target]appender.LogEnd {
	_, end, _ := t.log.from(0, 0)
	out := map[appender.Target]appender.LogEnd{}
	for _, k := range ts {
		out[k] = appender.LogEnd{End: end}
	}
	return out
}

func (t *memTarget) ProducerState(_ context.Context, _ appender.Target, id int64) (appender.ProducerState, error) {
	if t.blind {
		return appender.ProducerState{}, errors.New("no permission")
	}
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	p, ok := t.log.producer[id]
	s := appender.ProducerState{Known: ok, Epoch: p.epoch, LastSequence: p.last, CoordinatorEpoch: -1}
	if p.marked {
		s.CoordinatorEpoch = p.coordinator
	}
	return s, nil
}

// memLineage keeps epochs in memory and checks K3 by its own record.
type memLineage struct {
	mu     sync.Mutex // guards epochs
	epochs []control.Epoch
	fail   func() error
}

func (l *memLineage) Epochs(string, string, int32) []control.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]control.Epoch(nil), l.epochs...)
}

func (l *memLineage) PutEpoch(_ context.Context, r control.EpochRecord) error {
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs = append(l.epochs, r.Epoch)
	return nil
}

// alone is the Turn of a process without a twin.
type alone struct{}

func (alone) Mine(context.Context, string, int32) (string, bool) { return "", true }

type memMemory struct{}

func (memMemory) Contended() bool { return false }

// sameLogs compares two logs record by record, the dumb way.
func sameLogs(src, dst []batch.Record) error {
	if len(src) != len(dst) {
		return fmt.Errorf("source has %d records, target %d", len(src), len(dst))
	}
	var a, b []byte
	for i := range src {
		a, b = batch.AppendCanonical(a[:0], src[i]), batch.AppendCanonical(b[:0], dst[i])
		if string(a) != string(b) {
			return fmt.Errorf("record %d differs: %+v and %+v", i, src[i], dst[i])
		}
	}
	return nil
}
