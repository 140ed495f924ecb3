package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"klink/linker/control"
	"klink/linker/maps"
	"klink/translate/takeover"
)

// Seed implements Taker. That a topic is taken over goes on record before where its
// partitions stand: a klink that finds the one without the other copies nothing, and
// another call completes it.
func (t *taker) Seed(ctx context.Context, r *TakeoverResult) error {
	log := slog.New(slog.DiscardHandler)
	opening, cancel := context.WithTimeout(ctx, 3*lookTimeout)
	defer cancel()
	store, err := control.Open(opening, control.Options{Client: t.dstCluster.Control, Logger: log})
	if err != nil {
		return fmt.Errorf("adopt: open %s: %w", control.TopicName, err)
	}
	follow := start(context.WithoutCancel(ctx), store.Run)
	defer func() {
		follow.stop()
		<-follow.done
		store.Close()
	}()
	copies, err := maps.Open(opening, maps.Options{Client: t.dstCluster.Maps, Logger: log})
	if err != nil {
		return fmt.Errorf("adopt: open %s: %w", maps.TopicName, err)
	}
	defer copies.Close()
	for i := range r.Topics {
		if x := &r.Topics[i]; x.OK && !x.Adopted {
			if err := t.seedTopic(ctx, store, copies, *x); err != nil {
				x.fail(reasonFailed, err.Error(), "give the command again: it goes on where this one ended")
				continue
			}
			x.Adopted = true
		}
	}
	return nil
}

func (t *taker) seedTopic(ctx context.Context, store *control.Store, copies *maps.Store, x TakeoverTopic) error {
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	a := control.AdoptRecord{Link: t.link.Name, Topic: x.SourceTopic, SourceID: x.place.srcID, Ends: map[int32]int64{}, By: operator(), At: time.Now().UTC()}
	for _, p := range x.Partitions {
		if a.Ends[p.Partition] = p.TargetEnd; p.State == stateAdopted {
			a.Ends[p.Partition] = x.place.ends[p.Partition]
		}
	}
	if err := store.PutAdopt(ctx, a); err != nil {
		return err
	}
	for _, p := range x.Partitions {
		if p.State == stateAdopted || p.State == string(takeover.Untouched) {
			continue
		}
		if err := t.seedPartition(ctx, copies, t.mapPlace(x, p.Partition), p); err != nil {
			return fmt.Errorf("partition %d: %w", p.Partition, err)
		}
	}
	return nil
}

// seedPartition puts the map on record, and then the cursor, with which the partition
// counts as taken over.
func (t *taker) seedPartition(ctx context.Context, copies *maps.Store, place maps.Place, p TakeoverPartition) error {
	if _, c, err := copies.Load(ctx, place); err != nil {
		return err
	} else if !c.At.IsZero() {
		return fmt.Errorf("a klink began to copy it meanwhile")
	}
	s := p.standing
	if err := copies.Put(ctx, place, s.Map); err != nil {
		return err
	}
	return copies.PutCursor(ctx, place, maps.Cursor{Src: s.Next, Dst: p.TargetEnd, Seq: s.Sequence(), At: time.Now(), Floor: s.Floor, Adopted: p.TargetEnd})
}
