package shapes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
	"klink/cmd/lab/readers"
	"klink/cmd/lab/shapes"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestS1EveryShapeIsThere writes all shapes to one broker, which fails unless
// they are there, and lets clients read them: each must see the same of every
// log. The tests of the mirror do it with the oldest version as well.
func TestS1EveryShapeIsThere(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{Props: shapes.BrokerProps()})
	ctx := within(t)
	two := func(topic string) shapes.Place { return shapes.Place{Topic: topic, Partitions: 2, Seed: 7} }
	compacted := two("old-compacted")
	compacted.Configs = map[string]string{"cleanup.policy": "compact"}
	if err := shapes.OldFormats(ctx, k, two("old"), compacted); err != nil {
		t.Fatal(err)
	}
	topics, open := writeAll(t, ctx, k, two)
	for _, isolation := range []lab.Isolation{lab.ReadCommitted, lab.ReadUncommitted} {
		requireAgreed(t, k, isolation, lab.AllClients, topics...)
	}
	requireAgreed(t, k, lab.ReadCommitted, []lab.Client{lab.Java, lab.Librdkafka}, "old", "old-compacted")
	requireNoOtherRange(t, k, "trimmed")
	if err := open.End(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	census, err := shapes.Take(ctx, k, lab.Partition{Topic: "open"})
	if err != nil || census.Open != 0 || census.Commits == 0 {
		t.Errorf("after its end: %+v, %v", census, err)
	}
}

// writeAll runs all generators that can run side by side.
func writeAll(t *testing.T, ctx context.Context, c lab.Cluster, at func(topic string) shapes.Place) (topics []string, open *shapes.Open) {
	t.Helper()
	generators := map[string]func(shapes.Place) error{
		"mixed": func(p shapes.Place) error { return shapes.Transactions(ctx, c, p, 40) },
		"long":  func(p shapes.Place) error { return shapes.Long(ctx, c, p, 2500) },
		"small": func(p shapes.Place) error { return shapes.Small(ctx, c, p, 200) },
		"open":  func(p shapes.Place) (err error) { open, err = shapes.LeaveOpen(ctx, c, p); return err },
		"compacted": func(p shapes.Place) error {
			if err := shapes.Compacted(ctx, c, p); err != nil {
				return err
			}
			return shapes.Supersede(ctx, c, p)
		},
		"trimmed":   func(p shapes.Place) error { return shapes.Trimmed(ctx, c, p, 2345, 1000) },
		"far-start": func(p shapes.Place) error { return shapes.FarStart(ctx, c, p, 1_234_567, 100) },
		"emptied":   func(p shapes.Place) error { return shapes.Trimmed(ctx, c, p, 1000, 0) },
		"expired":   func(p shapes.Place) error { return shapes.Expired(ctx, c, p, 300, 50) },
		"all-gone":  func(p shapes.Place) error { return shapes.Expired(ctx, c, p, 300, 0) },
		"appended":  func(p shapes.Place) error { return shapes.AppendTimes(ctx, c, p, 5) },
		"far":       func(p shapes.Place) error { return shapes.FarTimes(ctx, c, p) },
		"wide":      func(p shapes.Place) error { p.Partitions = 1; return shapes.Wide(ctx, c, p, 100_000) },
	}
	t.Run("write", func(t *testing.T) {
		for topic, generate := range generators {
			topics = append(topics, topic)
			t.Run(topic, func(t *testing.T) {
				t.Parallel()
				if err := generate(at(topic)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return topics, open
}

// requireNoOtherRange lets the other makers' clients read from an offset that is
// not there any more.
func requireNoOtherRange(t *testing.T, k *lab.Kafka, topic string) {
	t.Helper()
	job := readers.Job{Bootstrap: k.Bootstrap(), Isolation: "read_committed", Ranges: []readers.Range{{Topic: topic, From: 0, End: 3000}}}
	for name, read := range map[string]func(context.Context, readers.Job, func(readers.Line) error) error{"Java": readers.Java, "librdkafka": readers.Librdkafka} {
		err := read(within(t), job, func(readers.Line) error { return nil })
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "out of range") {
			t.Errorf("%s was sent to an offset that is gone: %v", name, err)
		}
	}
}

// requireAgreed lets clients read topics, the first of them once more at the end: what
// a cleaner changed meanwhile is read again by all.
func requireAgreed(t *testing.T, c lab.Cluster, isolation lab.Isolation, clients []lab.Client, topics ...string) {
	t.Helper()
	ctx := within(t)
	read := func(client lab.Client) map[lab.Partition]lab.Reading {
		seen, err := lab.ReadWith(ctx, client, c, isolation, topics...)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	same := func(a, b lab.Reading) bool { return a.Bounds == b.Bounds && slices.Equal(a.Seen, b.Seen) }
	for last := read(clients[0]); ; {
		first, others := last, make([]map[lab.Partition]lab.Reading, 0, len(clients)-1)
		for _, client := range clients[1:] {
			others = append(others, read(client))
		}
		if last = read(clients[0]); !maps.EqualFunc(first, last, same) {
			continue
		}
		for i, seen := range others {
			requireSame(t, fmt.Sprintf("%s beside %s, %s", clients[i+1], clients[0], isolation), first, seen)
		}
		return
	}
}

func requireSame(t *testing.T, who string, first, seen map[lab.Partition]lab.Reading) {
	t.Helper()
	for p, want := range first {
		got := seen[p]
		if got.Bounds != want.Bounds || len(got.Seen) != len(want.Seen) {
			t.Errorf("%s: %s sees %d records in %+v, beside %d in %+v", p, who, len(got.Seen), got.Bounds, len(want.Seen), want.Bounds)
			continue
		}
		for i := range want.Seen {
			if got.Seen[i] != want.Seen[i] {
				t.Errorf("%s: %s sees %+v, beside %+v", p, who, got.Seen[i], want.Seen[i])
				break
			}
		}
	}
}
