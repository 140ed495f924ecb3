package linker

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/topics"
	"klink/linker/workers"
)

// controlBatch makes a transaction marker as brokers write it.
func controlBatch(id batch.Identity, coordinatorEpoch int32, commit bool) []byte {
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	value := make([]byte, 6)
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	rec := kmsg.Record{Key: key, Value: value}
	body := rec.AppendTo(nil)[1:]
	rec.Length = int32(len(body))
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{PartitionLeaderEpoch: 0, Magic: 2, Attributes: 0x30, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: id.ProducerID, ProducerEpoch: id.ProducerEpoch, FirstSequence: -1, NumRecords: 1, Records: rec.AppendTo(nil)}
	return seal(b.AppendTo(nil))
}

// seal sets length and CRC of a batch.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// mark appends a marker as a leader does; false where its coordinator epoch is
// too low.
func (l *memLog) mark(id batch.Identity, coordinatorEpoch int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.producer[id.ProducerID]
	if !known {
		p = memProducer{last: -1, coordinator: -1}
	}
	if known && p.marked && coordinatorEpoch < p.coordinator {
		return false
	}
	p.marked, p.coordinator = true, coordinatorEpoch
	l.producer[id.ProducerID] = p
	b := controlBatch(id, coordinatorEpoch, true)
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	l.putLocked(b, h)
	return true
}

// fence appends a marker of the mirror's producer with a higher epoch.
func (l *memLog) fence(epoch int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.producer {
		p.epoch, p.marked = epoch, true
		l.producer[id] = p
		b := controlBatch(batch.Identity{ProducerID: id, ProducerEpoch: epoch}, 1, true)
		h, err := batch.ParseHeader(b)
		if err != nil {
			panic(err)
		}
		l.putLocked(b, h)
	}
}

// WriteMarkers appends, or loses the request or its answer as lose says.
func (t *memTarget) WriteMarkers(_ context.Context, _ appender.Target, m appender.Markers) appender.MarkerResult {
	how := deliver
	if t.lose != nil {
		how = t.lose()
	}
	switch how {
	case loseSend:
		return appender.MarkerResult{Outcome: appender.MarkersUnknown, Err: errLost}
	case refuse:
		return appender.MarkerResult{Outcome: appender.MarkersRefused, Err: errLost}
	}
	out := appender.MarkersDone
	for _, e := range m.CoordinatorEpochs {
		if !t.log.mark(m.Identity, e) {
			out = appender.MarkersCoordinatorFenced
		}
	}
	if how == loseReply {
		return appender.MarkerResult{Outcome: appender.MarkersUnknown, Err: errLost}
	}
	r := appender.MarkerResult{Outcome: out}
	if out != appender.MarkersDone {
		r.Err = errLost
	}
	return r
}

// SettleMarkers has nothing to wait for: what was lost never comes.
func (t *memTarget) SettleMarkers(context.Context, appender.Target) error { return nil }

func (t *memTarget) Ends(_ context.Context, ts []appender.Target) map[appender.Target]appender.Ends {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	out := map[appender.Target]appender.Ends{}
	for _, k := range ts {
		out[k] = appender.Ends{LogStart: t.log.start, HighWatermark: t.log.end, LogEnd: t.log.end}
	}
	return out
}

func (t *memTarget) Trim(_ context.Context, starts map[appender.Target]int64) map[appender.Target]appender.Trimmed {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	out := map[appender.Target]appender.Trimmed{}
	for k, start := range starts {
		t.log.start = max(t.log.start, start)
		out[k] = appender.Trimmed{LogStart: t.log.start}
	}
	return out
}

// memRecords are the Records of a control topic in memory.
type memRecords struct {
	recMu    sync.Mutex // guards all below
	reserved int32
	pads     map[int32]control.PadRecord
	ledgers  map[feed.Partition]control.LedgerRecord
}

func (r *memRecords) ReserveCounters(_ context.Context, q control.CounterRequest) (int32, error) {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	first := max(r.reserved, q.Above+1)
	r.reserved = first + q.Count
	return first, nil
}

func (r *memRecords) CounterEnd(string, string, feed.TopicID, int32) int32 {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	return r.reserved
}

func (r *memRecords) PutPad(_ context.Context, p control.PadRecord) error {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	if r.pads == nil {
		r.pads = map[int32]control.PadRecord{}
	}
	r.pads[p.Partition] = p
	return nil
}

func (r *memRecords) Pad(_, _ string, partition int32) (control.PadRecord, bool) {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	p, ok := r.pads[partition]
	return p, ok
}

func (r *memRecords) Pads(string, string) (all []control.PadRecord) {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	for _, p := range r.pads {
		all = append(all, p)
	}
	return all
}

func (r *memRecords) PutLedger(_ context.Context, l control.LedgerRecord) error {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	if r.ledgers == nil {
		r.ledgers = map[feed.Partition]control.LedgerRecord{}
	}
	r.ledgers[feed.Partition{Topic: l.Topic, Partition: l.Partition}] = l
	return nil
}

func (r *memRecords) Ledger(_, topic string, partition int32) (control.LedgerRecord, bool) {
	r.recMu.Lock()
	defer r.recMu.Unlock()
	l, ok := r.ledgers[feed.Partition{Topic: topic, Partition: partition}]
	return l, ok
}

// memLease holds everything, for an hour from whenever it is asked.
type memLease struct{}

func (memLease) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (memLease) Watch([]string)                {}
func (memLease) Trouble() error                { return nil }
func (memLease) Changed() <-chan struct{}      { return nil }
func (memLease) Share(string, int32) workers.Share {
	return workers.Share{Mine: true, Heard: true, Joined: true}
}
func (memLease) BeforeGivingUp(func(context.Context, []workers.Partition)) {}
func (memLease) Held(string, int32) (time.Time, bool) {
	return time.Now().Add(time.Hour), true
}
func (memLease) Enter(string, int32) (Permit, bool) { return memPermit{}, true }

type memPermit struct{}

func (memPermit) Until() time.Time { return time.Now().Add(time.Hour) }
func (memPermit) Term() any        { return 1 }
func (memPermit) Inherited() bool  { return false }
func (memPermit) Leave()           {}

// memPolicies are topics that take pads and trims, on disks that tell what they
// have left where free is set.
type memPolicies struct{ free *atomic.Int64 }

func (memPolicies) CleanupPolicy(context.Context, string) (string, error)  { return "delete", nil }
func (memPolicies) SetCleanupPolicy(context.Context, string, string) error { return nil }
func (m memPolicies) Room(context.Context, string, int32) (topics.Room, error) {
	if m.free == nil {
		return topics.Room{}, topics.ErrRoomUnknown
	}
	return topics.Room{Broker: 3, Dir: "/data", UsableBytes: m.free.Load()}, nil
}
