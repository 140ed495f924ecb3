package linker

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/linker/ledger"
	"klink/linker/pad"
	"klink/linker/state"
)

// txn writes a transaction of one batch and its marker, as a broker keeps it.
func (l *memLog) txn(producer int64, recs []batch.Record, commit bool) {
	made, err := batch.Encode(iterate(recs), batch.RecodeOptions{})
	if err != nil {
		panic(err)
	}
	b := made[0].Bytes
	b[22] |= 0x10 // transactional
	binary.BigEndian.PutUint64(b[43:], uint64(producer))
	binary.BigEndian.PutUint32(b[53:], 0)
	binary.BigEndian.PutUint32(b[12:], 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.end
	l.keepLocked(seal(b))
	if !commit {
		l.aborted = append(l.aborted, memAborted{producer: producer, first: first, last: l.end})
	}
	l.keepLocked(controlBatch(batch.Identity{ProducerID: producer}, 0, commit))
}

// holed writes a batch of n offsets that holds records at the given ones alone.
func (l *memLog) holed(n int, at ...int) {
	var body []byte
	for _, d := range at {
		rec := kmsg.Record{OffsetDelta: int32(d), Key: fmt.Append(nil, "key", d), Value: []byte("kept")}
		inner := rec.AppendTo(nil)[1:]
		rec.Length = int32(len(inner))
		body = rec.AppendTo(body)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1,
		ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(at)), Records: body}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepLocked(seal(b.AppendTo(nil)))
}

// skip leaves offsets out, as where batches vanished.
func (l *memLog) skip(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += n
}

// clean removes the batch that holds an offset, as a cleaner does.
func (l *memLog) clean(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = slices.DeleteFunc(l.batches, func(b []byte) bool {
		h, err := batch.ParseHeader(b)
		return err == nil && h.BaseOffset <= at && at <= h.LastOffset()
	})
}

func (l *memLog) keepLocked(b []byte) {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	l.putLocked(b, h)
	l.end = max(l.end, l.end-int64(h.Count)+int64(h.LastOffsetDelta)+1)
}

// shapes writes everything at random that a source's log may hold.
func shapes(l *memLog, r *rand.Rand, n int, compacted bool) {
	for range n {
		kinds := 4
		if compacted {
			kinds = 7
		}
		switch r.IntN(kinds) {
		case 0, 1:
			fillLog(l, r, 1+r.IntN(20), 0)
		case 2, 3:
			l.txn(int64(7+r.IntN(3)), records(l.end, 1+r.IntN(9), "txn"), r.IntN(3) > 0)
		case 4:
			l.holed(10, 1, 2, 7)
		case 5:
			l.skip(int64(1 + r.IntN(6)))
			fillLog(l, r, 1, 0)
		case 6:
			l.holed(5) // emptied
		}
	}
}

// TestG2_GapsOfEveryKind: whatever gets lost, and however often the process
// starts anew, the target holds the same visible records at the same offsets,
// nothing else, and the same log end.
func TestG2_GapsOfEveryKind(t *testing.T) {
	for seed := range seeds(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 11))
				m := rig(t, seed)
				m.compacted = seed%2 == 0
				var mu sync.Mutex
				loss := rand.New(rand.NewPCG(seed, 12))
				m.target.lose = func() memLoss {
					mu.Lock()
					defer mu.Unlock()
					return [...]memLoss{deliver, deliver, deliver, deliver, deliver, loseReply, loseSend, refuse}[loss.IntN(8)]
				}
				shapes(m.src, r, 30, m.compacted)
				for range 4 {
					m.start(t)
					shapes(m.src, r, 15, m.compacted)
					time.Sleep(time.Duration(r.IntN(6_000)) * time.Millisecond)
					m.stop()
				}
				m.start(t)
				m.mustBeEqual(t)
				report, book := m.p.shown.report(time.Now()), m.p.book.end()
				m.stop()
				if book > m.dst.end || *report.TargetEnd != m.src.end {
					t.Errorf("ledger up to %d, target's end %d of %d", book, *report.TargetEnd, m.src.end)
				}
			})
		})
	}
}

// TestG8_TheLedgerTellsTheGaps: each offset without a visible record is counted
// with its reason.
func TestG8_TheLedgerTellsTheGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.compacted = true
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.src.txn(9, records(10, 5, "kept"), true)
		m.src.txn(9, records(16, 4, "gone"), false)
		m.src.holed(10, 0, 9)
		m.start(t)
		m.mustBeEqual(t)
		m.p.book.mu.Lock()
		got := m.p.book.index.Totals()
		m.p.book.mu.Unlock()
		want := map[ledger.Reason]int64{ledger.Marker: 2, ledger.Aborted: 4, ledger.Compacted: 8, ledger.Recoded: 2}
		for r, n := range want {
			if got[r] != n {
				t.Errorf("%s: %d offsets, want %d (%v)", r, got[r], n, got)
			}
		}
		m.stop()
	})
}

// TestG1_CleanersRunApart: a start after the two cleaners removed different
// records finds no difference, since of a compacted topic each side may lack what
// the other one still holds.
func TestG1_CleanersRunApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.compacted = true
		for n := range int64(6) {
			m.src.write(records(n, 1, "src"), 0, batch.CodecNone)
		}
		m.start(t)
		m.mustBeEqual(t)
		m.stop()
		m.src.clean(1)
		m.dst.clean(3)
		m.start(t)
		m.src.write(records(m.src.end, 1, "src"), 0, batch.CodecNone)
		if r := m.settle(t); r.State != state.Active {
			t.Errorf("%s %s: %s", r.State, r.Reason, r.Detail)
		}
		m.stop()
	})
}

// TestG1_StartAboveZero: the target is padded up to the source's start and
// trimmed, ACTIVE comes only when the trim cannot come undone, and records are
// there before.
func TestG1_StartAboveZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 50, 0)
		m.src.mu.Lock()
		m.src.start = 30
		m.src.mu.Unlock()
		began := time.Now()
		m.start(t)
		if r := m.settle(t); r.State != state.Active || *r.TargetStart != 30 {
			t.Errorf("%+v", r)
		}
		if took := time.Since(began); took < pad.DefaultSettings().Checkpoints {
			t.Errorf("ACTIVE after %s", took)
		}
		if _, padded := m.p.book.counts(); padded != 30 {
			t.Errorf("%d padded", padded)
		}
		m.stop()
		for _, r := range m.dst.records() {
			if r.Offset >= 30 && string(r.Value) == "" && r.Key == nil && r.Value == nil {
				t.Errorf("a pad at %d", r.Offset)
			}
		}
	})
}

// TestPaddingWaitsForRoom: where a disk may run full, nothing is padded until
// there is room.
func TestPaddingWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.policies.free = new(atomic.Int64)
		m.policies.free.Store(10)
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 50, 0)
		m.src.mu.Lock()
		m.src.start = 30
		m.src.mu.Unlock()
		m.start(t)
		defer func() { m.stop() }()
		time.Sleep(time.Minute)
		synctest.Wait()
		r := m.p.shown.report(time.Now())
		if r.State != state.TargetUnavailable || r.Reason != string(state.DiskShort) || r.TargetEnd == nil || *r.TargetEnd != 0 {
			t.Fatalf("%+v", r)
		}
		m.policies.free.Store(1 << 30)
		if r := m.settle(t); r.State != state.Active {
			t.Fatalf("%+v", r)
		}
	})
}
