package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/time/rate"

	"klink/fetcher/feed"
)

// exchange is one answered Fetch.
type exchange struct {
	resp     *kmsg.FetchResponse
	sent     time.Time
	took     time.Duration
	bytes    int // of records
	reserved int64
}

// part is one partition of an answer with what the reading looked like when it
// was asked.
type part struct {
	s    *reading
	resp *kmsg.FetchResponseTopicPartition
	slice
	from      int64
	fromEpoch int32 // LastFetchedEpoch
	epoch     int32 // CurrentLeaderEpoch
	err       error
	chunk     *feed.Chunk
}

// failed deals with a request that got no answer.
func (l *lane) failed(ctx context.Context, sent time.Time, err error) {
	f, b := l.b.f, l.b
	f.met.answer(ctx, b.label, 0, 0, 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	l.session.broken()
	l.busy, l.idle = false, false
	b.failedLocked(sent, err)
	v := classify(err)
	topics := make(map[string]struct{})
	for e := l.order.Front(); e != nil; e = e.Next() {
		s := e.Value.(*reading)
		s.dirty = false
		topics[s.start.Topic] = struct{}{}
		f.troubleLocked(s, v, err, sent)
	}
	f.refreshLocked(topics) // the leaders may be elsewhere by now
	b.wakeLocked()
}

// answered hands out an answer. It returns an error only when ctx ends.
func (l *lane) answered(ctx context.Context, x exchange) error {
	f := l.b.f
	x.bytes, x.took = recordBytes(x.resp), time.Since(x.sent)
	f.met.answer(ctx, l.b.label, x.bytes, x.took, time.Duration(x.resp.ThrottleMillis)*time.Millisecond)
	if err := kerr.ErrorForCode(x.resp.ErrorCode); err != nil {
		f.budget.settle(x.reserved, 0)
		l.refused(ctx, x, err)
		return nil
	}
	parts := l.match(x.resp)
	for i := range parts {
		p := &parts[i]
		if p.err == nil && len(p.resp.RecordBatches) > 0 {
			p.slice, p.err = cut(p.resp.RecordBatches, p.from, p.fromEpoch, p.epoch)
		}
	}
	f.bundle(parts, x)
	for _, c := range l.apply(x, parts) {
		c.Release()
	}
	return pay(ctx, f.opt.Limit, x.bytes)
}

func recordBytes(resp *kmsg.FetchResponse) (n int) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			n += len(resp.Topics[i].Partitions[j].RecordBatches)
		}
	}
	return n
}

// pay waits until the link's rate allows for bytes that have come.
func pay(ctx context.Context, limit *rate.Limiter, bytes int) error {
	if limit == nil || limit.Limit() == rate.Inf {
		return nil
	}
	for burst := max(1, limit.Burst()); bytes > 0; bytes -= burst {
		if err := limit.WaitN(ctx, min(bytes, burst)); err != nil {
			return fmt.Errorf("keep to the link's rate: %w", err)
		}
	}
	return nil
}

// refused deals with an error of a whole answer. A lost session is nobody's
// trouble unless it goes on.
func (l *lane) refused(ctx context.Context, x exchange, err error) {
	f := l.b.f
	if !sessionLost(err) && classify(err).act != actLook {
		l.failed(ctx, x.sent, fmt.Errorf("fetch from broker %d: %w", l.b.id, err))
		return
	}
	f.log.Debug("fetch session ended", keyBroker, l.b.id, keyError, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	l.session.lost()
	l.busy, l.idle = false, false
	if l.b.failures > 0 {
		l.b.retryAt = time.Now().Add(pause(l.b.failures))
	} else {
		l.b.since = time.Now()
	}
	l.b.failures++
	l.b.wakeLocked()
}

// match finds the readings that an answer speaks of and still counts for (R2).
func (l *lane) match(resp *kmsg.FetchResponse) []part {
	f := l.b.f
	var parts []part
	f.mu.Lock()
	defer f.mu.Unlock()
	names := l.namesLocked(resp)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := t.Topic
		if resp.Version >= 13 {
			topic = names[t.TopicID]
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			s := f.open[feed.Partition{Topic: topic, Partition: p.Partition}]
			if s == nil || s.lane != l || resp.Version >= 13 && s.start.ID != t.TopicID {
				continue
			}
			parts = append(parts, part{s: s, resp: p, from: s.next, fromEpoch: s.lastEpoch, epoch: s.epoch,
				err: kerr.ErrorForCode(p.ErrorCode)})
		}
	}
	return parts
}

// namesLocked returns the topics behind the ids of an answer.
func (l *lane) namesLocked(resp *kmsg.FetchResponse) map[feed.TopicID]string {
	if resp.Version < 13 {
		return nil
	}
	names := make(map[feed.TopicID]string, len(resp.Topics))
	for i := range resp.Topics {
		names[resp.Topics[i].TopicID] = ""
	}
	missing := len(names)
	for e := l.order.Front(); e != nil && missing > 0; e = e.Next() {
		s := e.Value.(*reading)
		if n, ok := names[s.start.ID]; ok && n == "" {
			names[s.start.ID] = s.start.Topic
			missing--
		}
	}
	return names
}
