package shapes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// segmentAge is how far apart, by the records' own times, two batches must be
// for a new segment to begin: the log is cut without waiting.
const segmentAge = 1000 * time.Millisecond

// Compacted writes a compacted topic and waits for its cleaner (which needs
// BrokerProps) until each partition has holes inside batches of every codec,
// batches gone with and without their markers, batches without records, and
// tombstones with a delete horizon. The end of the log is a marker.
func Compacted(ctx context.Context, c lab.Cluster, p Place) error {
	configs := map[string]string{
		"cleanup.policy":            "compact",
		"min.cleanable.dirty.ratio": "0.01",
		"segment.ms":                fmt.Sprint(segmentAge.Milliseconds() / 2),
		"delete.retention.ms":       "0",
	}
	if err := p.create(ctx, c, configs); err != nil {
		return err
	}
	// Ahead of the broker's clock, which markers carry: a segment that begins with
	// one would take in everything older.
	w := &cleaned{cluster: c, place: p, rng: p.rng(), now: baseTime.Add(72 * time.Hour)}
	for _, partition := range p.partitions() {
		if err := w.superseded(ctx, partition); err != nil {
			return err
		}
	}
	if err := p.awaitFed(ctx, c, "been cleaned", func(c Census) bool {
		return c.Holed >= len(lab.Codecs) && c.HeaderOnly > 0 && c.Gone > 0 && c.Commits > 0 && c.Aborts == 0 && c.Records > 0
	}, w.feed); err != nil {
		return err
	}
	// From here on tombstones stay: the first pass writes down until when.
	if err := alter(ctx, c, p.Topic, "delete.retention.ms", "3600000"); err != nil {
		return err
	}
	for _, partition := range p.partitions() {
		if err := w.tombstones(ctx, partition); err != nil {
			return err
		}
	}
	return p.await(ctx, c, "tombstones with a horizon", func(c Census) bool {
		return c.Horizons > 0 && c.Holed >= len(lab.Codecs) && c.HeaderOnly > 0 && c.Gone > 0 && c.LastVisible < c.Bounds.End-1
	})
}

// feed gives the cleaner a reason for another pass. It looks at nothing but how
// much is new, and markers take two passes to go.
func (w *cleaned) feed(ctx context.Context, p lab.Partition) error {
	return w.round(ctx, p, noneBits, keyRange("newest", 0, 1), valued)
}

// Supersede writes every key of a topic that Compacted has written once more, so
// that every cleaner that has the topic has work.
func Supersede(ctx context.Context, c lab.Cluster, p Place) error {
	w := &cleaned{cluster: c, place: p, rng: p.rng(), now: baseTime.Add(96 * time.Hour)}
	var keys []string
	for _, prefix := range append([]string{"gone", "kept", "last"}, lab.Codecs...) {
		keys = append(keys, keyRange(prefix, 0, 11)...)
	}
	for _, partition := range p.partitions() {
		if err := w.round(ctx, partition, noneBits, append(keys, "stay-1", "stay-2", "goes"), valued); err != nil {
			return err
		}
		for range 2 {
			if err := w.feed(ctx, partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleaned writes batches with chosen keys; each round lies in segments of its own.
type cleaned struct {
	cluster lab.Cluster
	place   Place
	rng     *rand.Rand
	now     time.Time // of the round's records
}

// round writes a batch of keys without a producer id, in a new segment.
func (w *cleaned) round(ctx context.Context, p lab.Partition, codec byte, keys []string, value []byte) error {
	raw, err := newRaw(ctx, w.cluster, p.Topic)
	if err != nil {
		return err
	}
	defer raw.close()
	_, err = raw.write(ctx, p.Number, codec, w.batch(p, keys, value)...)
	return err
}

func (w *cleaned) batch(p lab.Partition, keys []string, value []byte) []*kgo.Record {
	w.now = w.now.Add(segmentAge)
	var records []*kgo.Record
	for _, key := range keys {
		r := record(w.rng, p, key)
		r.Timestamp = w.now
		if value == nil {
			r.Value = nil
		}
		records = append(records, r)
	}
	return records
}

// transaction writes keys in transactions of a client, a batch each.
func (w *cleaned) transaction(ctx context.Context, client *kgo.Client, outcome commit, batch []*kgo.Record) error {
	t := &transactor{client: client}
	if err := t.write(ctx, batch...); err != nil {
		return err
	}
	return t.end(ctx, outcome)
}

// keyRange names keys from a first to a last number.
func keyRange(prefix string, first, last int) []string {
	var keys []string
	for i := first; i <= last; i++ {
		keys = append(keys, fmt.Sprintf("%s-%d", prefix, i))
	}
	return keys
}

var valued = []byte{} // batch: records with values

func (w *cleaned) superseded(ctx context.Context, p lab.Partition) error {
	// Half of each batch is written again: holes at its end, at its start and in
	// its middle (C034), in each codec.
	var again []string
	for i, name := range lab.Codecs {
		if err := w.round(ctx, p, byte(i), keyRange(name, 0, 11), valued); err != nil {
			return err
		}
		first := 3 * (i % 3)
		again = append(again, keyRange(name, first, first+5)...)
	}
	// A single record that goes between two that stay (C048).
	for _, keys := range [][]string{{"stay-1"}, {"goes"}, {"stay-2"}} {
		if err := w.round(ctx, p, noneBits, keys, valued); err != nil {
			return err
		}
	}
	if err := w.fleeting(ctx, p); err != nil {
		return err
	}
	again = append(again, keyRange("gone", 0, 9)...)
	again = append(again, "goes")
	if err := w.round(ctx, p, noneBits, again, valued); err != nil {
		return err
	}
	return w.feed(ctx, p) // the newest segment counts for nothing: that begins another one
}

// fleeting writes what vanishes as a whole: two batches of one producer, the
// last of which leaves its header, and transactions, aborted ones with their
// markers and one committed that stays.
func (w *cleaned) fleeting(ctx context.Context, p lab.Partition) error {
	client, err := writer(w.cluster)
	if err != nil {
		return err
	}
	defer client.Close()
	for range 2 {
		if err := send(ctx, client, w.batch(p, keyRange("gone", 0, 9), valued)...); err != nil {
			return err
		}
	}
	within, err := transactional(w.cluster, p.String())
	if err != nil {
		return err
	}
	defer within.Close()
	for _, t := range []struct {
		keys    []string
		outcome commit
	}{
		{keyRange("gone", 0, 4), kgo.TryCommit},
		{keyRange("gone", 5, 9), kgo.TryAbort},
		{keyRange("never", 0, 4), kgo.TryAbort},
		{keyRange("kept", 0, 4), kgo.TryCommit},
	} {
		if err := w.transaction(ctx, within, t.outcome, w.batch(p, t.keys, valued)); err != nil {
			return err
		}
	}
	return nil
}

// tombstones deletes some keys, and ends the log with an empty-handed abort and
// a commit in the segment that no cleaner touches.
func (w *cleaned) tombstones(ctx context.Context, p lab.Partition) error {
	if err := w.round(ctx, p, noneBits, append(keyRange("none", 0, 1), "stay-1", "unknown"), nil); err != nil {
		return err
	}
	within, err := transactional(w.cluster, p.String())
	if err != nil {
		return err
	}
	defer within.Close()
	if err := w.transaction(ctx, within, kgo.TryCommit, w.batch(p, keyRange("last", 0, 4), valued)); err != nil {
		return err
	}
	return w.transaction(ctx, within, kgo.TryAbort, w.batch(p, keyRange("never", 0, 4), valued))
}

// alter sets one config of a topic.
func alter(ctx context.Context, c lab.Cluster, topic, key, value string) error {
	client, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		return err
	}
	defer client.Close()
	resp, err := kadm.NewClient(client).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: key, Value: &value}}, topic)
	if err == nil {
		for _, r := range resp {
			err = r.Err
		}
	}
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", key, topic, err)
	}
	return nil
}
