package commits

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// key is what a commit is about.
type key struct {
	group, topic string
	partition    int32
}

// kind is what a record of __consumer_offsets is about.
type kind uint8

const (
	// unknownRecord: of a type or version newer than this code, or damaged.
	unknownRecord kind = iota
	// otherRecord: known, and nothing about an offset.
	otherRecord
	// offsetRecord: a committed offset or, without a value, its deletion.
	offsetRecord
)

// The number that a key begins with: the version of the key of old, the type of
// the record since Kafka 4.0 (CoordinatorRecordType).
const (
	// legacyOffsetKey (0.8.2) and offsetKey have the same fields.
	legacyOffsetKey int16 = 0
	offsetKey       int16 = 1
	// groupKey is GroupMetadataKey, the members of a classic group. Its tombstone
	// says that there is no such classic group any more, which is no word about
	// offsets: a group that becomes one of KIP-848 writes it and keeps them
	// (GroupMetadataManager.convertToConsumerGroup), and one that is deleted has
	// written a tombstone for each offset before it.
	groupKey int16 = 2
	// lastKnownKey ends the types of KIP-848, KIP-932 and KIP-1071 groups, 3 to 24
	// in Kafka 4.3, none of which holds a committed offset.
	lastKnownKey int16 = 24
)

// lastKnownValue is the newest version of OffsetCommitValue, the first flexible
// one (KIP-915).
const lastKnownValue int16 = 4

// version reads the number that keys and values begin with; -1 where there is
// none.
func version(b []byte) int16 {
	if len(b) < 2 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(b))
}

// parseKey tells what a record is about, and for an offset the key. It shares no
// memory with b.
func parseKey(b []byte) (key, kind) {
	switch v := version(b); {
	case v == legacyOffsetKey || v == offsetKey:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(b); err != nil || k.Partition < 0 {
			return key{}, unknownRecord
		}
		return key{k.Group, k.Topic, k.Partition}, offsetRecord
	case v >= groupKey && v <= lastKnownKey:
		return key{}, otherRecord
	default:
		return key{}, unknownRecord
	}
}

// parseValue reads an offset and its metadata; ok is false for what is not
// understood. The fields that a mirror has no use for (leader epoch, time of the
// commit, its expiry, topic id) are dropped. An offset below 0 is what an
// administrator may write to take a commit back, and reads as Deleted. The
// metadata shares no memory with b.
func parseValue(b []byte) (offset int64, metadata string, ok bool) {
	if v := version(b); v < 0 || v > lastKnownValue {
		return 0, "", false
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(b); err != nil {
		return 0, "", false
	}
	if v.Offset < 0 {
		return Deleted, "", true
	}
	return v.Offset, v.Metadata, true
}
