package main

import (
	"context"
	"fmt"
	"maps"
	"syscall"
	"time"

	"klink/fetcher/batch"
)

// recoding measures how much processor time it takes to write batches anew: by
// itself, in this process, and as a part of all that klink does when it mirrors a
// log of such batches.
func (b *bench) recoding(ctx context.Context, j job, held loaded, round int) (map[string]float64, error) {
	alone := map[string]float64{}
	data := newPayload()
	for n, figure := range []string{recodeLZ4, recodeSnappy} {
		rate, err := recodeRate(data, j.workload, int64(n))
		if err != nil {
			return nil, err
		}
		alone[figure] = rate
	}
	values, err := b.throughput(ctx, j, held, round)
	if err != nil {
		return nil, err
	}
	unpacked, err := unpackedBytes(data, j.workload)
	if err != nil {
		return nil, err
	}
	packed := float64(held.wireBytes) / float64(held.records) * float64(j.workload.batchRecords)
	values[wholeRecode] = 1000 * ratio(float64(unpacked)/packed, values[mirrorCPU])
	maps.Copy(values, alone)
	return values, nil
}

// unpackedBytes is what the records of one batch take uncompressed.
func unpackedBytes(data payload, w workload) (int, error) {
	w.codec, w.other = batch.CodecNone, batch.CodecNone
	b, err := data.batch(w, 0, 0)
	return len(b) - batch.HeaderLen, err
}

const (
	// recodeTime is the processor time that one rate is taken over: the kernel
	// counts it in ticks.
	recodeTime = 300 * time.Millisecond
	// recodeTries are taken for the median.
	recodeTries = 5
)

// recodeRate is how many MB of uncompressed records are written anew in a second
// of processor time, for a batch with the broker's time like the workload's nth.
// Other load of the machine hardly touches it.
func recodeRate(data payload, w workload, n int64) (float64, error) {
	b, err := data.batch(w, 0, n)
	if err != nil {
		return 0, err
	}
	setAttribute(b, appendTimeBit)
	unpacked, err := unpackedBytes(data, w)
	if err != nil {
		return 0, err
	}
	opt := batch.RecodeOptions{Codec: batch.CodecOf(b)}
	var rates []float64
	for range recodeTries {
		begun, done, took := ownTime(), 0, time.Duration(0)
		for took < recodeTime {
			if _, err := batch.Recode(b, opt); err != nil {
				return 0, fmt.Errorf("recode: %w", err)
			}
			done += unpacked
			took = ownTime() - begun
		}
		rates = append(rates, float64(done)/1e6/took.Seconds())
	}
	return median(rates), nil
}

// ownTime is the user and system time of this process, more finely than /proc
// tells it.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other cause than a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
