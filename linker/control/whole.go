package control

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
)

// wholeLog sees that of states, which are most of a log that is read from its start,
// only the last of each key is decoded: what they replaced says nothing any more, and
// the cleaner might have removed it.
type wholeLog struct {
	take   func([]*kgo.Record) error
	states map[string]*kgo.Record // the last of each key, in memory of its own
}

// readWhole reads a log to its end and hands its records to take, those that count.
func readWhole(ctx context.Context, log *ownlog.Log, take func([]*kgo.Record) error) error {
	w := &wholeLog{take: take, states: make(map[string]*kgo.Record)}
	if err := log.ReadToEnd(ctx, w.add); err != nil {
		return err
	}
	return take(w.last())
}

// statePrefix begins the key of every state as klink writes it (Key.encode).
var statePrefix = []byte(`{"kind":"` + string(KindState) + `"`)

func (w *wholeLog) add(records []*kgo.Record) error {
	others := make([]*kgo.Record, 0, len(records))
	for _, r := range records {
		if !bytes.HasPrefix(r.Key, statePrefix) {
			others = append(others, r)
			continue
		}
		s := w.states[string(r.Key)]
		if s == nil {
			s = &kgo.Record{Key: bytes.Clone(r.Key)}
			w.states[string(r.Key)] = s
		}
		s.Offset, s.Timestamp = r.Offset, r.Timestamp
		if r.Value == nil {
			s.Value = nil // a tombstone, unlike an empty value
			continue
		}
		s.Value = append(slices.Grow(s.Value[:0], len(r.Value)+1), r.Value...)
	}
	return w.take(others)
}

// last returns the states in log order.
func (w *wholeLog) last() []*kgo.Record {
	return slices.SortedFunc(maps.Values(w.states), func(a, b *kgo.Record) int { return cmp.Compare(a.Offset, b.Offset) })
}
