package appender

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// identityTag versions the computation: another formula needs another tag, and
// partitions written under the old one must be adopted, never just resumed.
const identityTag = "klink producer id 1"

// idBase is above every id a broker hands out: those count up from 0.
const idBase = int64(1) << 62

// ProducerID computes the producer id of a mirrored partition, in [2^62,
// 2^62 + 2^61). Two klinks that mirror the same partition compute the same id,
// so the target's sequence check serialises them from the first batch on.
// generation counts how often the mirror was begun anew on purpose.
func ProducerID(clusterID string, topicID [16]byte, partition int32, generation int32) int64 {
	// Variable parts carry their length, so that no two inputs hash alike.
	b := make([]byte, 0, 96)
	for _, part := range []string{identityTag, clusterID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = append(b, topicID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	b = binary.BigEndian.AppendUint32(b, uint32(generation))
	sum := sha256.Sum256(b)
	return idBase | int64(binary.BigEndian.Uint64(sum[:8])>>3)
}

// Computed reports whether a producer id is one of ProducerID's, of whatever mirror:
// no broker hands out such a one.
func Computed(id int64) bool { return id >= idBase }

// NextSequence returns the sequence after a batch of count records that began
// at first. Sequences count modulo 2^31 (DefaultRecordBatch.incrementSequence).
func NextSequence(first, count int32) int32 {
	return int32((uint32(first) + uint32(count)) & math.MaxInt32)
}
