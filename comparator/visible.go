package comparator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"klink/fetcher/batch"
)

// Aborted is one entry of the list of aborted transactions in a Fetch answer
// (v4, KIP-98).
type Aborted struct{ ProducerID, FirstOffset int64 }

// Part is one batch of a Fetch answer and whether consumers see its records.
type Part struct {
	Bytes []byte
	// Base and Next bound the offsets it stands for; Next is exclusive.
	Base, Next int64
	// Hidden is true for control batches and for data of aborted transactions.
	Hidden bool
	// Records is how many records the batch holds, 0 where its format does not
	// tell.
	Records int32
}

// Visible tells which batches of one Fetch answer a read_committed consumer
// sees. The list must be that of the same answer: it holds all transactions
// that were aborted and reach into it, also those begun before it.
func Visible(batches [][]byte, list []Aborted) ([]Part, error) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	under := make(map[int64]bool)
	parts := make([]Part, 0, len(batches))
	for _, b := range batches {
		h, err := batch.ParseHeader(b)
		if errors.Is(err, batch.ErrOldFormat) {
			p, err := oldPart(b)
			if err != nil {
				return parts, err
			}
			parts = append(parts, p)
			continue
		}
		if err != nil {
			return parts, fmt.Errorf("read a batch's header: %w", err)
		}
		for len(list) > 0 && list[0].FirstOffset <= h.LastOffset() {
			under[list[0].ProducerID] = true
			list = list[1:]
		}
		p := Part{Bytes: b, Base: h.BaseOffset, Next: h.NextOffset(), Hidden: h.IsControl(), Records: h.Count}
		switch {
		case h.IsControl():
			endTransaction(under, b)
		case h.IsTransactional() && under[h.ProducerID]:
			p.Hidden = true
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// endTransaction notes that the data of a producer after an ABORT marker is not
// that of the transaction which it ends. A marker that lost its record to the
// cleaner ends one as well: what came of it is in the list.
func endTransaction(under map[int64]bool, b []byte) {
	m, err := batch.ParseMarker(b)
	if err == nil && (m.HeaderOnly || !m.Commit) {
		delete(under, m.ProducerID)
	}
}

func oldPart(b []byte) (Part, error) {
	base, last, err := batch.OldFormatRange(b)
	if err != nil {
		return Part{}, fmt.Errorf("read a message set: %w", err)
	}
	return Part{Bytes: b, Base: base, Next: last + 1}, nil
}
