package shapes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
)

// Transactions writes n transactions of three producers, interleaved with each
// other and with a producer without transactions, over all partitions: a third of
// them aborted, some of many batches, some empty of records in a partition. The
// log ends in a marker.
func Transactions(ctx context.Context, c lab.Cluster, p Place, n int) error {
	if err := p.create(ctx, c, nil); err != nil {
		return err
	}
	w, err := newMixed(c, p)
	if err != nil {
		return err
	}
	defer w.close()
	for done := 0; done < n; {
		ended, err := w.step(ctx)
		if err != nil {
			return err
		}
		done += ended
	}
	if err := w.endAll(ctx); err != nil {
		return err
	}
	return p.await(ctx, c, "committed, aborted and interleaved transactions", func(c Census) bool {
		return c.Commits > 0 && c.Aborts > 0 && c.Interleaved > 0 && c.Open == 0 && c.LastVisible < c.Bounds.End-1
	})
}

// mixed is several producers, one of them without transactions.
type mixed struct {
	place  Place
	rng    *rand.Rand
	plain  *kgo.Client
	within []*transactor
}

type transactor struct {
	client *kgo.Client
	begun  bool
}

func newMixed(c lab.Cluster, p Place) (*mixed, error) {
	w := &mixed{place: p, rng: p.rng()}
	var err error
	if w.plain, err = writer(c, kgo.ProducerBatchCompression(kgo.SnappyCompression())); err != nil {
		return nil, err
	}
	for i := range 3 {
		client, err := transactional(c, fmt.Sprintf("%s-%d", p.Topic, i))
		if err != nil {
			w.close()
			return nil, err
		}
		w.within = append(w.within, &transactor{client: client})
	}
	return w, nil
}

func (w *mixed) close() {
	w.plain.Close()
	for _, t := range w.within {
		t.client.Close()
	}
}

// transactional is a producer with a transactional id; its transactions may stay
// open for as long as brokers allow by default.
func transactional(c lab.Cluster, id string, more ...kgo.Opt) (*kgo.Client, error) {
	return writer(c, append([]kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(15 * time.Minute)}, more...)...)
}

// step lets one producer write a batch, or one transaction end.
func (w *mixed) step(ctx context.Context) (ended int, err error) {
	partitions := w.place.partitions()
	batch := some(w.rng, partitions[w.rng.IntN(len(partitions))], 20)
	who := w.rng.IntN(len(w.within) + 1)
	if who == len(w.within) {
		return 0, send(ctx, w.plain, batch...)
	}
	t := w.within[who]
	if t.begun && w.rng.IntN(3) == 0 {
		return 1, t.end(ctx, commit(w.rng.IntN(3) > 0))
	}
	return 0, t.write(ctx, batch...)
}

// commit is the outcome of a transaction.
type commit = kgo.TransactionEndTry

func (t *transactor) write(ctx context.Context, records ...*kgo.Record) error {
	if !t.begun {
		if err := t.client.BeginTransaction(); err != nil {
			return err
		}
		t.begun = true
	}
	return send(ctx, t.client, records...)
}

func (t *transactor) end(ctx context.Context, outcome commit) error {
	t.begun = false
	return t.client.EndTransaction(ctx, outcome)
}

// endAll makes sure that there was each outcome in each partition, the last one
// an abort or a commit by chance.
func (w *mixed) endAll(ctx context.Context) error {
	for i, t := range w.within {
		for _, p := range w.place.partitions() {
			if err := t.write(ctx, some(w.rng, p, 5)...); err != nil {
				return err
			}
		}
		other := w.within[(i+1)%len(w.within)]
		if err := other.write(ctx, w.everywhere(3)...); err != nil {
			return err
		}
	}
	for i, t := range w.within {
		if err := t.end(ctx, commit(i != 1)); err != nil {
			return err
		}
	}
	return nil
}

func (w *mixed) everywhere(most int) []*kgo.Record {
	var records []*kgo.Record
	for _, p := range w.place.partitions() {
		records = append(records, some(w.rng, p, most)...)
	}
	return records
}

// Long writes, into every partition, a committed and an aborted transaction of
// so many records each, at the same time, with records of others among them.
func Long(ctx context.Context, c lab.Cluster, p Place, records int) error {
	if err := p.create(ctx, c, nil); err != nil {
		return err
	}
	w, err := newMixed(c, p)
	if err != nil {
		return err
	}
	defer w.close()
	const each = 500 // records of a batch
	for written := 0; written < records; written += each {
		for _, t := range w.within[:2] {
			var batch []*kgo.Record
			for _, partition := range p.partitions() {
				for range min(each, records-written) {
					batch = append(batch, record(w.rng, partition, fmt.Sprint(w.rng.IntN(100))))
				}
			}
			if err := t.write(ctx, batch...); err != nil {
				return err
			}
		}
		if err := send(ctx, w.plain, w.everywhere(3)...); err != nil {
			return err
		}
	}
	if err := inTurn(
		func() error { return w.within[0].end(ctx, kgo.TryCommit) },
		func() error { return w.within[1].end(ctx, kgo.TryAbort) },
		func() error { return send(ctx, w.plain, w.everywhere(3)...) },
	); err != nil {
		return err
	}
	return p.await(ctx, c, "two long transactions", func(c Census) bool {
		return c.Commits > 0 && c.Aborts > 0 && c.Interleaved == 2 && c.Open == 0 && c.Records > int64(2*records)
	})
}

// smallProducers write at the same time: one alone spends its time waiting for
// the coordinator.
const smallProducers = 8

// Small writes a stream of n transactions per partition, of one to three records
// each, one in ten aborted, as Kafka Streams does with a short commit interval.
func Small(ctx context.Context, c lab.Cluster, p Place, n int) error {
	if err := p.create(ctx, c, nil); err != nil {
		return err
	}
	turns := make(chan int, n) // filled before anybody takes from it
	for i := range n {
		turns <- i
	}
	close(turns)
	var g errgroup.Group
	for i := range smallProducers {
		g.Go(func() error {
			client, err := transactional(c, fmt.Sprintf("%s-%d", p.Topic, i))
			if err != nil {
				return err
			}
			defer client.Close()
			return p.small(ctx, &transactor{client: client}, turns)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	// A busy coordinator writes some markers twice.
	return p.await(ctx, c, "many small transactions", func(c Census) bool {
		return c.Commits+c.Aborts >= n && c.Aborts >= n/10 && c.Transactional >= n && c.Open == 0
	})
}

func (p Place) small(ctx context.Context, t *transactor, turns <-chan int) error {
	for turn := range turns {
		rng := rand.New(rand.NewPCG(p.Seed, uint64(turn)))
		var records []*kgo.Record
		for _, partition := range p.partitions() {
			records = append(records, some(rng, partition, 3)...)
		}
		if err := t.write(ctx, records...); err != nil {
			return err
		}
		if err := t.end(ctx, commit(turn%10 > 0)); err != nil {
			return err
		}
	}
	return nil
}

// Open is a transaction that has not ended.
type Open struct {
	// From is the first offset of the transaction in each partition: where read
	// committed consumers stop.
	From map[lab.Partition]int64
	// ProducerID is whose it is.
	ProducerID int64

	t *transactor
}

// LeaveOpen writes plain records, then a transaction into every partition that
// stays open, then more plain records. End or Close it.
func LeaveOpen(ctx context.Context, c lab.Cluster, p Place) (*Open, error) {
	if err := p.create(ctx, c, nil); err != nil {
		return nil, err
	}
	plain, err := writer(c)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	client, err := transactional(c, p.Topic)
	if err != nil {
		return nil, err
	}
	o := &Open{t: &transactor{client: client}, From: map[lab.Partition]int64{}}
	rng := p.rng()
	for _, partition := range p.partitions() {
		held := some(rng, partition, 30)
		err := inTurn(
			func() error { return send(ctx, plain, some(rng, partition, 30)...) },
			func() error { return o.t.write(ctx, held...) },
			func() error { return send(ctx, plain, some(rng, partition, 30)...) },
		)
		if err != nil {
			return nil, errors.Join(err, o.Close(ctx))
		}
		o.From[partition] = held[0].Offset
	}
	if o.ProducerID, _, err = client.ProducerID(ctx); err != nil {
		return nil, errors.Join(err, o.Close(ctx))
	}
	bounds, err := lab.ReadBounds(ctx, c, lab.ReadCommitted, p.Topic)
	for partition, from := range o.From {
		if err == nil && bounds[partition].End != from {
			err = fmt.Errorf("%s: committed readers stop at %d, want %d", partition, bounds[partition].End, from)
		}
	}
	if err != nil {
		return nil, errors.Join(err, o.Close(ctx))
	}
	return o, nil
}

// End ends the transaction, committed or aborted.
func (o *Open) End(ctx context.Context, outcome kgo.TransactionEndTry) error {
	defer o.t.client.Close()
	return o.t.end(ctx, outcome)
}

// Close aborts the transaction if it is still open.
func (o *Open) Close(ctx context.Context) error {
	if !o.t.begun {
		o.t.client.Close()
		return nil
	}
	return o.End(ctx, kgo.TryAbort)
}
