package control

import "context"

// batch is records to be written together: in this order, but not all or none.
type batch []entryToPut

type entryToPut struct {
	key   Key
	value any // nil deletes
}

func (b *batch) add(k Key, v any) { *b = append(*b, entryToPut{k, v}) }

// putAll writes records without waiting for one before it sends the next. After
// an error any of them may be on record (C2).
func (s *Store) putAll(ctx context.Context, b batch) error {
	sent := make([]*pending, 0, len(b))
	for _, e := range b {
		p, err := s.send(ctx, e.key, e.value)
		if err != nil {
			return err
		}
		sent = append(sent, p)
	}
	return s.finishAll(ctx, sent)
}

func (s *Store) finishAll(ctx context.Context, sent []*pending) error {
	for _, p := range sent {
		if err := s.finish(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// discard takes records off that tell nothing any more. Nobody waits for it:
// what stays costs some bytes.
func (s *Store) discard(ctx context.Context, keys ...Key) error {
	for _, k := range keys {
		if _, err := s.send(context.WithoutCancel(ctx), k, nil); err != nil {
			return err
		}
	}
	return nil
}
