package linker

import (
	"context"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
)

const (
	// sightEvery is how often it goes to the control topic that the source was seen:
	// what a forecast without this process calls unseen is longer by this and by the
	// five seconds for which an idle partition may be silent, at most.
	sightEvery = 4 * time.Second
	// sightCounts is how long a sighting can be told of. One that is older than
	// blindAfter changed what is shown, so that a state with its time is on record by
	// then.
	sightCounts = blindAfter + 2*recordEvery
)

// recordSights tells, where it is time, when this process last saw the ends that are
// on record under its name, and takes off the record what nobody needs any more. As
// the link ends it tells it for the last time.
func (l *Link) recordSights(ctx context.Context) error {
	now := time.Now()
	l.mu.Lock()
	store, due := l.store, l.ended || now.Sub(l.sightedAt) >= sightEvery
	l.mu.Unlock()
	if !due {
		return nil
	}
	recorded := store.States(l.o.Name)
	seen := l.sightings()
	w := control.Witness{Link: l.o.Name, Worker: l.o.Worker, Recorded: recorded, Since: now.Add(-sightCounts),
		SourceID: func(topic string) feed.TopicID { r, _ := store.Topic(l.o.Name, topic); return r.SourceID },
		Seen:     func(p feed.Partition) (control.Sighting, bool) { s, ok := seen[p]; return s, ok }}
	if err := store.PutSights(ctx, w.Sights()); err != nil {
		return err
	}
	l.mu.Lock()
	l.sightedAt = now
	l.mu.Unlock()
	return store.DropSights(ctx, control.Unneeded(store.Sights(l.o.Name), recorded, l.o.Worker))
}

// sightings are what this process itself saw of the sources of its partitions.
func (l *Link) sightings() map[feed.Partition]control.Sighting {
	out := make(map[feed.Partition]control.Sighting)
	for _, p := range l.partitions() {
		s := p.shown.sighting()
		s.SourceID = p.srcID
		out[p.src] = s
	}
	return out
}
