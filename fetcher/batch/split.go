package batch

import (
	"encoding/binary"
	"slices"
)

// Magic returns the format version of an entry (0, 1 or 2), as Split returns
// them; -1 where the bytes are too few to tell.
func Magic(entry []byte) int8 {
	if len(entry) <= magicAt {
		return -1
	}
	return int8(entry[magicAt])
}

// CodecOf returns how the records of a whole entry of any magic are compressed;
// CodecNone where the bytes are too few to tell.
func CodecOf(entry []byte) Codec {
	at := oldAttributesAt
	if !isOld(entry) {
		at = attributesAt + 1
	}
	if len(entry) <= at {
		return CodecNone
	}
	return Codec(entry[at] & codecMask)
}

// oldAttributesAt is where the attributes of a message of magic 0 or 1 are.
const oldAttributesAt = 17

// Split cuts the records field of a Fetch answer into whole entries: v2 batches
// and message-set entries of magic 0 and 1, in log order. They share memory
// with records, and their capacity ends with them.
//
// A broker cuts its answer by size and not by batch, so the last entry may be
// partial: it is returned as rest, however long it says it is, and is no error.
// Fetching again from the offset after the last whole entry brings it whole.
//
// An entry that cannot be (a length below that of its header, an unknown
// magic) ends the walk with ErrMalformed; whole then holds the entries before
// it, and rest begins with it.
func Split(records []byte) (whole [][]byte, rest []byte, err error) {
	for {
		entry, rest, err := First(records)
		if err != nil || entry == nil {
			return whole, rest, err
		}
		if len(whole) == cap(whole) {
			whole = slices.Grow(whole, LikelyEntries(records))
		}
		whole, records = append(whole, entry), rest
	}
}

// First is one step of Split: it cuts off the first entry. There is none, and no
// error, where what is left is partial or nothing: rest is then all of it.
func First(records []byte) (entry, rest []byte, err error) {
	if len(records) <= magicAt {
		return nil, records, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(records[lengthAt:])))
	magic := int8(records[magicAt])
	switch {
	case magic < 0 || magic > currentMagic:
		return nil, records, malformed("magic %d", magic)
	case magic == currentMagic && length < minV2Length, length < oldMinBytes:
		return nil, records, malformed("length %d of an entry of magic %d", length, magic)
	}
	size := length + entryOverhead
	if size > int64(len(records)) {
		return nil, records, nil
	}
	return records[:size:size], records[size:], nil
}

// LikelyEntries guesses how many entries the records field of a Fetch answer
// holds, from the size of the first: what is small usually has neighbours of its
// size. At least one, and at most mostGuessed, since that is memory.
func LikelyEntries(records []byte) int {
	if len(records) <= magicAt {
		return 1
	}
	size := int64(int32(binary.BigEndian.Uint32(records[lengthAt:]))) + entryOverhead
	return min(1+int(int64(len(records))/max(size, oldMinBytes+entryOverhead)), mostGuessed)
}

const mostGuessed = 4 << 10
