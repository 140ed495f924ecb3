package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker"
	"klink/linker/drift"
	"klink/linker/maps"
	"klink/translate/exact"
)

// TestLostMapsAreAskedForAnew: once the topic of maps was deleted, a klink that runs
// is told that nothing is on record, and can put maps there again.
func TestLostMapsAreAskedForAnew(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	k := &mapKeeper{client: cl, log: slog.New(slog.DiscardHandler)}
	t.Cleanup(k.close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := linker.MapKey{Link: "l", Topic: "orders"}
	put := func() {
		t.Helper()
		m := &exact.Map{}
		if err := m.Add(exact.Run{Count: 10}); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{k.PutMap(ctx, key, m), k.PutCursor(ctx, key, drift.Position{Src: 10, Dst: 10, Seq: 10})} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, known, err := k.Map(ctx, key); known || err != nil {
		t.Fatalf("known %v, %v", known, err)
	}
	put()
	if _, at, known, err := k.Map(ctx, key); !known || at.Src != 10 || err != nil {
		t.Fatalf("known %v at %+v, %v", known, at, err)
	}
	if _, err := kadm.NewClient(cl).DeleteTopics(ctx, maps.TopicName); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, known, err := k.Map(ctx, key)
		if err == nil && !known {
			break
		}
		if ctx.Err() != nil || known && err == nil {
			t.Fatalf("known %v, %v", known, err)
		}
	}
	put()
	if _, _, known, err := k.Map(ctx, key); !known || err != nil {
		t.Fatalf("known %v, %v", known, err)
	}
}
