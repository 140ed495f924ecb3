package e2e

import (
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/linker/appender"
	gapfill "klink/linker/fill"
	"klink/linker/ledger"
)

// stored is what stands at an offset: data, or a marker with its counter.
type stored struct {
	data    bool
	reason  ledger.Reason
	counter int32
}

// fillWriter writes data and fills gaps in turn, and knows what must be there.
type fillWriter struct {
	*fillTarget
	want     []stored
	sequence int32
	trust    gapfill.Trust
	counters gapfill.Counters
	gaps     int
	faults   int // fills that ended early
}

// data appends n records, with the next sequence, and like klink looks at the
// log end where it is not told that they are there.
func (w *fillWriter) data(ctx context.Context, n int) error {
	end := int64(len(w.want))
	for {
		r := w.a.Append(ctx, w.target, sequenced(end, n, w.sequence), end)
		w.trust = gapfill.Trust{Known: r.Outcome == appender.Appended, LeaderEpoch: r.Leader.Epoch}
		at, err := end+int64(n), error(nil)
		if r.Outcome != appender.Appended {
			at, err = w.end(ctx)
		}
		switch {
		case err != nil:
			return fmt.Errorf("data at offset %d: %s: %w", end, r.Outcome, errors.Join(r.Err, err))
		case at == end:
			continue
		case at != end+int64(n):
			return fmt.Errorf("data at offset %d: %s, base %d, and the log ends at %d: %w", end, r.Outcome, r.Base, at, r.Err)
		}
		w.sequence += int32(n)
		w.want = append(w.want, slices.Repeat([]stored{{data: true}}, n)...)
		return nil
	}
}

// end reads the log end once all is replicated.
func (w *fillWriter) end(ctx context.Context) (int64, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		e, err := w.Ends(ctx)
		if err == nil && e.LogEnd == e.HighWatermark {
			return e.LogEnd, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("no final log end: %+v: %w", e, errors.Join(ctx.Err(), err))
		}
	}
}

// gap fills n offsets; every other one begins with a look at the log end. A fill
// that ends at a fault is followed by one for what is left, as in klink.
func (w *fillWriter) gap(ctx context.Context, n int64) (doubts int64, err error) {
	end := int64(len(w.want)) + n
	set := gapfill.Settings{SettleTime: 1500 * time.Millisecond, PollTime: 250 * time.Millisecond, BulkMarkers: 20}
	if n == wideGap {
		set.BulkMarkers = 0 // the default
		// A busy broker may rest for seconds in the middle of such a request.
		set.SettleTime = 4 * time.Second
	}
	if w.gaps++; w.gaps%2 == 0 {
		w.trust = gapfill.Trust{}
	}
	f := gapfill.Filler{Ports: w, Settings: set}
	g := gapfill.Gap{Expect: end - n, Runs: runsOf(n), Trust: w.trust}
	for _, run := range g.Runs {
		w.want = append(w.want, slices.Repeat([]stored{{reason: run.Reason}}, int(run.Count))...)
	}
	for {
		r := f.Fill(ctx, ctx, g, w.counters)
		w.counters = r.Counters
		doubts += r.Doubts
		switch {
		case r.Err == nil && r.End == end && !r.InDoubt:
			return doubts, nil
		case r.Err == nil || r.Reason != "" && !r.Reason.Remote():
			return doubts, fmt.Errorf("filled from %d to %d of %d, in doubt %t: %s %w", g.Expect, r.End, end, r.InDoubt, r.Reason, r.Err)
		}
		w.faults++
		at, err := w.end(ctx)
		if err == nil && (at < g.Expect || at > end) {
			err = fmt.Errorf("the log ends at %d, the gap at %d", at, end)
		}
		if err != nil {
			return doubts, errors.Join(err, r.Err)
		}
		if at == end {
			return doubts, nil // what was in doubt is there
		}
		g = gapfill.Gap{Expect: at, Runs: runsFrom(g.Runs, at-g.Expect), Doubt: r.InDoubt}
	}
}

// runsFrom leaves out the first n offsets.
func runsFrom(runs []ledger.Run, n int64) (left []ledger.Run) {
	for _, r := range runs {
		skip := min(n, r.Count)
		if n -= skip; r.Count > skip {
			left = append(left, ledger.Run{Count: r.Count - skip, Reason: r.Reason})
		}
	}
	return left
}

// runsOf divides a gap: records of an aborted transaction, its marker, and what
// a cleaner took.
func runsOf(n int64) []ledger.Run {
	all := []ledger.Run{{Count: n / 3, Reason: ledger.Aborted}, {Count: 1, Reason: ledger.Marker},
		{Count: n - n/3 - 1, Reason: ledger.Compacted}}
	return slices.DeleteFunc(all, func(r ledger.Run) bool { return r.Count == 0 })
}

// requireStored compares offset by offset; counters only rise.
func requireStored(got, want []stored) error {
	if len(got) != len(want) {
		return fmt.Errorf("the log ends at %d, want %d", len(got), len(want))
	}
	last := int32(-1)
	for at, s := range got {
		if s.data != want[at].data || s.reason != want[at].reason {
			return fmt.Errorf("offset %d: data %t, reason %s; want data %t, reason %s", at, s.data, s.reason, want[at].data, want[at].reason)
		}
		if s.data {
			continue
		}
		if s.counter <= last {
			return fmt.Errorf("offset %d: counter %d after %d", at, s.counter, last)
		}
		last = s.counter
	}
	return nil
}

// readStored reads a log by raw Fetch, from its start to its end, which must be
// at rest by now. Data must hold their own offsets.
func readStored(ctx context.Context, k *lab.Kafka, t appender.Target, atLeast int64) (got []stored, err error) {
	cl, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for {
		leader, _, err := lab.Leader(ctx, k, lab.Partition{Topic: t.Topic, Number: t.Partition})
		if err != nil {
			return nil, err
		}
		p, err := fetchStored(ctx, cl.Broker(int(leader)), t, int64(len(got)))
		if err == nil {
			got, err = appendStored(got, p.RecordBatches)
		}
		if err != nil || p.ErrorCode == 0 && int64(len(got)) >= max(atLeast, p.HighWatermark) {
			return got, err
		}
	}
}

func fetchStored(ctx context.Context, from *kgo.Broker, t appender.Target, at int64) (p kmsg.FetchResponseTopicPartition, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = t.Topic, t.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = t.Partition, at, 1<<20
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = -1, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, from)
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = fmt.Errorf("no answer about %s/%d: error code %d", t.Topic, t.Partition, resp.ErrorCode)
	}
	if err != nil {
		return p, err
	}
	return resp.Topics[0].Partitions[0], nil
}

// appendStored adds what whole batches hold.
func appendStored(got []stored, raw []byte) ([]stored, error) {
	for len(raw) > 12 {
		size := 12 + int(enc.BigEndian.Uint32(raw[8:]))
		if size > len(raw) {
			break
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(raw[:size]); err != nil {
			return got, err
		}
		if raw = raw[size:]; b.FirstOffset != int64(len(got)) || b.ProducerID != appenderPID || b.ProducerEpoch != 0 {
			return got, fmt.Errorf("a batch at offset %d of producer %d, epoch %d", b.FirstOffset, b.ProducerID, b.ProducerEpoch)
		}
		for rest := b.Records; len(rest) > 0; {
			length, n := enc.Varint(rest)
			var rec kmsg.Record
			if err := rec.ReadFrom(rest[:n+int(length)]); err != nil {
				return got, err
			}
			s, err := readOne(rec, int64(len(got)), b.Attributes&0x20 != 0)
			if err != nil {
				return got, err
			}
			got, rest = append(got, s), rest[n+int(length):]
		}
	}
	return got, nil
}

func readOne(rec kmsg.Record, at int64, control bool) (stored, error) {
	if !control {
		if string(rec.Value) != fmt.Sprint(at) {
			return stored{}, fmt.Errorf("record %q", rec.Value)
		}
		return stored{data: true}, nil
	}
	var key kmsg.ControlRecordKey
	var marker kmsg.EndTxnMarker
	if err := errors.Join(key.ReadFrom(rec.Key), marker.ReadFrom(rec.Value)); err != nil {
		return stored{}, err
	}
	if key.Type != kmsg.ControlRecordKeyTypeCommit {
		return stored{}, fmt.Errorf("a marker of type %v", key.Type)
	}
	counter, reason := ledger.SplitEpoch(marker.CoordinatorEpoch)
	return stored{reason: reason, counter: counter}, nil
}
