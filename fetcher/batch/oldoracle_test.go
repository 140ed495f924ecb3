package batch

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// oracleOldDecode reads an entry of magic 0 or 1 message by message, with the
// structs of kmsg and the codecs of kgo.
func oracleOldDecode(entry []byte) ([]Record, error) {
	outer, magic, attributes, err := oracleOldMessage(entry)
	if err != nil || attributes&7 == 0 {
		return []Record{outer}, err
	}
	if outer.Value == nil || attributes&7 > 3 {
		return nil, errors.New("oracle: wrapper")
	}
	set, err := oracleDecompressor.Decompress(outer.Value, kgo.CompressionCodecType(attributes&7))
	if err != nil {
		return nil, err
	}
	var records []Record
	for len(set) > 0 {
		if len(set) < 12 {
			return nil, errors.New("oracle: message set")
		}
		size := 12 + int(int32(binary.BigEndian.Uint32(set[8:])))
		if size < 12 || size > len(set) {
			return nil, errors.New("oracle: size")
		}
		r, innerMagic, innerAttributes, err := oracleOldMessage(set[:size])
		if err != nil || innerAttributes&7 != 0 {
			return nil, errors.New("oracle: inner message")
		}
		if magic == 1 && innerMagic == 1 && attributes&8 != 0 {
			r.Timestamp = outer.Timestamp
		}
		records, set = append(records, r), set[size:]
	}
	if len(records) == 0 {
		return nil, errors.New("oracle: no messages")
	}
	if magic == 1 {
		for i, last := 0, records[len(records)-1].Offset; i < len(records); i++ {
			records[i].Offset += outer.Offset - last
		}
	}
	return records, nil
}

func oracleOldMessage(b []byte) (r Record, magic, attributes int8, err error) {
	if len(b) < 18 {
		return r, 0, 0, errors.New("oracle: short message")
	}
	if crc32.ChecksumIEEE(b[16:]) != binary.BigEndian.Uint32(b[12:]) {
		return r, 0, 0, errors.New("oracle: crc")
	}
	if b[16] == 0 {
		var m kmsg.MessageV0
		err = m.ReadFrom(b)
		return Record{Offset: m.Offset, Timestamp: -1, Key: m.Key, Value: m.Value}, 0, m.Attributes, err
	}
	var m kmsg.MessageV1
	err = m.ReadFrom(b)
	return Record{Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value}, 1, m.Attributes, err
}

// oldShape says what an entry of old format looks like beside its records.
type oldShape struct {
	magic      byte
	innerMagic byte
	codec      Codec
	attributes byte  // of the wrapper, beside the codec
	appendTime int64 // the wrapper's timestamp
	relative   int64 // what the first inner offset of magic 1 counts from 0
}

// oldEncode returns records, without headers, as one compressed entry.
func oldEncode(tb rapid.TB, records []Record, s oldShape) []byte {
	tb.Helper()
	shift := int64(0)
	if s.magic == 1 {
		shift = s.relative - records[0].Offset
	}
	var set []byte
	for _, r := range records {
		set = append(set, oldBytesAt(s.innerMagic, r.Offset+shift, r.Timestamp, r.Key, r.Value)...)
	}
	last := records[len(records)-1].Offset
	b := oldBytesAt(s.magic, last, s.appendTime, nil, kgoCompress(tb, s.codec, set))
	b[17] = byte(s.codec) | s.attributes
	resealOld(b)
	return b
}

// oldBytesAt is oldBytes with a timestamp, uncompressed.
func oldBytesAt(magic byte, offset, timestamp int64, key, value []byte) []byte {
	b := oldBytes(magic, offset, key, value, CodecNone)
	if magic == 1 {
		binary.BigEndian.PutUint64(b[18:], uint64(timestamp))
		resealOld(b)
	}
	return b
}
