package lab_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

func TestL5WhatBothIsolationsSeeIsJudged(t *testing.T) {
	src, dst := pair(t, 1)
	r := kgo.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: at(1000)}
	produce(t, src, r, r)
	produce(t, dst, r, r)
	compare := func() lab.Visible {
		v, err := lab.CompareVisible(within(t, time.Minute), src, dst, lab.VisibleOptions{Topics: []string{"t"}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := compare(); !v.Equal() || !v.SameBounds() || v.Records() != 2 || len(v.Views) != 2 {
		t.Fatalf("two equal records: %s", v)
	}
	// An aborted record on the target is seen by one kind of reader only.
	txn := client(t, dst.AdminOpts(), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := txn.ProduceSync(within(t, 10*time.Second), &r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := txn.EndTransaction(within(t, 10*time.Second), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	produce(t, src, r, r)
	v := compare()
	if v.Equal() || v.Views[1].Partitions[0].First == nil || !v.SameBounds() {
		t.Fatalf("records where the target has none: %s", v)
	}
	if text := v.String(); !strings.Contains(text, "at offset 3") || !strings.Contains(text, `key "k"`) {
		t.Errorf("the difference is not shown: %s", text)
	}
}

func TestAScanShowsBatchesAsTheyLie(t *testing.T) {
	src, _ := pair(t, 1)
	r := kgo.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: at(1000)}
	produce(t, src, r)
	txn := client(t, src.AdminOpts(), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.GzipCompression()))
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		long := kgo.Record{Value: []byte(strings.Repeat("v", 500)), Timestamp: at(2000)}
		if err := txn.ProduceSync(within(t, 10*time.Second), &long).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := txn.EndTransaction(within(t, 10*time.Second), commit); err != nil {
			t.Fatal(err)
		}
	}
	batches, bounds, err := lab.Scan(within(t, 10*time.Second), src, lab.Partition{Topic: "t"})
	if err != nil || len(batches) != 5 || bounds != (lab.Bounds{End: 5}) {
		t.Fatalf("%d batches in %+v, %v", len(batches), bounds, err)
	}
	for i, b := range batches {
		marker, inside := i == 2 || i == 4, i > 0
		if b.Base != int64(i) || b.Last != int64(i) || b.Magic != 2 || b.Count != 1 || b.Holes() ||
			b.Control != marker || b.Transaction != inside || b.Commit != (i == 2) || (b.Codec == 1) != (inside && !marker) {
			t.Errorf("batch %d: %+v", i, b)
		}
	}
}
