package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab/readers"
)

// Client is a consumer of one maker.
type Client int

const (
	// FranzGo reads within this process.
	FranzGo Client = iota
	// Java is Kafka's own consumer of the newest version.
	Java
	// Librdkafka is the C client, by way of Python.
	Librdkafka
)

// AllClients are all of them.
var AllClients = []Client{FranzGo, Java, Librdkafka}

func (c Client) String() string { return [...]string{"franz-go", "Java", "librdkafka"}[c] }

func (i Isolation) String() string { return [...]string{"read_committed", "read_uncommitted"}[i] }

// Sighting is one record as a client has handed it out.
type Sighting struct {
	Offset    int64
	Digest    [sha256.Size]byte // of the record's canonical form without its offset
	Key       string            // SHA-256 of the key in hexadecimal digits; "" for null
	Tombstone bool              // its value is null
}

// Reading is what a client sees of a partition between its bounds at the given
// isolation, in its order.
type Reading struct {
	Bounds Bounds
	Seen   []Sighting
}

// ErrMoved: records at the start of a log were deleted between the look at its
// bounds and the end of the reading.
var ErrMoved = errors.New("the log's bounds moved while it was read")

// ReadWith lets a client read all partitions of topics from start to end, all
// of them in one run. Other makers' clients are installed when they are needed
// first; they read past proxies and logins, as AdminOpts do, so c must be a
// cluster on a network.
func ReadWith(ctx context.Context, client Client, c Cluster, isolation Isolation, topics ...string) (map[Partition]Reading, error) {
	if len(topics) == 0 {
		return nil, errors.New("read: no topics")
	}
	bounds, err := ReadBounds(ctx, c, isolation, topics...)
	if err != nil {
		return nil, err
	}
	readings := map[Partition]Reading{}
	for p, b := range bounds {
		readings[p] = Reading{Bounds: b}
	}
	switch client {
	case FranzGo:
		err = readHere(ctx, c, isolation, readings)
	case Java:
		err = readElsewhere(ctx, readers.Java, c, isolation, readings)
	case Librdkafka:
		err = readElsewhere(ctx, readers.Librdkafka, c, isolation, readings)
	default:
		err = errors.New("no such client")
	}
	if err != nil {
		return nil, fmt.Errorf("read with %s, %s: %w", client, isolation, err)
	}
	return readings, nil
}

func readHere(ctx context.Context, c Cluster, isolation Isolation, readings map[Partition]Reading) error {
	for p, reading := range readings {
		o := ReadOptions{Isolation: isolation, To: reading.Bounds.End}
		if reading.Bounds.Start >= reading.Bounds.End {
			continue
		}
		var buf []byte
		d, err := readRange(ctx, c, p, o, func(r *kgo.Record) {
			buf = canonical(buf[:0], r)
			reading.Seen = append(reading.Seen, Sighting{Offset: r.Offset, Digest: sha256.Sum256(buf[offsetBytes:]), Key: keyDigest(r.Key), Tombstone: r.Value == nil})
		})
		if err != nil {
			return err
		}
		if d.From != reading.Bounds.Start || d.To != reading.Bounds.End {
			return fmt.Errorf("%s: %w: from %+v to [%d, %d)", p, ErrMoved, reading.Bounds, d.From, d.To)
		}
		readings[p] = reading
	}
	return nil
}

func keyDigest(key []byte) string {
	if key == nil {
		return ""
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

type program func(context.Context, readers.Job, func(readers.Line) error) error

func readElsewhere(ctx context.Context, read program, c Cluster, isolation Isolation, readings map[Partition]Reading) error {
	job := readers.Job{Isolation: isolation.String()}
	for _, p := range slices.SortedFunc(maps.Keys(readings), comparePartitions) {
		if b := readings[p].Bounds; b.Start < b.End {
			job.Ranges = append(job.Ranges, readers.Range{Topic: p.Topic, Partition: p.Number, From: b.Start, End: b.End})
		}
	}
	if len(job.Ranges) == 0 {
		return nil
	}
	var err error
	if job.Bootstrap, err = seeds(c); err != nil {
		return err
	}
	return read(ctx, job, func(l readers.Line) error {
		p := Partition{l.Topic, l.Partition}
		reading, ok := readings[p]
		if !ok {
			return fmt.Errorf("a record of %s, which was not asked for", p)
		}
		if n := len(reading.Seen); n > 0 && l.Offset <= reading.Seen[n-1].Offset {
			return fmt.Errorf("%s: offset %d after %d", p, l.Offset, reading.Seen[n-1].Offset)
		}
		reading.Seen = append(reading.Seen, Sighting{Offset: l.Offset, Digest: l.Digest, Key: l.Key, Tombstone: l.Tombstone})
		readings[p] = reading
		return nil
	})
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
}

// seeds are the addresses that AdminOpts name.
func seeds(c Cluster) ([]string, error) {
	client, err := adminClient(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	addrs, ok := client.OptValue(kgo.SeedBrokers).([]string)
	if !ok || len(addrs) == 0 {
		return nil, errors.New("the cluster names no addresses")
	}
	return addrs, nil
}
