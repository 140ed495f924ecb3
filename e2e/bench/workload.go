package main

import (
	"fmt"
	"slices"
	"time"

	"klink/fetcher/batch"
)

// kind is how a workload is measured.
type kind int

const (
	throughput kind = iota
	latency         // a steady stream, and consumers on both sides
	startup         // the time to the first record, topics not yet there
	keeping         // offsets that are not all records
	idling          // everything is mirrored and nothing comes
	switching       // a steady stream, a group that commits, and the source is killed
	recoding        // batches that have to be written anew
	comparing       // both sides hold the log, and are compared
)

// logKind is what a workload's source holds.
type logKind int

const (
	plainLog   logKind = iota // records at every offset
	holeLog                   // compacted: nothing is left between the first record and the last ones
	farLog                    // one that begins far above 0
	streamsLog                // a commit marker behind every batch
)

// workload is a log to mirror, in equal batches of equal records. In a hole or
// before a far start the records are offsets without any.
type workload struct {
	name         string
	kind         kind
	partitions   int32
	records      amount // about: whole batches in every partition
	valueBytes   int
	batchRecords int
	codec        batch.Codec
	other        batch.Codec   // of every second batch; CodecNone is the same
	rtt          time.Duration // between the mirror and the source
	log          logKind
	appendTime   bool // the source's broker writes its own time over the records'
}

const (
	// distance is what a mirror far from its source has between them.
	distance = 50 * time.Millisecond
	kib      = 1 << 10
)

// workloads are all there are. The long sizes give a well-tuned MirrorMaker 2
// work for a minute on two cores.
var workloads = []workload{
	{name: "W1", partitions: 1, records: amount{64 * kib, 4096 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "W2", partitions: 8, records: amount{128 * kib, 6144 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "W3", partitions: 8, records: amount{64 * kib, 4096 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecNone},
	{name: "W4", partitions: 8, records: amount{20_000, 2_400_000}, valueBytes: 200, batchRecords: 1, codec: batch.CodecNone},
	{name: "W5", partitions: 8, records: amount{64 * kib, 4096 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecZstd},
	{name: "P1000", partitions: 1000, records: amount{200_000, 2_000_000}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "latency", kind: latency, partitions: 4, valueBytes: 200},
	{name: "start", kind: startup, partitions: 8, records: amount{8_000, 8_000}, valueBytes: 200, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "idle", kind: idling, partitions: 1000, records: amount{100_000, 100_000}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "failover", kind: switching, partitions: 4, valueBytes: 200, codec: batch.CodecLZ4},
	{name: "R8", partitions: 8, records: amount{64 * kib, 6144 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4, rtt: distance},
	{name: "R100", partitions: 100, records: amount{64 * kib, 6144 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4, rtt: distance},
	{name: "fill", kind: keeping, log: holeLog, partitions: 1, records: amount{20_000, 1_500_000}},
	{name: "pad", kind: keeping, log: farLog, partitions: 1, records: amount{10_000_000, 100_000_000}},
	{name: "streams1", kind: keeping, log: streamsLog, partitions: 1, records: amount{20_000, 2_400_000}, valueBytes: 200, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "streams8", kind: keeping, log: streamsLog, partitions: 8, records: amount{40_000, 8_000_000}, valueBytes: 200, batchRecords: 100, codec: batch.CodecLZ4},
	{name: "recode", kind: recoding, partitions: 8, records: amount{64 * kib, 2048 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4, other: batch.CodecSnappy, appendTime: true},
	{name: "compare", kind: comparing, partitions: 8, records: amount{32 * kib, 1024 * kib}, valueBytes: kib, batchRecords: 100, codec: batch.CodecLZ4},
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

func workloadNamed(name string) workload {
	return workloads[slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })]
}

// topic is the workload's name in the clusters.
func (w workload) topic() string { return "bench-" + w.name }

// batches is how many each partition gets.
func (w workload) batches(long bool) int64 {
	return max(1, w.records.of(long)/int64(w.partitions)/int64(w.batchRecords))
}

// total is how many records that makes.
func (w workload) total(long bool) int64 {
	return w.batches(long) * int64(w.partitions) * int64(w.batchRecords)
}

// codecOf is how a partition's nth batch is compressed.
func (w workload) codecOf(n int64) batch.Codec {
	if w.other != batch.CodecNone && n%2 == 1 {
		return w.other
	}
	return w.codec
}

// about says in a few words what the log is.
func (w workload) about() string {
	switch {
	case w.kind == latency:
		return "5,000 records/s of 200 B, lz4, linger 5 ms"
	case w.kind == idling:
		return plural(int64(w.partitions), "partition") + ", all mirrored, nothing produced"
	case w.kind == switching:
		return "5,000 records/s of 200 B, one group that commits every second; the source is killed by SIGKILL, and the group goes on at the target"
	case w.kind == startup:
		return "8 partitions, topic not yet on the target"
	case w.log == holeLog:
		return plural(int64(w.partitions), "partition") + ", compacted: all offsets between the first record and the last ones hold none, and are filled with markers"
	case w.log == farLog:
		return plural(int64(w.partitions), "partition") + " that begins far above 0; the offsets before are padded"
	}
	codec := "uncompressed"
	if w.codec != batch.CodecNone {
		codec = w.codec.String()
	}
	if w.other != batch.CodecNone {
		codec += " and " + w.other.String() + " in turn"
	}
	text := fmt.Sprintf("%s, %s, batches of %s with %d B each", plural(int64(w.partitions), "partition"), codec, plural(int64(w.batchRecords), "record"), w.valueBytes)
	if w.log == streamsLog {
		text += ", a commit marker behind each"
	}
	if w.appendTime {
		text += ", with the broker's time"
	}
	if w.rtt > 0 {
		text += fmt.Sprintf(", %d ms round trip to the source", w.rtt.Milliseconds())
	}
	return text
}
