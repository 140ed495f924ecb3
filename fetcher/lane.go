package fetcher

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/time/rate"

	"klink/fetcher/feed"
)

const (
	// leastBytes is the least a Fetch reserves: a batch of Kafka's default
	// message.max.bytes fits, so that the bound on memory holds even where a
	// broker returns a first batch beyond what was asked for (B1).
	leastBytes = 1<<20 + 4096
	// leastPartitionBytes keeps answers from being all cut tails when many
	// partitions share one.
	leastPartitionBytes = 64 << 10
	// budgetParts is how many full requests fit the budget: one under way per
	// lane while the answers before them are being appended.
	budgetParts = 4
	// shortest and longest bound the wait of a short poll. Whatever becomes
	// readable meanwhile waits for it. Few partitions poll at the quick end:
	// that is where single records travel and milliseconds count. With many,
	// the broker's work for each poll counts more.
	shortest = 2 * time.Millisecond
	longest  = 10 * time.Millisecond
	perPoll  = 100 * time.Microsecond // of wait, for each partition polled
	// readAheadPatience is how long a request that would only read ahead waits
	// for more partitions to share it. A chunk lasts its receiver for longer than
	// that, and a source broker's work is mostly per request.
	readAheadPatience = 5 * time.Millisecond
	// longPatience takes its place while every receiver has two chunks in hand.
	// Where the target is slower than the source, partitions become readable one
	// by one, and 5 ms gather two or three of them: eight partitions took twice as
	// many requests for the same bytes.
	longPatience = 20 * time.Millisecond
)

// lane sends one Fetch at a time over its own connection. The long lane takes
// everything readable and lets the broker wait for data; the short lane takes
// what becomes readable meanwhile and hardly waits. See doc.go, "Two lanes".
type lane struct {
	b      *broker
	client *kgo.Client
	wake   chan struct{} // size 1: look again whether to send

	// Guarded by Fetcher.mu.
	order   *list.List // members, of *reading; the next to be served first
	dirty   []*reading // members that a live session must be told of
	backlog int        // members with backlog
	busy    bool       // a request is under way
	idle    bool       // its last answer left a member without data
	session session
	sweptAt time.Time
	// fed: the request under way asks for what is known to be there.
	fed   bool
	trips trips

	// ahead is since when a request that only reads ahead is put off; zero while
	// none is.
	ahead time.Time

	// wait is what the request under way allows the broker; hasty counts empty
	// answers in a row that came long before that, and nothing is sent before
	// restUntil.
	wait      time.Duration
	hasty     int
	restUntil time.Time
}

func newLane(b *broker, client *kgo.Client) *lane {
	return &lane{b: b, client: client, wake: make(chan struct{}, 1), order: list.New(), session: noSession()}
}

// enterLocked makes a reading a member.
func (l *lane) enterLocked(s *reading) {
	s.lane, s.place = l, l.order.PushBack(s)
	if s.backlog {
		l.backlog++
	}
	l.dirtyLocked(s)
}

func (l *lane) dirtyLocked(s *reading) {
	if !s.dirty && l.session.live() {
		s.dirty = true
		l.dirty = append(l.dirty, s)
	}
}

// leaveLocked takes a reading out of its lane, if it is in one. An answer under
// way does not count for it any more (R2).
func (f *Fetcher) leaveLocked(s *reading) {
	l := s.lane
	if l == nil {
		return
	}
	l.order.Remove(s.place)
	if s.backlog {
		l.backlog--
	}
	l.session.drops(s.key())
	s.lane, s.place, s.dirty = nil, nil, false
}

// backlogLocked notes whether more is there than was read.
func (s *reading) backlogLocked(is bool) {
	if s.lane != nil && s.backlog != is {
		if is {
			s.lane.backlog++
		} else {
			s.lane.backlog--
		}
	}
	s.backlog = is
}

func (s *reading) key() sessionKey { return sessionKey{s.start.Partition, s.start.ID} }

// run sends Fetch after Fetch until ctx ends.
func (l *lane) run(ctx context.Context) error {
	f := l.b.f
	for {
		want, least, err := l.turn(ctx)
		if err != nil {
			return err
		}
		granted, err := f.budget.reserve(ctx, want, least)
		if err != nil {
			return fmt.Errorf("reserve fetch memory: %w", err)
		}
		req := l.build(granted)
		if req == nil {
			f.budget.settle(granted, 0)
			continue
		}
		sent := time.Now()
		resp, err := f.opt.send(ctx, l, req)
		if ctx.Err() != nil {
			f.budget.settle(granted, 0)
			return ctx.Err()
		}
		if err != nil {
			f.budget.settle(granted, 0)
			l.failed(ctx, sent, err)
			continue
		}
		if err := l.answered(ctx, exchange{resp: resp, sent: sent, reserved: granted}); err != nil {
			return err
		}
	}
}

// fetchByName is a Fetch for a cluster whose topics have no ids: from v13 on
// they are the only names.
type fetchByName struct{ *kmsg.FetchRequest }

// MaxVersion hides the versions that need ids.
func (fetchByName) MaxVersion() int16 { return 12 }

// send never cancels but for the end of ctx, which the caller ends at shutdown
// alone: kgo closes the connection then. What bounds a request are its own wait
// and the client's timeouts (RequestTimeoutOverhead).
func (o *Options) send(ctx context.Context, l *lane, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	var r kmsg.Request = req
	for i := range req.Topics {
		if req.Topics[i].TopicID == [16]byte{} {
			r = fetchByName{req}
			break
		}
	}
	resp, err := l.client.Broker(int(l.b.id)).Request(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("fetch from broker %d: %w", l.b.id, err)
	}
	return resp.(*kmsg.FetchResponse), nil
}

// turn waits until the lane has something to send and returns how many bytes to
// reserve for it.
func (l *lane) turn(ctx context.Context) (want, least int64, err error) {
	f := l.b.f
	for {
		f.mu.Lock()
		ok, again := l.mayLocked(time.Now())
		if ok {
			want, least = l.sizeLocked()
		}
		f.mu.Unlock()
		if ok {
			return want, least, nil
		}
		if err := l.sleep(ctx, again); err != nil {
			return 0, 0, err
		}
	}
}

// sleep waits to be woken, or for a time if it is not zero.
func (l *lane) sleep(ctx context.Context, until time.Time) error {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.wake:
	case <-timeout:
	}
	return nil
}

// mayLocked reports whether the lane may send now, else when to look again; the
// zero time: when woken.
func (l *lane) mayLocked(now time.Time) (ok bool, again time.Time) {
	b := l.b
	something := l.order.Len() > 0 || len(b.queue) > 0
	if l == b.long {
		// Gather the members of the short lane that turned out to be idle: its
		// poll ends within longest, and they belong into the long poll.
		if b.short.busy && b.short.idle {
			return false, time.Time{}
		}
		something = something || !b.short.busy && b.short.order.Len() > 0
	} else {
		something = something && b.long.busy
	}
	if again = l.restUntil; b.retryAt.After(again) {
		again = b.retryAt
	}
	if !something {
		return false, time.Time{}
	}
	if now.Before(again) {
		return false, again
	}
	if patience := l.patienceLocked(); patience > 0 {
		if l.ahead.IsZero() {
			l.ahead = now
		}
		if until := l.ahead.Add(patience); now.Before(until) {
			return false, until
		}
	}
	return true, time.Time{}
}

// patienceLocked returns how long a request may be put off that would only read
// ahead, for receivers that all have chunks in hand, and has room for more
// partitions; else 0. What comes from far away has to be asked for early.
func (l *lane) patienceLocked() time.Duration {
	n, least := 0, window
	for e := l.order.Front(); e != nil && least > 0; e = e.Next() {
		n, least = n+1, min(least, e.Value.(*reading).out)
	}
	for _, s := range l.b.queue {
		if least == 0 {
			break
		}
		if s.ready {
			n, least = n+1, min(least, s.out)
		}
	}
	f := l.b.f
	switch {
	case least == 0, int64(n)*int64(f.opt.PartitionBytes) >= f.budget.limit/budgetParts:
		return 0
	case least == 1, l.trips.far(), n == 0: // only the short lane's members are to be gathered
		return readAheadPatience
	default:
		return longPatience
	}
}

// restLocked notes how long an answer took and what it brought. A broker that
// returns nothing without waiting, as some do at holes of tiered logs or next
// to a partition with an error, would have us spin.
func (l *lane) restLocked(took time.Duration, bytes int) {
	if bytes > 0 || took >= l.wait/2 {
		l.hasty, l.restUntil = 0, time.Time{}
		return
	}
	l.restUntil = time.Now().Add(min(shortest<<min(l.hasty, 8), longest))
	l.hasty++
}

// sizeLocked returns how many bytes the next request should reserve.
func (l *lane) sizeLocked() (want, least int64) {
	f, behind := l.b.f, int64(l.backlog)
	for _, s := range l.b.queue {
		if s.ready && s.backlog {
			behind++
		}
	}
	limit := f.budget.limit
	least = max(min(leastBytes, limit/budgetParts), int64(f.largest))
	if behind > 0 && l.trips.far() {
		return max(f.opt.rated(limit/farParts), least), least
	}
	most := f.opt.rated(limit / budgetParts)
	return max(min(behind*int64(f.opt.PartitionBytes), most), least), least
}

// rated cuts bytes to half a second's worth of the link's rate: what comes at
// once is paid for afterwards.
func (o *Options) rated(bytes int64) int64 {
	if o.Limit == nil || o.Limit.Limit() == rate.Inf {
		return bytes
	}
	return min(bytes, max(leastPartitionBytes, int64(o.Limit.Limit()/2)))
}

// build makes the next request of at most granted bytes; nil where nothing is
// left to ask for. The lane is busy from then on.
func (l *lane) build(granted int64) *kmsg.FetchRequest {
	f := l.b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if ok, _ := l.mayLocked(time.Now()); !ok {
		return nil
	}
	if l == l.b.long && !l.b.short.busy {
		l.gatherLocked()
	}
	l.b.takeReadyLocked(l)
	if l.order.Len() == 0 {
		return nil
	}
	l.modeLocked()
	l.busy, l.ahead = true, time.Time{}
	notify(l.b.short.wake)
	return l.requestLocked(granted)
}

// gatherLocked takes over the members of the short lane.
func (l *lane) gatherLocked() {
	f, short := l.b.f, l.b.short
	for e := short.order.Front(); e != nil; e = short.order.Front() {
		s := e.Value.(*reading)
		f.leaveLocked(s)
		l.enterLocked(s)
	}
	short.idle = false
}

// modeLocked begins or ends a session as the number of members asks for.
func (l *lane) modeLocked() {
	n := l.order.Len()
	switch {
	case l.session.epoch < 0 && n >= sessionFrom:
		l.session.restart()
	case l.session.epoch >= 0 && n < sessionBelow:
		l.session.end()
	}
}

func (l *lane) requestLocked(granted int64) *kmsg.FetchRequest {
	f := l.b.f
	req := kmsg.NewPtrFetchRequest()
	l.wait = l.waitLocked()
	req.MaxWaitMillis = int32(l.wait.Milliseconds())
	req.MinBytes = 1
	allowed := f.opt.rated(min(granted, 1<<30))
	req.MaxBytes = int32(allowed)
	req.IsolationLevel = 1 // read_committed: never beyond the last stable offset
	req.SessionID, req.SessionEpoch = l.session.id, l.session.epoch

	l.fed = l.backlog > 0
	share := allowed / int64(max(1, l.backlog))
	if !l.trips.far() {
		share = min(share, int64(f.opt.PartitionBytes))
	}
	share = max(share, min(leastPartitionBytes, int64(f.opt.PartitionBytes)))
	r := requester{req: req, at: make(map[sessionKey]int)}
	if l.session.live() {
		for _, s := range l.dirty {
			if s.lane == l && s.dirty {
				r.add(s, f.askLocked(s, share))
				l.session.adds(s.key())
			}
		}
	} else {
		if l.session.epoch == 0 {
			l.session.restart() // what an earlier try named does not count
		}
		for e := l.order.Front(); e != nil; e = e.Next() {
			s := e.Value.(*reading)
			r.add(s, f.askLocked(s, share))
			l.session.adds(s.key())
		}
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
	req.ForgottenTopics = l.session.forgotten()
	return req
}

// askLocked returns how much to ask of one partition: its share where there is
// a backlog, at least its largest batch so far.
func (f *Fetcher) askLocked(s *reading, share int64) int32 {
	ask := int64(f.opt.PartitionBytes)
	if s.backlog {
		ask = share
	}
	return int32(min(max(ask, int64(s.largest)), f.budget.limit, 1<<30))
}

// waitLocked returns how long the broker may hold the request. Under memory
// pressure a long poll does not sit on its reservation either.
func (l *lane) waitLocked() time.Duration {
	if l == l.b.long && !l.b.f.budget.Contended() {
		return l.b.f.opt.MaxWait
	}
	return min(max(time.Duration(l.order.Len())*perPoll, shortest), longest, l.b.f.opt.MaxWait)
}

// requester fills a request; partitions of one topic stand together.
type requester struct {
	req *kmsg.FetchRequest
	at  map[sessionKey]int
}

func (r *requester) add(s *reading, maxBytes int32) {
	key := sessionKey{feed.Partition{Topic: s.start.Topic}, s.start.ID}
	i, ok := r.at[key]
	if !ok {
		i = len(r.req.Topics)
		r.at[key] = i
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = s.start.Topic, s.start.ID
		r.req.Topics = append(r.req.Topics, t)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = s.start.Partition.Partition
	p.CurrentLeaderEpoch = s.epoch
	p.FetchOffset = s.next
	p.LastFetchedEpoch = s.lastEpoch
	p.PartitionMaxBytes = maxBytes
	r.req.Topics[i].Partitions = append(r.req.Topics[i].Partitions, p)
	s.dirty = false
}
