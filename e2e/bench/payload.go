package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"klink/fetcher/batch"
)

// payload gives values that compress like ordinary ones: lz4 to a little over a
// half, zstd to two fifths. It is read only once made.
type payload struct{ pool []byte }

// poolBytes is so large that the values of one batch hardly ever overlap.
const poolBytes = 16 << 20

func newPayload() payload {
	const hexDigits = "0123456789abcdef"
	words := []string{`{"customer":"`, `","amount":`, `,"currency":"EUR","city":"Dresden","street":"`, `"},`}
	rng := rand.New(rand.NewPCG(1, 2))
	pool := make([]byte, 0, poolBytes+200)
	for i := 0; len(pool) < poolBytes; i++ {
		pool = append(pool, words[i%len(words)]...)
		pool = append(pool, words[(i+1)%len(words)]...)
		for range 15 {
			pool = append(pool, hexDigits[rng.IntN(len(hexDigits))])
		}
		for range 13 {
			pool = append(pool, byte(rng.Uint32()))
		}
	}
	return payload{pool: pool[:poolBytes]}
}

// batch makes the nth batch of a partition as a producer without an id sends it.
func (p payload) batch(w workload, partition int32, n int64) ([]byte, error) {
	made, err := batch.Encode(p.records(w, partition, n), batch.RecodeOptions{Codec: w.codecOf(n)})
	if err != nil {
		return nil, err
	}
	if len(made) != 1 {
		return nil, fmt.Errorf("a batch of %d records became %d", w.batchRecords, len(made))
	}
	return made[0].Bytes, nil
}

// records have keys that tell each from every other.
func (p payload) records(w workload, partition int32, n int64) iter.Seq2[batch.Record, error] {
	now := time.Now().UnixMilli()
	rng := rand.New(rand.NewPCG(uint64(partition), uint64(n)))
	return func(yield func(batch.Record, error) bool) {
		for i := range int64(w.batchRecords) {
			at := rng.IntN(len(p.pool) - w.valueBytes)
			offset := n*int64(w.batchRecords) + i
			r := batch.Record{Offset: offset, Timestamp: now, Key: fmt.Appendf(nil, "%d-%d", partition, offset), Value: p.pool[at : at+w.valueBytes]}
			if !yield(r, nil) {
				return
			}
		}
	}
}
