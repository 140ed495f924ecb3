package plan

import (
	"slices"

	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// The oracle knows a source log as whoever wrote it: which transaction each
// batch belongs to, how it ended, and what a cleaner removed. It plans record
// by record: one cell per offset. What a fetch shows of the log is worked out
// from the same knowledge, by the broker's rules, not the planner's.

// cell is what stands at one offset.
type cell struct {
	visible bool
	// reason of a gap.
	reason ledger.Reason
	// repeats is the offset whose record stands here once more; -1 for none.
	repeats int64
}

// txn is one transaction of a log.
type txn struct {
	aborted bool
	// first is its first data offset, marker that of its marker.
	first, marker int64
	// listed: the broker still has it in its index of aborted transactions.
	listed bool
}

// stored is a batch of the log.
type stored struct {
	shape
	txn *txn // nil outside transactions
	// records are the offsets that the cleaner left.
	records []int64
}

// srcLog is a log up to its last stable offset.
type srcLog struct {
	batches []stored
	txns    []*txn
	end     int64
}

// cells is the oracle's plan.
func (l *srcLog) cells() []cell {
	out := make([]cell, l.end)
	for i := range out {
		out[i] = cell{reason: ledger.Compacted, repeats: -1}
	}
	for _, b := range l.batches {
		for o := b.base; o <= b.last; o++ {
			switch {
			case b.marker != "":
				out[o].reason = ledger.Marker
			case b.txn != nil && b.txn.aborted && b.txn.listed:
				out[o].reason = ledger.Aborted
			case slices.Contains(b.records, o):
				out[o] = cell{visible: true, repeats: -1}
			}
		}
	}
	return out
}

// fetch answers like a broker: up to n batches from the one that holds from on,
// and the aborted transactions that reach into what was asked for.
func (l *srcLog) fetch(t rapid.TB, from int64, n int) (got []stored, a answer) {
	t.Helper()
	for _, b := range l.batches {
		if b.last >= from && len(got) < n {
			got = append(got, b)
			a.raw = append(a.raw, b.bytes(t))
		}
	}
	if len(got) == 0 {
		return nil, answer{}
	}
	end := got[len(got)-1].last + 1
	for _, x := range l.txns {
		if x.aborted && x.listed && x.marker >= from && x.first < end {
			a.aborted = append(a.aborted, feed.Aborted{ProducerID: x.producer(l), FirstOffset: x.first})
		}
	}
	return got, a
}

func (x *txn) producer(l *srcLog) int64 {
	i := slices.IndexFunc(l.batches, func(b stored) bool { return b.txn == x })
	return l.batches[i].pid
}

// writing makes a log at random.
type writing struct {
	t     *rapid.T
	log   srcLog
	epoch int32
	open  map[int64]*txn
}

// drawLog draws a log whose transactions have all ended, as below a last stable
// offset, and lets a cleaner run over it if asked to.
func drawLog(t *rapid.T, compacted Compaction) *srcLog {
	w := writing{t: t, open: map[int64]*txn{}}
	for range rapid.IntRange(0, 3).Draw(t, "old sets") {
		w.put(shape{old: true, pid: -1}, rapid.Int64Range(1, 5).Draw(t, "records"), nil)
	}
	w.put(shape{pid: -1, size: 100}, 1, nil) // no log is empty
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		w.step()
	}
	for _, pid := range []int64{7, 8, 9} {
		if w.open[pid] != nil {
			w.endTxn(pid)
		}
	}
	if compacted == Compacted {
		w.log.clean(t)
	}
	return &w.log
}

func (w *writing) step() {
	pid := rapid.Int64Range(7, 9).Draw(w.t, "producer")
	n := rapid.Int64Range(1, 6).Draw(w.t, "records")
	switch rapid.IntRange(0, 9).Draw(w.t, "what") {
	case 0:
		w.epoch += rapid.Int32Range(1, 2).Draw(w.t, "epochs")
	case 1, 2:
		w.put(shape{pid: -1, size: rapid.SampledFrom([]int{100, 5_000, 100_000}).Draw(w.t, "size")}, n, nil)
	case 3:
		if w.open[pid] == nil {
			w.put(shape{pid: pid, size: 100}, n, nil)
		}
	case 4:
		w.put(shape{pid: -1, size: 100, attributes: rapid.SampledFrom([]int16{appendTimeBit, horizonBit}).Draw(w.t, "attributes")}, n, nil)
	case 5, 6, 7:
		x := w.open[pid]
		if x == nil {
			x = &txn{first: w.log.end}
			w.open[pid] = x
			w.log.txns = append(w.log.txns, x)
		}
		w.put(shape{pid: pid, attributes: txnBit, size: 100}, n, x)
	default:
		w.endTxn(pid)
	}
}

// endTxn writes a marker: also for a producer that has written nothing, as
// coordinators do.
func (w *writing) endTxn(pid int64) {
	abort := rapid.Bool().Draw(w.t, "abort")
	s := shape{pid: pid, marker: "commit"}
	if abort {
		s.marker = "abort"
	}
	x := w.open[pid]
	if x != nil {
		x.aborted, x.listed, x.marker = abort, abort, w.log.end
		delete(w.open, pid)
	}
	w.put(s, 1, x)
}

func (w *writing) put(s shape, n int64, x *txn) {
	s.base, s.last, s.count, s.epoch = w.log.end, w.log.end+n-1, int32(n), w.epoch
	b := stored{shape: s, txn: x}
	for o := s.base; s.marker == "" && o <= s.last; o++ {
		b.records = append(b.records, o)
	}
	w.log.batches = append(w.log.batches, b)
	w.log.end += n
}

// clean removes records as the log cleaner does: some of a batch, all of it, or
// all but its header; aborted data as a whole; a marker only once the data of
// its transaction is gone, and with it or before it the entry in the index.
func (l *srcLog) clean(t *rapid.T) {
	var kept []stored
	held := map[*txn]bool{} // transactions that still have data
	for _, b := range l.batches {
		if b.marker == "" {
			b.clean(t)
			held[b.txn] = held[b.txn] || len(b.records) > 0
		}
		kept = append(kept, b)
	}
	l.batches = nil
	for _, b := range kept {
		mayGo := b.txn == nil || !held[b.txn]
		empty := b.marker == "" && len(b.records) == 0
		switch {
		case b.marker != "" && mayGo:
			b.marker = rapid.SampledFrom([]string{b.marker, "emptied", "gone"}).Draw(t, "marker")
			if b.txn != nil && b.txn.aborted {
				b.txn.listed = b.marker == "abort" && rapid.Bool().Draw(t, "listed")
			}
		case empty && (b.old || rapid.Bool().Draw(t, "gone")):
			b.marker = "gone"
		}
		if b.marker != "gone" {
			l.batches = append(l.batches, b)
		}
	}
}

func (b *stored) clean(t *rapid.T) {
	aborted := b.txn != nil && b.txn.aborted
	switch how := rapid.IntRange(0, 3).Draw(t, "clean"); {
	case how == 0:
		b.records = nil
	case how == 1 && !aborted:
		b.records = slices.DeleteFunc(b.records, func(int64) bool { return rapid.Bool().Draw(t, "superseded") })
	}
	b.count = int32(len(b.records))
	if b.old && len(b.records) > 0 {
		b.base, b.last = b.records[0], b.records[len(b.records)-1] // a wrapper has no header to keep them
	}
}
