package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// DropTopic takes all that is on record of one source topic off: ids, lineage,
// counters, pad goals, ledger, state, acknowledgements, cuts and adoption. What
// operators wanted of it stays, since commands may name others as well; so does
// what the groups have, which are the link's. It needs Run to be running, and
// whatever mirrors the topic to have stopped. After an error some of it is left,
// and calling it again is right.
func (s *Store) DropTopic(ctx context.Context, link, sourceTopic string) error {
	if link == "" || sourceTopic == "" {
		return errors.New("drop a topic: no link or no topic is named")
	}
	return s.drop(ctx, func(k Key) bool { return k.Link == link && k.Topic == sourceTopic })
}

// DropLink takes a whole link off the record, with its topics, commands and
// groups; see DropTopic. Its numbers begin at 1 again, and nothing is stopped or
// paused any more: nobody may run the link.
func (s *Store) DropLink(ctx context.Context, link string) error {
	if link == "" {
		return errors.New("drop a link: none is named")
	}
	return s.drop(ctx, func(k Key) bool { return k.Link == link })
}

func (s *Store) drop(ctx context.Context, which func(Key) bool) error {
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	found := s.view.keys(which)
	s.mu.Unlock()
	sent := make([]*pending, 0, len(found))
	for _, f := range found {
		p, err := s.sendBytes(ctx, f.stored, nil)
		if err != nil {
			return err
		}
		sent = append(sent, p)
	}
	return s.finishAll(ctx, sent)
}

// storedKey is a key and the bytes that it has in the log.
type storedKey struct {
	Key
	stored []byte
}

// keys lists the keys that have a value and that which wants, those of unknown
// kinds too. A crash while they are deleted in this order never leaves a topic's
// record without what it needs, nor a link without its commands.
func (v *View) keys(which func(Key) bool) []storedKey {
	var out []storedKey
	for stored, a := range v.applied {
		if !a.live {
			continue
		}
		if k, err := decodeKey([]byte(stored)); err == nil && which(k) {
			out = append(out, storedKey{k, []byte(stored)})
		}
	}
	slices.SortFunc(out, func(a, b storedKey) int {
		return cmp.Or(cmp.Compare(dropRank(a.Kind), dropRank(b.Kind)), slices.Compare(a.stored, b.stored))
	})
	return out
}

// dropRank orders kinds from what rests on others to what others rest on.
func dropRank(k Kind) int {
	return slices.Index([]Kind{KindTopic, KindCommand, KindLink}, k)
}
