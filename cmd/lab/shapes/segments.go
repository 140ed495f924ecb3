package shapes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// OldFormats puts segments of messages of magic 0 and 1 into the log folders of
// topics, as they lie there on clusters that were upgraded over the years: alone
// and compressed by gzip, snappy and LZ4, with null keys and values; in magic 0
// with the wrong checksums that its producers put into LZ4 frames (KAFKA-3160), in
// magic 1 with the broker's time. The brokers are stopped for that and started
// again, and build the indexes. Then records of today's format are written behind
// them, so that one answer holds all three.
//
// Where the place's configs say that the topic is compacted all messages have
// keys, and some were taken out of their wrappers, as by the cleaners of that time;
// today's has no work there.
//
// Java and librdkafka read all of it alike. franz-go 1.22 refuses the LZ4 frames
// of magic 0, and gives messages inside a wrapper with the broker's time their own
// times.
func OldFormats(ctx context.Context, k *lab.Kafka, places ...Place) error {
	for _, p := range places {
		// With this ratio the cleaner never finds a log dirty enough.
		if err := p.create(ctx, k, map[string]string{"min.cleanable.dirty.ratio": "1"}); err != nil {
			return err
		}
	}
	for _, b := range k.Brokers() {
		if err := b.Stop(ctx); err != nil {
			return err
		}
	}
	for _, p := range places {
		for _, partition := range p.partitions() {
			segments, err := oldSegments(rand.New(rand.NewPCG(p.Seed, uint64(partition.Number))), p.compacted())
			if err == nil {
				err = plant(k, partition, segments)
			}
			if err != nil {
				return fmt.Errorf("plant old messages in %s: %w", partition, err)
			}
		}
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	for _, p := range places {
		if err := p.growNew(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (p Place) compacted() bool { return strings.Contains(p.Configs["cleanup.policy"], "compact") }

func (p Place) growNew(ctx context.Context, c lab.Cluster) error {
	client, err := writer(c)
	if err != nil {
		return err
	}
	defer client.Close()
	rng := p.rng()
	for _, partition := range p.partitions() {
		var batch []*kgo.Record
		for i := range 20 {
			batch = append(batch, record(rng, partition, fmt.Sprint(i)))
		}
		if err := send(ctx, client, batch...); err != nil {
			return err
		}
	}
	return p.await(ctx, c, "messages of magic 0, 1 and 2", func(c Census) bool {
		return c.Old[0] > 0 && c.Old[1] > 0 && len(c.OldCodecs[0]) == 3 && len(c.OldCodecs[1]) == 3 &&
			c.AppendTime > 0 && c.Newest.Magic == 2 && c.Bounds.Start == 0
	})
}

// segment is a log file and the first offset that it may hold.
type segment struct {
	base    int64
	content []byte
}

// oldSegments are one file of each magic.
func oldSegments(rng *rand.Rand, compacted bool) ([]segment, error) {
	w := &oldWriter{rng: rng, compacted: compacted}
	codecs := []byte{gzipBits, snappyBits, lz4Bits}
	w.plain(0, 7)
	for _, codec := range codecs {
		w.wrapped(0, codec, 12)
		w.plain(0, 1)
	}
	oldest := segment{content: w.content}
	younger := segment{base: w.next}
	w.content = nil
	w.plain(1, 7)
	for _, codec := range codecs {
		w.wrapped(1, codec, 40)
		w.wrapped(1, codec, 12)
		w.wrapped(1, codec|appendTimeBit, 12)
		w.plain(1, 1)
	}
	younger.content = w.content
	return []segment{oldest, younger}, w.err
}

// taken says which of a wrapper's first messages a cleaner has taken: the very
// first one as well, but none late enough to be the last, which gives the wrapper
// its offset.
func taken(i int) bool { return i == 0 || i == 4 || i == 5 || i == 9 }

// oldWriter builds the content of a segment.
type oldWriter struct {
	rng       *rand.Rand
	compacted bool
	next      int64
	content   []byte
	err       error
}

func (w *oldWriter) message() message {
	m := message{offset: w.next, timestamp: baseTime.UnixMilli() + w.rng.Int64N(1000)}
	w.next++
	field := func() []byte {
		switch w.rng.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return fmt.Appendf(nil, "%0*d", 1+w.rng.IntN(90), w.rng.Uint32())
	}
	m.key, m.value = field(), field()
	if w.compacted {
		m.key = fmt.Appendf(nil, "key-%d", w.rng.IntN(30))
	}
	return m
}

func (w *oldWriter) plain(magic byte, count int) {
	for range count {
		w.content = w.message().encode(w.content, magic, 0)
	}
}

func (w *oldWriter) wrapped(magic, attributes byte, count int) {
	base := w.next
	var inner []message
	for i := range count {
		if m := w.message(); !w.compacted || !taken(i) {
			inner = append(inner, m)
		}
	}
	content, err := wrap(w.content, magic, attributes, base, inner)
	w.content, w.err = content, errors.Join(w.err, err)
}

// plant replaces a partition's log on every broker that has one.
func plant(k *lab.Kafka, p lab.Partition, segments []segment) error {
	planted := 0
	for _, b := range k.Brokers() {
		for _, dir := range b.DataDirs() {
			folder := filepath.Join(dir, fmt.Sprintf("%s-%d", p.Topic, p.Number))
			files, err := os.ReadDir(folder)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			for _, f := range files {
				// The partition's identity stays. Epochs go: what is that old comes from
				// before there were any.
				if f.Name() == "partition.metadata" {
					continue
				}
				if err := os.Remove(filepath.Join(folder, f.Name())); err != nil {
					return err
				}
			}
			for _, s := range segments {
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%020d.log", s.base)), s.content, 0o644); err != nil {
					return err
				}
			}
			planted++
		}
	}
	if planted == 0 {
		return errors.New("no broker has its folder")
	}
	return nil
}
