package fetcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/fetcher/feed"
)

// The producer of an open transaction is told with the transaction's start, also
// after the leader moved; once it has ended it has none.
func TestProducersOfOpenTransactions(t *testing.T) {
	inWorld(t, setup{brokers: 2, topics: map[string]int32{"orders": 1}}, func(w *world) {
		r, s, ctx := w.logReader(), w.start("orders", 0), context.Background()
		w.produce("orders", 0, testBatch(5, 10))
		if got, err := r.Producers(ctx, s.Partition, s.ID); err != nil || len(got) != 0 {
			t.Fatalf("got %+v, %v", got, err)
		}
		cl := w.client(kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		id, epoch, err := cl.ProducerID(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.c.MoveTopicPartition("orders", 0, 1-w.c.LeaderFor("orders", 0)); err != nil {
			t.Fatal(err)
		}
		got, err := r.Producers(ctx, s.Partition, s.ID)
		if err != nil || len(got) != 1 || got[0].ID != id || got[0].Epoch != int32(epoch) || got[0].TxnStart != 5 || got[0].LastWrite.IsZero() {
			t.Fatalf("got %+v, %v", got, err)
		}
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		for _, p := range mustProducers(t, r, s) {
			if p.TxnStart != feed.Unknown {
				t.Errorf("got %+v", p)
			}
		}
	})
}

func mustProducers(t testing.TB, r *LogReader, s feed.Start) []feed.Producer {
	t.Helper()
	got, err := r.Producers(context.Background(), s.Partition, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A broker without the request and a missing right are told at once.
func TestProducersUnknown(t *testing.T) {
	inWorld(t, setup{topics: map[string]int32{"orders": 1}, opts: []kfake.Opt{kfake.MaxVersions(without(kmsg.DescribeProducers))}}, func(w *world) {
		s, began := w.start("orders", 0), time.Now()
		_, err := w.logReader().Producers(context.Background(), s.Partition, s.ID)
		if asFault(t, err, feed.Unexpected); !errors.Is(err, kerr.UnsupportedVersion) || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
	inWorld(t, setup{topics: map[string]int32{"orders": 1}}, func(w *world) {
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "orders", Err: kerr.TopicAuthorizationFailed, Count: -1})
		s := w.start("orders", 0)
		_, err := w.logReader().Producers(context.Background(), s.Partition, s.ID)
		asFault(t, err, feed.Unauthorized)
		_, err = w.logReader().Producers(context.Background(), s.Partition, feed.TopicID{1, 2, 3})
		asFault(t, err, feed.Recreated)
	})
}

// without returns all that a broker serves but one request.
func without(key kmsg.Key) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(key), -1)
	return v
}
