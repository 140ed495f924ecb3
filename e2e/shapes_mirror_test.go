package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// shape is a kind of source log.
type shape struct {
	topic string
	write func(shapes.Place) error
	// clients judge it where franz-go alone would be wrong or too little.
	clients []lab.Client
}

// Those of compacted topics are judged by their rule.
const cleanedTopic, oldCleanedTopic = "s-compacted", "s-old-compacted"

// shapesOf are all shapes that can be written side by side, with so many small
// transactions.
func shapesOf(t testing.TB, c lab.Cluster, small int, open **shapes.Open) []shape {
	t.Helper()
	ctx := within(t, 4*patience)
	return []shape{
		{topic: "s-mixed", write: func(p shapes.Place) error { return shapes.Transactions(ctx, c, p, 60) }},
		{topic: "s-long", write: func(p shapes.Place) error { return shapes.Long(ctx, c, p, LongTransaction.N()) }},
		{topic: "s-small", write: func(p shapes.Place) error { p.Partitions = 1; return shapes.Small(ctx, c, p, small) }},
		{topic: "s-open", write: func(p shapes.Place) (err error) { *open, err = shapes.LeaveOpen(ctx, c, p); return err }},
		{topic: cleanedTopic, write: func(p shapes.Place) error { return shapes.Compacted(ctx, c, p) }},
		{topic: "s-trimmed", write: func(p shapes.Place) error { return shapes.Trimmed(ctx, c, p, 12_345, 1000) }},
		{topic: "s-emptied", write: func(p shapes.Place) error { return shapes.Trimmed(ctx, c, p, 5000, 0) }},
		{topic: "s-expired", write: func(p shapes.Place) error { return shapes.Expired(ctx, c, p, 300, 50) }},
		{topic: "s-all-gone", write: func(p shapes.Place) error { return shapes.Expired(ctx, c, p, 300, 0) }},
		{topic: "s-appended", write: func(p shapes.Place) error { return shapes.AppendTimes(ctx, c, p, 5) }},
		{topic: "s-far-times", write: func(p shapes.Place) error { return shapes.FarTimes(ctx, c, p) }},
		{topic: "s-wide", write: func(p shapes.Place) error { return shapes.Wide(ctx, c, p, WideBatch.N()) }},
	}
}

func at(topic string) shapes.Place { return shapes.Place{Topic: topic, Partitions: 2, Seed: 11} }

// oldClients read messages of the formats before batches: franz-go gives those
// in wrappers with the broker's time other times.
var oldClients = []lab.Client{lab.Java, lab.Librdkafka}

// TestG1G2_EveryShape mirrors logs of all shapes between two real brokers in both
// modes, and reads both sides with consumers of three makers, the target at both
// isolations; then it promotes. The modes are told apart by what they promise.
func TestG1G2_EveryShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version string
		small   int
		modes   []promise
	}{{"4.3.1", SmallTransactions.N(), promises}, {"3.9.1", SmallTransactions.N() / 10, promises[:ModesOnOldest.N()]}} {
		t.Run(c.version, func(t *testing.T) {
			o := lab.KafkaOptions{Version: c.version, Props: shapes.BrokerProps()}
			p := startPair(t, o, o)
			oldCleaned := at(oldCleanedTopic)
			oldCleaned.Configs = map[string]string{"cleanup.policy": "compact"}
			if err := shapes.OldFormats(within(t, 4*patience), p.src, at("s-old"), oldCleaned); err != nil {
				t.Fatal(err)
			}
			var open *shapes.Open
			all := shapesOf(t, p.src, c.small, &open)
			writeShapes(t, all)
			modes := startModes(t, p, c.modes, "s-*", "both-*")
			k := modes[0].klink
			// Some are written while klink follows the log's end.
			writeShapes(t, []shape{
				{topic: "s-live-small", write: func(to shapes.Place) error { return shapes.Small(within(t, 2*patience), p.src, to, 300) }},
				{topic: "s-live-mixed", write: func(to shapes.Place) error { return shapes.Transactions(within(t, 2*patience), p.src, to, 60) }},
			})
			all = append(all, shape{topic: "s-live-small"}, shape{topic: "s-live-mixed"},
				shape{topic: "s-old", clients: oldClients}, shape{topic: oldCleanedTopic, clients: oldClients})
			t.Run("mirrored", func(t *testing.T) {
				for _, s := range all {
					for _, m := range modes {
						t.Run(s.topic+" "+m.mode, func(t *testing.T) {
							t.Parallel()
							m.requireShown(t, p, lab.VisibleOptions{Topics: []string{s.topic}, Clients: s.clients})
						})
					}
				}
			})
			testEndOfOpen(t, p, k, open)
			testCleanedTarget(t, p, k)
			committed := commitHalfway(t, p, []string{"s-mixed", "s-long", "s-small", "s-trimmed", "s-appended", "s-wide"})
			for _, m := range modes {
				testAllClients(t, p, m, all)
				m.requireNothingReadAgain(t, p, committed)
				m.stop(t)
			}
		})
	}
}

// writeShapes writes shapes side by side. They are no parallel tests: those wait
// for their turn behind other tests, and the time they have would run out there.
func writeShapes(t *testing.T, all []shape) {
	t.Helper()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			if err := s.write(at(s.topic)); err != nil {
				errs[i] = fmt.Errorf("write %s: %w", s.topic, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// requireVisible waits until topics are mirrored and compares what consumers see,
// and where the logs begin and end.
func (k *klink) requireVisible(t *testing.T, p pair, o lab.VisibleOptions) lab.Visible {
	t.Helper()
	o.Compacted = []string{cleanedTopic, oldCleanedTopic}
	if err := lab.AwaitMirrored(within(t, 4*patience), p.src, p.dst, lab.CompareOptions{Topics: o.Topics}); err != nil {
		t.Fatalf("%v\n%s", err, k.describe(t, o.Topics))
	}
	// The log's start follows within seconds, its end before that.
	var v lab.Visible
	eventually(t, patience, "the log's start to follow", func() bool {
		var err error
		switch v, err = lab.CompareVisible(within(t, 4*patience), p.src, p.dst, o); {
		case errors.Is(err, lab.ErrMoved): // it followed just now
			return false
		case err != nil:
			t.Fatal(err)
		}
		return !v.Equal() || v.SameBounds()
	})
	if !v.Equal() {
		t.Fatalf("%s\n%s", v, k.describe(t, o.Topics))
	}
	return v
}

// describe tells what klink says of topics.
func (k *klink) describe(t *testing.T, topics []string) string {
	r, err := k.report(within(t, patience))
	if err != nil {
		return err.Error()
	}
	var text string
	for _, l := range r.Links {
		for _, topic := range l.Topics {
			if slices.Contains(topics, topic.SourceTopic) {
				b, _ := json.MarshalIndent(topic, "", " ")
				text += fmt.Sprintf("%s\n", b)
			}
		}
	}
	return text
}

// testEndOfOpen: an open transaction is mirrored up to its first offset, and all
// of it when it has ended.
func testEndOfOpen(t *testing.T, p pair, k *klink, open *shapes.Open) {
	t.Helper()
	ends := map[int32]int64{}
	for partition, from := range open.From {
		ends[partition.Number] = from
	}
	k.awaitEnds(t, "s-open", ends)
	k.await(t, "lag against the high watermark", func(l state.Link) bool {
		part, ok := partition(l, "s-open", 0)
		return ok && part.SourceEnd != nil && part.SourceHighWatermark != nil && *part.SourceEnd < *part.SourceHighWatermark
	})
	k.await(t, "the producer that holds the last stable offset back to be named", func(l state.Link) bool {
		part, ok := partition(l, "s-open", 0)
		return ok && strings.Contains(part.Detail, "wait for the transaction of producer ") && strings.Contains(part.Detail, fmt.Sprintf("open at offset %d ", ends[0]))
	})
	bounds, err := lab.ReadBounds(within(t, patience), p.dst, lab.ReadUncommitted, "s-open")
	if err != nil {
		t.Fatal(err)
	}
	for partition, from := range open.From {
		if bounds[partition].End != from {
			t.Errorf("%s ends at %d on the target, the open transaction begins at %d", partition, bounds[partition].End, from)
		}
	}
	if err := open.End(within(t, patience), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{"s-open"}})
}

// testCleanedTarget: both sides stay equal in the sense of G1 after the target's
// own cleaner ran as well.
func testCleanedTarget(t *testing.T, p pair, k *klink) {
	t.Helper()
	ctx := within(t, 4*patience)
	where := lab.Partition{Topic: cleanedTopic}
	_, was, err := lab.Scan(ctx, p.dst, where)
	if err != nil {
		t.Fatal(err)
	}
	before := recordsBelow(t, p.dst, where, was.End)
	if err := shapes.Supersede(ctx, p.src, at(cleanedTopic)); err != nil {
		t.Fatal(err)
	}
	k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{cleanedTopic}})
	eventually(t, patience, "the target's cleaner to have run", func() bool {
		return recordsBelow(t, p.dst, where, was.End) < before/2
	})
	k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{cleanedTopic}})
}

// recordsBelow counts what batches hold that end before an offset.
func recordsBelow(t *testing.T, c lab.Cluster, p lab.Partition, end int64) (n int64) {
	t.Helper()
	batches, _, err := lab.Scan(within(t, patience), c, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if b.Last < end && !b.Control {
			n += int64(b.Count)
		}
	}
	return n
}

// testAllClients reads everything with consumers of all makers.
func testAllClients(t *testing.T, p pair, m moded, all []shape) {
	t.Helper()
	var topics []string
	least := SmallTransactions.N() / 10
	for _, s := range all {
		wide := s.topic == "s-wide"
		if s.clients != nil || wide && !m.offsetsKept && WideDrift.N() == 0 {
			continue
		}
		if topics = append(topics, s.topic); wide {
			least = 2 * WideBatch.N()
		}
	}
	v := m.requireShown(t, p, lab.VisibleOptions{Topics: topics, Clients: []lab.Client{lab.Java, lab.Librdkafka}})
	if v.Records() < int64(least) {
		t.Errorf("only %d records compared", v.Records())
	}
}

// TestG1_FarStart mirrors a partition that begins at a large offset.
func TestG1_FarStart(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	place := shapes.Place{Topic: "far", Seed: 3}
	if err := shapes.FarStart(within(t, 60*patience), p.src, place, int64(FarStart.N()), 1000); err != nil {
		t.Fatal(err)
	}
	k := startKlink(t, p.plain("far")...)
	if v := k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{"far"}}); v.Records() != 1000 {
		t.Errorf("%d records compared, want 1000", v.Records())
	}
	k.stop(t)
}
