package linker

import (
	"context"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
)

// sightEvery is how often it goes to the control topic that the source was seen: what a
// forecast without this process calls unseen is longer by this, by half a round of
// record, and by the five to ten seconds for which an idle partition may be silent, at
// most.
const sightEvery = 4 * time.Second

// recordSights tells, where it is time, when this process last saw the ends that are
// on record under its name, and takes off the record what nobody needs any more. As
// the link ends it tells it for the last time.
func (l *Link) recordSights(ctx context.Context) error {
	now, round := time.Now(), l.paced(recordEvery)
	l.mu.Lock()
	store, due := l.store, l.ended || now.Sub(l.sightedAt) > sightEvery-round/2
	l.mu.Unlock()
	if !due {
		return nil
	}
	// What is older than blindAfter changed what is shown, and a state with its time is
	// on record by two rounds later.
	since := now.Add(-blindAfter - 2*round)
	recorded := store.Recorded(l.o.Name)
	w := control.Witness{Link: l.o.Name, Worker: l.o.Worker, Recorded: recorded, Since: since,
		SourceID: func(topic string) feed.TopicID { r, _ := store.Topic(l.o.Name, topic); return r.SourceID },
		Seen:     l.sighting}
	if err := store.PutSights(ctx, w.Sights()); err != nil {
		return err
	}
	l.mu.Lock()
	l.sightedAt = now
	l.mu.Unlock()
	return store.DropSights(ctx, control.Unneeded(store.Sights(l.o.Name), recorded, l.o.Worker))
}

// sighting is what this process itself saw of the source of a partition that is its
// own.
func (l *Link) sighting(of feed.Partition) (control.Sighting, bool) {
	l.mu.Lock()
	t := l.topics[of.Topic]
	l.mu.Unlock()
	if t == nil {
		return control.Sighting{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(of.Partition) >= len(t.partitions) || !t.partitions[of.Partition].here {
		return control.Sighting{}, false
	}
	p := t.partitions[of.Partition]
	s := p.shown.sighting()
	s.SourceID = p.srcID
	return s, true
}
