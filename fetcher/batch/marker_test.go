package batch

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
)

// markerShape is that of a marker of producer 700, epoch 3.
var markerShape = batchShape{attributes: transactionalBit | controlBit, identity: Identity{700, 3}, sequence: -1}

// controlBatch returns a control batch of one record at offset 41.
func controlBatch(tb testing.TB, shape batchShape, key, value []byte) []byte {
	tb.Helper()
	return oracleEncode(tb, []Record{{Offset: 41, Timestamp: 1234, Key: key, Value: value}}, shape)
}

func controlKey(version, kind int16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(version)), uint16(kind))
}

func controlValue(version int16, epoch int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, uint16(version)), uint32(epoch))
}

func TestParseMarker(t *testing.T) {
	horizon, zipped, appendTime := markerShape, markerShape, markerShape
	horizon.attributes |= deleteHorizonBit
	horizon.horizon = 9_999_999
	zipped.codec = CodecZstd
	appendTime.attributes |= logAppendTimeBit
	appendTime.maxTime = 5678
	marker := func(commit bool, epoch int32) Marker {
		return Marker{Base: 41, ProducerID: 700, ProducerEpoch: 3, Commit: commit, CoordinatorEpoch: epoch, Timestamp: 1234}
	}
	later := marker(true, 6)
	later.Timestamp = 5678
	for name, tc := range map[string]struct {
		b    []byte
		want Marker
	}{
		"commit":              {controlBatch(t, markerShape, controlKey(0, 1), controlValue(0, 6)), marker(true, 6)},
		"abort":               {controlBatch(t, markerShape, controlKey(0, 0), controlValue(0, 6)), marker(false, 6)},
		"no coordinator":      {controlBatch(t, markerShape, controlKey(0, 1), controlValue(0, -1)), marker(true, -1)},
		"last counter":        {controlBatch(t, markerShape, controlKey(0, 1), controlValue(0, 1<<31-1)), marker(true, 1<<31-1)},
		"later key version":   {controlBatch(t, markerShape, append(controlKey(1, 1), 9), controlValue(0, 6)), marker(true, 6)},
		"later value version": {controlBatch(t, markerShape, controlKey(0, 1), append(controlValue(2, 6), 1, 2)), marker(true, 6)},
		"delete horizon":      {controlBatch(t, horizon, controlKey(0, 1), controlValue(0, 6)), marker(true, 6)},
		"compressed":          {controlBatch(t, zipped, controlKey(0, 1), controlValue(0, 6)), marker(true, 6)},
		"append time":         {controlBatch(t, appendTime, controlKey(0, 1), controlValue(0, 6)), later},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseMarker(tc.b); err != nil || got != tc.want {
				t.Fatalf("%+v, %v\nwanted %+v", got, err, tc.want)
			}
		})
	}
}

// The bytes of a record as brokers were seen to write it.
func TestParseMarkerOfBrokersRecord(t *testing.T) {
	record, err := hex.DecodeString("20000000" + "0800000001" + "0c000000000007" + "00")
	if err != nil {
		t.Fatal(err)
	}
	b := plainBatch(1, 0, record)
	b[attributesAt+1] = transactionalBit | controlBit
	resealCRC(b)
	if got, err := ParseMarker(b); err != nil || !got.Commit || got.CoordinatorEpoch != 7 || len(b) != 78 {
		t.Fatalf("%+v, %v, %d bytes", got, err, len(b))
	}
}

// What the log cleaner leaves of a marker: the header alone.
func TestParseMarkerOfHeaderOnly(t *testing.T) {
	h := Header{
		BaseOffset: 41, Length: minV2Length, Magic: 2, Attributes: transactionalBit | controlBit,
		FirstTimestamp: -1, MaxTimestamp: 1234, ProducerID: 700, ProducerEpoch: 3, BaseSequence: -1,
	}
	b := make([]byte, HeaderLen)
	h.put(b)
	resealCRC(b)
	want := Marker{Base: 41, ProducerID: 700, ProducerEpoch: 3, HeaderOnly: true, Timestamp: 1234}
	if got, err := ParseMarker(b); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestParseMarkerRefuses(t *testing.T) {
	commit, value := controlKey(0, 1), controlValue(0, 6)
	damaged := controlBatch(t, markerShape, commit, value)
	damaged[len(damaged)-3] ^= 1
	two := oracleEncode(t, []Record{{Offset: 41, Key: commit, Value: value}, {Offset: 42, Key: commit, Value: value}}, markerShape)
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"data":              {oracleEncode(t, jsonRecords(0, 1, 9), batchShape{attributes: transactionalBit}), ErrNotMarker},
		"leader change":     {controlBatch(t, markerShape, controlKey(0, 2), value), ErrNotMarker},
		"negative type":     {controlBatch(t, markerShape, controlKey(0, -1), value), ErrNotMarker},
		"two records":       {two, ErrNotMarker},
		"damaged":           {damaged, ErrCRC},
		"null key":          {controlBatch(t, markerShape, nil, value), ErrMalformed},
		"short key":         {controlBatch(t, markerShape, commit[:3], value), ErrMalformed},
		"null value":        {controlBatch(t, markerShape, commit, nil), ErrMalformed},
		"short value":       {controlBatch(t, markerShape, commit, value[:5]), ErrMalformed},
		"key version -1":    {controlBatch(t, markerShape, controlKey(-1, 1), value), ErrMalformed},
		"value version -1":  {controlBatch(t, markerShape, commit, controlValue(-1, 6)), ErrMalformed},
		"old format":        {oldBytes(1, 5, nil, []byte("v"), CodecNone), ErrOldFormat},
		"nothing":           {nil, ErrMalformed},
		"cut":               {controlBatch(t, markerShape, commit, value)[:70], ErrMalformed},
		"unsound record":    {unsoundControl(), ErrMalformed},
		"hostile and zstd":  {hostileControl(t), ErrLimit},
		"no record but one": {resized(controlBatch(t, markerShape, commit, value), 0), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseMarker(tc.b); !errors.Is(err, tc.want) || got != (Marker{}) {
				t.Fatalf("%+v, %v; wanted %v", got, err, tc.want)
			}
		})
	}
}

func unsoundControl() []byte {
	b := plainBatch(1, 0, []byte{1, 2, 3})
	b[attributesAt+1] = controlBit
	resealCRC(b)
	return b
}

func hostileControl(tb testing.TB) []byte {
	tb.Helper()
	shape := markerShape
	shape.codec = CodecZstd
	return controlBatch(tb, shape, controlKey(0, 1), make([]byte, 1<<20))
}

// resized returns b with another count of records.
func resized(b []byte, count int32) []byte {
	binary.BigEndian.PutUint32(b[countAt:], uint32(count))
	resealCRC(b)
	return b
}

// Every control batch of the fixtures is a marker of a transaction.
func TestFixturesMarkers(t *testing.T) {
	outcomes := map[bool]int{}
	for _, f := range loadFixtures(t) {
		for i, b := range f.batches {
			m, err := ParseMarker(b)
			if !f.headers[i].IsControl() {
				if !errors.Is(err, ErrNotMarker) {
					t.Fatalf("%s: a data batch is %+v, %v", f.name, m, err)
				}
				continue
			}
			if err != nil || m.Base != f.headers[i].BaseOffset || m.ProducerID != f.headers[i].ProducerID || m.CoordinatorEpoch < 0 {
				t.Fatalf("%s: %+v, %v", f.name, m, err)
			}
			if !m.HeaderOnly {
				outcomes[m.Commit]++
			}
		}
	}
	if outcomes[true] == 0 || outcomes[false] == 0 {
		t.Fatalf("%v", outcomes)
	}
}
