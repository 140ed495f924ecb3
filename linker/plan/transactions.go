package plan

import (
	"cmp"
	"errors"
	"slices"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
)

// transactions tells aborted data from committed, batch by batch in log order,
// by the rules of the Java consumer (CompletedFetch): a producer's transactional
// data is aborted from the first offset of a listed transaction on and up to the
// producer's next ABORT marker. What is not listed is committed, since a
// read_committed fetch ends at the last stable offset. A COMMIT marker changes
// nothing. A marker of which the cleaner left only the header is one that ended
// the transaction before it, so it counts as ABORT where that is listed; Java
// goes on to hide what follows. Brokers drop a transaction from the list before
// they empty its marker, so the two never meet.
type transactions struct {
	pending []feed.Aborted // by first offset
	aborted map[int64]bool // producers inside an aborted transaction
}

func newTransactions(list []feed.Aborted) transactions {
	if len(list) == 0 {
		return transactions{}
	}
	byOffset := slices.SortedStableFunc(slices.Values(list), func(a, b feed.Aborted) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return transactions{pending: byOffset, aborted: map[int64]bool{}}
}

// see takes the next batch and tells whether it is aborted data.
func (t *transactions) see(h *batch.Header, b []byte) (aborted bool, err error) {
	for len(t.pending) > 0 && t.pending[0].FirstOffset <= h.LastOffset() {
		t.aborted[t.pending[0].ProducerID] = true
		t.pending = t.pending[1:]
	}
	if !t.aborted[h.ProducerID] {
		return false, nil
	}
	if !h.IsControl() {
		return h.IsTransactional(), nil
	}
	switch m, err := batch.ParseMarker(b); {
	case errors.Is(err, batch.ErrNotMarker): // control records of another kind end nothing
	case err != nil:
		return false, err
	case m.HeaderOnly || !m.Commit:
		delete(t.aborted, h.ProducerID)
	}
	return false, nil
}

// Visible tells of each batch of one fetch whether a read_committed consumer
// sees its records, given the list of aborted transactions that came with them.
// What cannot be parsed counts as visible, so that reading it tells the error.
func Visible(raw [][]byte, aborted []feed.Aborted) []bool {
	out := make([]bool, len(raw))
	t := newTransactions(aborted)
	for i, b := range raw {
		h, err := batch.ParseHeader(b)
		if err != nil {
			out[i] = true
			continue
		}
		hidden, err := t.see(&h, b)
		out[i] = err != nil || (!hidden && !h.IsControl())
	}
	return out
}
