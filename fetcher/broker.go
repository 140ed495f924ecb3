package fetcher

import (
	"time"

	"go.opentelemetry.io/otel/metric"
)

// broker is one source broker. Its two lanes send at most one Fetch each; a
// reading is in the hands of at most one of them. Guarded by Fetcher.mu.
type broker struct {
	f     *Fetcher
	id    int32
	label metric.MeasurementOption

	// queue holds what became readable and is in no lane yet, oldest first.
	queue []*reading
	long  *lane
	short *lane

	// failures in a row of whole requests; nothing is sent before retryAt.
	failures int
	since    time.Time
	told     bool
	retryAt  time.Time
}

// brokerLocked returns the broker's loops, starting them when it is first seen
// to lead an open partition. They sleep while it leads none.
func (f *Fetcher) brokerLocked(id int32) *broker {
	if b := f.brokers[id]; b != nil {
		return b
	}
	b := &broker{f: f, id: id, label: f.met.broker(id)}
	b.long, b.short = newLane(b, f.opt.Client), newLane(b, f.opt.Short)
	f.brokers[id] = b
	f.spawn(b.long.run)
	f.spawn(b.short.run)
	return b
}

// readyLocked lists a reading at its broker if it may be asked for and no lane
// has it yet.
func (f *Fetcher) readyLocked(s *reading) {
	if s.ready || s.lane != nil || !f.readableLocked(s) {
		return
	}
	s.ready = true
	s.home.queue = append(s.home.queue, s)
	s.home.wakeLocked()
}

func (b *broker) wakeLocked() {
	notify(b.long.wake)
	notify(b.short.wake)
}

// takeReadyLocked moves what is listed into a lane.
func (b *broker) takeReadyLocked(l *lane) {
	for _, s := range b.queue {
		if !s.ready || s.home != b {
			continue // listed elsewhere since, or again further back
		}
		s.ready = false
		if b.f.readableLocked(s) {
			l.enterLocked(s)
		}
	}
	clear(b.queue)
	b.queue = b.queue[:0]
}

// failedLocked notes that a whole request failed at that time.
func (b *broker) failedLocked(sent time.Time, err error) {
	if b.failures == 0 {
		b.since = sent
	}
	b.retryAt = time.Now().Add(pause(b.failures))
	b.failures++
	if !b.told && time.Since(b.since) >= grace {
		b.told = true
		b.f.log.Warn("source broker does not answer", keyBroker, b.id, keyError, err)
	}
}

func (b *broker) answeredLocked() {
	if b.told {
		b.f.log.Info("source broker answers again", keyBroker, b.id, keyLasted, time.Since(b.since).Round(time.Millisecond))
	}
	b.failures, b.told, b.retryAt = 0, false, time.Time{}
}
