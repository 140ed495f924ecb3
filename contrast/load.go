package contrast

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// serialHeader carries a record's serial to whoever reads it.
const serialHeader = "serial"

// load sends what the script says, and keeps what the source has acknowledged. All
// but entriesOf and sent is for one goroutine.
type load struct {
	script  *script
	prefix  string
	timed   bool // the delays of what is sent now count
	clients map[string]*kgo.Client
	within  *kgo.Client // transactions

	mu      sync.Mutex // guards all below
	entries map[lab.Partition][]Entry
	failure error // the first
}

// newLoad makes the clients of a load; close ends them.
func newLoad(c Cluster, s *script, prefix string) (*load, error) {
	l := &load{script: s, prefix: prefix, clients: map[string]*kgo.Client{}, entries: map[lab.Partition][]Entry{}}
	var err error
	for _, p := range append(slices.Clone(parts), bulkPart) {
		switch {
		case p.transactional:
			l.within, err = loadClient(c, p.codec, kgo.TransactionalID(prefix+"load"))
		case l.clients[p.codec] == nil:
			l.clients[p.codec], err = loadClient(c, p.codec)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// clientAge is how long clients live with metadata that turned out wrong.
const clientAge = 250 * time.Millisecond

func loadClient(c Cluster, codec string, more ...kgo.Opt) (*kgo.Client, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	return kgo.NewClient(append(append(slices.Clone(c.AdminOpts()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[codec]),
		// What a deed holds goes out as one batch for each partition.
		kgo.ManualFlushing(), kgo.MaxBufferedRecords(1<<20), kgo.MetadataMinAge(clientAge), kgo.DisableClientMetrics()), more...)...)
}

func (l *load) close() {
	for _, c := range l.clients {
		c.Close()
	}
	if l.within != nil {
		l.within.Close()
	}
}

// play sends one tick and returns once all of it is acknowledged.
func (l *load) play(ctx context.Context) error {
	for _, d := range l.script.next() {
		if d.part.transactional {
			if err := l.transact(ctx, d); err != nil {
				return fmt.Errorf("load the source: %w", err)
			}
			continue
		}
		l.send(ctx, l.clients[d.part.codec], d)
	}
	for _, c := range l.clients {
		if err := c.Flush(ctx); err != nil {
			return fmt.Errorf("load the source: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// send hands the records of a deed to a client, and gives their entries.
func (l *load) send(ctx context.Context, client *kgo.Client, d deed) {
	now := time.Now()
	for _, m := range d.messages {
		at := lab.Partition{Topic: l.prefix + m.at.Topic, Number: m.at.Number}
		l.mu.Lock()
		l.entries[at] = append(l.entries[at], Entry{Serial: m.serial, Offset: -1, Key: m.key, Sent: now, Timed: l.timed})
		l.mu.Unlock()
		r := record(at, m)
		if !l.timed {
			r.Timestamp = now.Add(-historyStep * time.Duration(history-l.script.ticks))
		}
		client.Produce(ctx, r, func(r *kgo.Record, err error) { l.settle(at, m.serial, r.Offset, !d.part.transactional, err) })
	}
}

func record(at lab.Partition, m message) *kgo.Record {
	return &kgo.Record{Topic: at.Topic, Partition: at.Number, Key: []byte(m.key), Value: m.value,
		Headers: []kgo.RecordHeader{{Key: serialHeader, Value: binary.BigEndian.AppendUint64(nil, uint64(m.serial))}}}
}

// serialOf is what record wrote.
func serialOf(r *kgo.Record) (int64, bool) {
	for _, h := range r.Headers {
		if h.Key == serialHeader && len(h.Value) == 8 {
			return int64(binary.BigEndian.Uint64(h.Value)), true
		}
	}
	return 0, false
}

func (l *load) settle(at lab.Partition, serial, offset int64, committed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failure = cmp.Or(l.failure, fmt.Errorf("load the source: %s: %w", at, err))
		return
	}
	e := &l.entries[at][serial]
	e.Offset, e.Committed = offset, committed
}

// transact sends a deed as one transaction.
func (l *load) transact(ctx context.Context, d deed) error {
	if err := l.within.BeginTransaction(); err != nil {
		return err
	}
	l.send(ctx, l.within, d)
	end := kgo.TryCommit
	if d.abort {
		end = kgo.TryAbort
	}
	if err := errors.Join(l.within.Flush(ctx), l.within.EndTransaction(ctx, end)); err != nil || d.abort {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range d.messages {
		l.entries[lab.Partition{Topic: l.prefix + m.at.Topic, Number: m.at.Number}][m.serial].Committed = true
	}
	return nil
}

// sendBulk fills the topic that the mirror's speed is measured on, with so many
// records.
func (l *load) sendBulk(ctx context.Context, seed uint64, records int64) error {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	var values [256][]byte // the codec sees blocks of few of them
	for i := range values {
		values[i] = wording(rng, bulkRecord)
	}
	client := l.clients[bulkPart.codec]
	var once sync.Once
	var failed error
	const between = 4096 // records, which bounds what waits in memory
	for n := range records {
		r := &kgo.Record{Topic: l.prefix + bulkPart.name, Partition: int32(n % int64(bulkPart.partitions)), Value: values[rng.IntN(len(values))]}
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
		})
		if n%between < between-1 && n < records-1 {
			continue
		}
		if err := client.Flush(ctx); err != nil {
			return fmt.Errorf("load the source: %w", err)
		}
	}
	return failed
}

// partitions are those that have had records, in order.
func (l *load) partitions() []lab.Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.entries), func(a, b lab.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
}

// entriesOf are a partition's, as they are now.
func (l *load) entriesOf(p lab.Partition) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[p])
}

// sent counts the records of each partition.
func (l *load) sent() map[lab.Partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[lab.Partition]int64{}
	for p, e := range l.entries {
		n[p] = int64(len(e))
	}
	return n
}
