package batch

import (
	"encoding/binary"
	"fmt"
)

// Marker is the end of a transaction as it stands in a log (KIP-98): a control
// batch, written for a transaction or by WriteTxnMarkers.
type Marker struct {
	// Base is the marker's offset.
	Base int64
	// ProducerID and ProducerEpoch are those of the transaction it ends. Since
	// transaction.version 2 (KIP-890) the epoch is one above that of the data.
	ProducerID    int64
	ProducerEpoch int16
	// HeaderOnly: the log cleaner removed the record and kept the header for the
	// producer's sake. How the transaction ended is known no more: Commit and
	// CoordinatorEpoch mean nothing then.
	HeaderOnly bool
	// Commit tells a committed transaction from an aborted one.
	Commit bool
	// CoordinatorEpoch is that of the transaction coordinator which wrote the
	// marker, or whatever stood for it in WriteTxnMarkers.
	CoordinatorEpoch int32
	// Timestamp in milliseconds, by the broker's clock.
	Timestamp int64
}

// The types of control records that end a transaction (ControlRecordType).
const (
	controlAbort  = 0
	controlCommit = 1
)

// ParseMarker returns the marker that the whole v2 batch b is. Its CRC is
// checked first (B4).
//
// A data batch, and a control batch of another kind (KRaft writes such ones),
// give ErrNotMarker. Versions of the record's key and value above 0 are read as
// version 0, which they extend, and what follows the fields known here is
// skipped: so ControlRecordType and EndTransactionMarker have it.
func ParseMarker(b []byte) (Marker, error) {
	var h Header
	err := openBatch(&h, b)
	if err != nil {
		return Marker{}, err
	}
	if !h.IsControl() {
		return Marker{}, fmt.Errorf("%w: a data batch at offset %d", ErrNotMarker, h.BaseOffset)
	}
	m := Marker{Base: h.BaseOffset, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, Timestamp: h.MaxTimestamp}
	if h.LastOffsetDelta != 0 {
		return Marker{}, fmt.Errorf("%w: control records at offsets %d to %d", ErrNotMarker, h.BaseOffset, h.LastOffset())
	}
	for r, err := range Records(b, Limits{MaxUncompressedBytes: maxMarkerBytes}) {
		if err != nil {
			return Marker{}, err
		}
		m.Timestamp = r.Timestamp
		if err := m.read(r); err != nil {
			return Marker{}, fmt.Errorf("control record at offset %d: %w", h.BaseOffset, err)
		}
	}
	m.HeaderOnly = h.Count == 0
	return m, nil
}

// maxMarkerBytes bounds a marker's record, which takes 17 bytes in version 0.
const maxMarkerBytes = 64 << 10

// read takes the fields of the control record. Key: version int16, type int16.
// Value: version int16, coordinator epoch int32.
func (m *Marker) read(r Record) error {
	const keyBytes, valueBytes = 4, 6
	be := binary.BigEndian
	if len(r.Key) < keyBytes {
		return malformed("key of %d bytes", len(r.Key))
	}
	if version := int16(be.Uint16(r.Key)); version < 0 {
		return malformed("key of version %d", version)
	}
	kind := int16(be.Uint16(r.Key[2:]))
	if kind != controlAbort && kind != controlCommit {
		return fmt.Errorf("%w: control type %d", ErrNotMarker, kind)
	}
	if len(r.Value) < valueBytes {
		return malformed("value of %d bytes", len(r.Value))
	}
	if version := int16(be.Uint16(r.Value)); version < 0 {
		return malformed("value of version %d", version)
	}
	m.Commit = kind == controlCommit
	m.CoordinatorEpoch = int32(be.Uint32(r.Value[2:]))
	return nil
}
