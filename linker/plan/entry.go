package plan

import (
	"errors"
	"fmt"
	"slices"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// Entry is one batch of a source log as the planner sees it.
type Entry struct {
	// Header is valid where Old is false.
	Header batch.Header
	// Old marks a message set of format v0 or v1, with its offsets.
	Old              bool
	OldBase, OldLast int64
	// Aborted: its records belong to an aborted transaction.
	Aborted bool
	// SizeBytes is the entry's length on the wire.
	SizeBytes int
}

// next returns the offset after the entry.
func (e *Entry) next() int64 {
	if e.Old {
		return e.OldLast + 1
	}
	return e.Header.NextOffset()
}

func (e *Entry) base() int64 {
	if e.Old {
		return e.OldBase
	}
	return e.Header.BaseOffset
}

// epoch returns the leader epoch; old formats carry none.
func (e *Entry) epoch() int32 {
	if e.Old {
		return feed.NoEpoch
	}
	return e.Header.LeaderEpoch
}

// blank tells of an entry that holds no visible record at all, and why.
func (e *Entry) blank() (ledger.Reason, bool) {
	switch {
	case e.Old:
	case e.Header.IsControl():
		return ledger.Marker, true
	case e.Aborted:
		return ledger.Aborted, true
	case e.Header.Count == 0:
		return ledger.Compacted, true
	}
	return ledger.None, false
}

// ReadEntries parses the headers of the batches of one fetch and finds out
// which of them are aborted data. The list of aborted transactions must be the
// one that came with them: it holds every transaction that ends at or after the
// offset asked for, so it fits also a first batch that begins below that
// offset. The entries are appended to dst. The error names the first entry that does
// not hold together.
func ReadEntries(dst []Entry, raw [][]byte, aborted []feed.Aborted) ([]Entry, error) {
	out := slices.Grow(dst, len(raw))
	t := newTransactions(aborted)
	for i, b := range raw {
		out = append(out, Entry{SizeBytes: len(b)})
		e := &out[len(out)-1]
		err := e.Header.Parse(b)
		switch {
		case err == nil:
			if e.Aborted, err = t.see(&e.Header, b); err != nil {
				return nil, fmt.Errorf("read the transaction marker at offset %d: %w", e.Header.BaseOffset, err)
			}
		case errors.Is(err, batch.ErrOldFormat):
			e.Old = true
			if e.OldBase, e.OldLast, err = batch.OldFormatRange(b); err != nil {
				return nil, fmt.Errorf("read entry %d of old format: %w", i, err)
			}
		default:
			return nil, fmt.Errorf("read header of batch %d: %w", i, err)
		}
	}
	return out, nil
}

// ShowsCompaction looks for what only a cleaner leaves behind: batches without
// all of their records, and delete horizons (KIP-534). It proves that a topic
// was compacted once, also where it is not any more. NotCompacted proves
// nothing, since batches that are gone as a whole leave no trace.
func ShowsCompaction(entries []Entry) Compaction {
	for i := range entries {
		if e := &entries[i]; !e.Old && (e.Header.HasHoles() || e.Header.HasDeleteHorizon()) {
			return Compacted
		}
	}
	return NotCompacted
}
