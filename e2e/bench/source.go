package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/fetcher/batch"
)

// Places in a batch (KIP-98).
const (
	crcAt            = 17
	attributesAt     = 21
	appendTimeBit    = 0x08
	transactionalBit = 0x10
)

// setAttribute sets a bit of a batch's attributes, and its checksum anew.
func setAttribute(b []byte, bit byte) {
	b[attributesAt+1] |= bit
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
}

// farRecords follow the far start.
const farRecords = 1000

// writeFar makes a topic that begins at the workload's offset. A copy is measured
// up to there.
func writeFar(ctx context.Context, c lab.Cluster, w workload, long bool) (loaded, error) {
	start := w.records.of(long)
	if err := shapes.FarStart(ctx, c, shapes.Place{Topic: w.topic(), Partitions: w.partitions, Seed: 1}, start, farRecords); err != nil {
		return loaded{}, fmt.Errorf("load %s: %w", w.name, err)
	}
	each := int64(w.partitions)
	return loaded{records: each * farRecords, offsets: each * (start + farRecords), measured: each * start}, nil
}

const (
	// holeBatch is how many superseded records a batch has: the cleaner takes such
	// batches away as a whole.
	holeBatch = 10_000
	// holePoll is how often the log is read to see whether it was cleaned.
	holePoll = 500 * time.Millisecond
)

// writeHole writes one record, many that supersede each other, the last of those
// in a batch of its own, and one in another segment; it returns when the cleaner
// has left nothing between the first and the last but one.
func writeHole(ctx context.Context, c lab.Cluster, w workload, long bool) (loaded, error) {
	client, err := rawClient(c)
	if err != nil {
		return loaded{}, err
	}
	defer client.Close()
	id, err := topicID(ctx, c, w.topic())
	if err != nil {
		return loaded{}, err
	}
	held := loaded{records: 3}
	for _, r := range holeRecords(w.records.of(long), time.Now()) {
		b, err := r.batch()
		if err == nil {
			err = produce(ctx, client, newProduceRequest(onePartition(w.topic(), id, 0, b)))
		}
		if err != nil {
			return loaded{}, fmt.Errorf("load %s: %w", w.name, err)
		}
		held.offsets += r.count
	}
	held.measured = held.offsets
	if err := awaitHole(ctx, c, w, held.offsets-held.records); err != nil {
		return loaded{}, fmt.Errorf("load %s: %w", w.name, err)
	}
	return held, nil
}

// sameRecords are empty records with one key, in one batch.
type sameRecords struct {
	key   string
	at    time.Time
	count int64
}

// holeRecords are the batches of a log that is to have a hole. The last one is so
// much younger that a segment begins with it.
func holeRecords(width int64, now time.Time) []sameRecords {
	old := now.Add(-2 * holeSegment)
	all := []sameRecords{{"first", old, 1}}
	for width > 0 {
		n := min(width, holeBatch)
		all = append(all, sameRecords{"again", old, n})
		width -= n
	}
	return append(all, sameRecords{"again", old, 1}, sameRecords{"last", now, 1})
}

// holeSegment is segment.ms of the source.
const holeSegment = time.Minute

func (r sameRecords) batch() ([]byte, error) {
	made, err := batch.Encode(func(yield func(batch.Record, error) bool) {
		for i := range r.count {
			if !yield(batch.Record{Offset: i, Timestamp: r.at.UnixMilli(), Key: []byte(r.key), Value: []byte{}}, nil) {
				return
			}
		}
	}, batch.RecodeOptions{Codec: batch.CodecLZ4})
	if err != nil {
		return nil, err
	}
	if len(made) != 1 {
		return nil, fmt.Errorf("a batch of %d records became %d", r.count, len(made))
	}
	return made[0].Bytes, nil
}

// awaitHole waits until so many offsets are in no batch any more.
func awaitHole(ctx context.Context, c lab.Cluster, w workload, gone int64) error {
	tick := time.NewTicker(holePoll)
	defer tick.Stop()
	for {
		// A log that is just being cleaned may be read in part.
		census, err := shapes.Take(ctx, c, lab.Partition{Topic: w.topic()})
		if err == nil && census.Gone == gone {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d offsets are gone: %w; last: %+v, %w", gone, ctx.Err(), census, err)
		}
	}
}

// streamsProducer writes the log of transactions. Its id is far from those that
// brokers give.
var streamsProducer = batch.Identity{ProducerID: 1 << 40}

// writeStreams writes transactions of one batch per partition and commits each.
// The coordinator is left out, which would take ten times as long: markers are
// written as it writes them.
func writeStreams(ctx context.Context, c lab.Cluster, w workload, long bool) (loaded, error) {
	// From Produce v12 on the coordinator has to know of a transaction (KIP-890).
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 11)
	client, err := rawClient(c, kgo.MaxVersions(versions))
	if err != nil {
		return loaded{}, err
	}
	defer client.Close()
	committed := commitEverywhere(w)
	data, held := newPayload(), loaded{}
	for n := range w.batches(long) {
		req, bytes, err := loadRequest(data, w, 0, n)
		if err != nil {
			return loaded{}, err
		}
		req.TransactionID = kmsg.StringPtr(w.topic())
		for _, p := range req.Topics[0].Partitions {
			if err := batch.Patch(p.Records, batch.Fields{Identity: streamsProducer, BaseSequence: int32(n) * int32(w.batchRecords)}); err != nil {
				return loaded{}, err
			}
			setAttribute(p.Records, transactionalBit)
		}
		if err = produce(ctx, client, req); err == nil {
			err = writeMarkers(ctx, client, committed)
		}
		if err != nil {
			return loaded{}, fmt.Errorf("load %s: %w", w.name, err)
		}
		held.wireBytes += bytes
	}
	held.records = w.total(long)
	held.offsets = held.records + w.batches(long)*int64(w.partitions)
	held.measured = held.offsets
	return held, nil
}

// commitEverywhere is one marker for each partition.
func commitEverywhere(w workload) markers {
	m := markers{topic: w.topic(), producer: streamsProducer, count: 1}
	for number := range w.partitions {
		m.partitions = append(m.partitions, number)
	}
	return m
}
