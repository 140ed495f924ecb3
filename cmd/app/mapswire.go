package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/linker"
	"klink/linker/drift"
	"klink/linker/maps"
	"klink/linker/ownlog"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// linkModes are the modes of a link.
var linkModes = map[config.Mode]linker.Mode{config.ModeMirror: linker.Mirror, config.ModeCheckpoint: linker.Checkpoint}

// policy names topics as MirrorMaker 2 does by the link's replication policy.
func policy(l config.Link) mm2.Policy {
	source, target := l.Aliases()
	return mm2.Policy{Source: source, Target: target, Separator: l.Checkpoint.Separator,
		Identity: l.Checkpoint.ReplicationPolicy == config.PolicyIdentity}
}

// mapKeeper is the linker's port to the maps on the target, which are opened where
// they are first asked for.
type mapKeeper struct {
	client *kgo.Client
	log    *slog.Logger

	mu    sync.Mutex // guards store; held while it is opened
	store *maps.Store
}

// opened returns the store. Those who ask while it is being opened wait for it.
func (k *mapKeeper) opened(ctx context.Context) (*maps.Store, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store != nil {
		return k.store, nil
	}
	s, err := maps.Open(ctx, maps.Options{Client: k.client, Logger: k.log})
	if err == nil {
		k.store = s
	}
	return s, err
}

func (k *mapKeeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store != nil {
		k.store.Close()
	}
}

// place is what the store knows a partition's map by.
func place(k linker.MapKey) maps.Place {
	return maps.Place{Link: k.Link, Topic: k.Topic, Partition: k.Partition, SourceID: k.SourceID, TargetID: k.TargetID}
}

// with has f use the store. Where the topic was deleted the next one to ask opens it
// anew, and finds nothing on record of what was copied.
func (k *mapKeeper) with(ctx context.Context, f func(*maps.Store) error) error {
	s, err := k.opened(ctx)
	if err != nil {
		return err
	}
	if err = f(s); errors.Is(err, ownlog.ErrLost) || remote.ReasonOf(err) == state.TopicMissing {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.store == s {
			s.Close()
			k.store = nil
		}
	}
	return err
}

// Map implements linker.Maps.
func (k *mapKeeper) Map(ctx context.Context, key linker.MapKey) (m *exact.Map, at drift.Position, ok bool, err error) {
	var c maps.Cursor
	err = k.with(ctx, func(s *maps.Store) (err error) {
		m, c, err = s.Load(ctx, place(key))
		return err
	})
	return m, drift.Position{Src: c.Src, Dst: c.Dst, Seq: c.Seq}, !c.At.IsZero(), err
}

// PutMap implements linker.Maps.
func (k *mapKeeper) PutMap(ctx context.Context, key linker.MapKey, m *exact.Map) error {
	return k.with(ctx, func(s *maps.Store) error { return s.Put(ctx, place(key), m) })
}

// PutCursor implements linker.Maps.
func (k *mapKeeper) PutCursor(ctx context.Context, key linker.MapKey, at drift.Position) error {
	return k.with(ctx, func(s *maps.Store) error {
		return s.PutCursor(ctx, place(key), maps.Cursor{Src: at.Src, Dst: at.Dst, Seq: at.Seq, At: time.Now()})
	})
}
