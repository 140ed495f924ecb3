package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/kafka"
	"klink/cmd/telemetry"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/copies"
	"klink/linker/maps"
	"klink/linker/switchover"
	"klink/translate/exact"
)

// targetCopies tells where a link's copies lie by what is on its target alone. It
// implements switchover.Copies.
type targetCopies struct {
	link   string
	record *maps.Reader
	read   *copies.Reader
}

// newTargetCopies reads through the target's clients; close must be called.
func newTargetCopies(link string, dst *kafka.Target, m *leaders.Map, budget *fetcher.Budget) *targetCopies {
	r := maps.NewReader(dst.Admin)
	return &targetCopies{link: link, record: r, read: copies.New(r, wholeReader{reader{fetcher.NewLogReader(dst.Admin, m, budget)}})}
}

func (c *targetCopies) close() { c.record.Close() }

// onRecord returns the map of a partition of a topic on record, nil where that is not in
// checkpoint mode, and the producer id of its copies.
func (c *targetCopies) onRecord(ctx context.Context, srcCluster string, r control.TopicRecord, partition int32) (*exact.Map, int64, error) {
	producer := appender.ProducerID(srcCluster, r.SourceID, partition, r.Generation)
	m, _, err := c.read.Copies(ctx, copies.Partition{Target: feed.Partition{Topic: r.TargetTopic, Partition: partition}, Producer: producer,
		Place: maps.Place{Link: c.link, Topic: r.SourceTopic, Partition: partition, SourceID: r.SourceID, TargetID: r.TargetID}})
	return m, producer, err
}

// Copies implements switchover.Copies.
func (c *targetCopies) Copies(ctx context.Context, p switchover.CopiedPartition) (*exact.Map, error) {
	m, _, err := c.read.Copies(ctx, copies.Partition{Target: p.Target, Producer: p.Producer, Place: maps.Place{Link: c.link,
		Topic: p.Source.Topic, Partition: p.Source.Partition, SourceID: p.SourceID, TargetID: p.TargetID}})
	return m, err
}

const (
	// mapsAge is how long maps that were read from the record are used.
	mapsAge = time.Second
	// mapsTimeout bounds reading them.
	mapsTimeout = 5 * time.Second
)

// mapTranslator translates group offsets: by the link for partitions that this
// process copies, by the record for those of other workers, up to the cursor that is
// put there every few seconds. It implements groups.Translator.
type mapTranslator struct {
	link   string
	here   func(topic string, partition int32, srcOffset int64) exact.Answer
	record interface {
		Refresh(ctx context.Context) error
		Map(p maps.Place) (*exact.Map, maps.Cursor, error)
	}
	// topic is what is on record of a source topic.
	topic func(source string) (control.TopicRecord, bool)
	log   *slog.Logger
	now   func() time.Time

	mu   sync.Mutex // guards all below; held while the record is read
	seen time.Time
	// unread: the last reading failed, which is told once.
	unread bool
	// corrupt are partitions of which that was told.
	corrupt map[feed.Partition]bool
	maps    map[feed.Partition]*exact.Map
	// told is the target offset that was told last of a partition as its end: the
	// record, which is older, must not lead a group back behind it.
	told map[feed.Partition]int64
}

func newMapTranslator(link string, cl *kgo.Client, log *slog.Logger) (t *mapTranslator, end func()) {
	r := maps.NewReader(cl)
	return &mapTranslator{link: link, record: r, log: log, now: time.Now, told: map[feed.Partition]int64{}, corrupt: map[feed.Partition]bool{}}, r.Close
}

// Translate implements groups.Translator.
func (t *mapTranslator) Translate(topic string, partition int32, src int64) exact.Answer {
	a := t.here(topic, partition, src)
	p := feed.Partition{Topic: topic, Partition: partition}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Kind == exact.None {
		if m := t.recorded(p); m != nil {
			a = m.ToTarget(src)
		}
		if isEnd(a) && a.Offset < t.told[p] {
			return exact.Answer{}
		}
	}
	if isEnd(a) {
		t.told[p] = a.Offset
	}
	return a
}

// isEnd tells whether an answer is the end of what was copied.
func isEnd(a exact.Answer) bool { return a.Kind == exact.Ahead || a.Kind == exact.AtEnd }

// recorded is a partition's map up to its cursor, nil where none is on record.
func (t *mapTranslator) recorded(p feed.Partition) *exact.Map {
	if now := t.now(); now.Sub(t.seen) > mapsAge {
		ctx, cancel := context.WithTimeout(context.Background(), mapsTimeout)
		defer cancel()
		t.seen, t.maps = now, map[feed.Partition]*exact.Map{}
		err := t.record.Refresh(ctx)
		if err != nil && !t.unread {
			t.log.Warn("where other workers' copies lie cannot be read; their groups' offsets wait", telemetry.KeyError, err)
		}
		t.unread = err != nil
	}
	if m, ok := t.maps[p]; ok {
		return m
	}
	t.maps[p] = t.decode(p)
	return t.maps[p]
}

func (t *mapTranslator) decode(p feed.Partition) *exact.Map {
	rec, ok := t.topic(p.Topic)
	if !ok {
		return nil
	}
	m, c, err := t.record.Map(maps.Place{Link: t.link, Topic: p.Topic, Partition: p.Partition, SourceID: rec.SourceID, TargetID: rec.TargetID})
	switch {
	case err != nil:
		if t.corrupt[p] {
			return nil
		}
		t.corrupt[p] = true
		t.log.Warn("where copies lie cannot be read; their groups' offsets wait", telemetry.KeyTopic, p.Topic, telemetry.KeyPartition, p.Partition, telemetry.KeyError, err)
		return nil
	case c.At.IsZero():
		return nil
	}
	m.CutDst(c.Dst)
	m.Advance(c.Src)
	return m
}
