package comparator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"klink/fetcher/batch"
)

// Print is what is kept of a visible record while two logs are compared: 40
// bytes, whatever the record's size.
type Print struct {
	Offset    int64
	Timestamp int64 // in milliseconds, -1 for none
	// Sum is a hash of everything but the offset, Key one of the key. Both are
	// keyed with a secret of the run (C4).
	Sum, Key uint64
	// Keyless records have a null key, tombstones a null value.
	Keyless, Tombstone bool
}

// Printer makes prints. Those of one Printer, and of copies made by Again, can
// be compared with each other. It is not safe for concurrent use.
type Printer struct {
	seed maphash.Seed
	buf  []byte
}

// NewPrinter returns a Printer with a new secret.
func NewPrinter() *Printer { return &Printer{seed: maphash.MakeSeed()} }

// Again returns another Printer with the same secret.
func (p *Printer) Again() *Printer { return &Printer{seed: p.seed} }

// Of returns a record's print. The sum is a hash of fixed fields: the time, and
// for each part of the record its length (-1 for null) and hash, so that no byte
// of it is copied.
func (p *Printer) Of(r batch.Record) Print {
	key := maphash.Bytes(p.seed, r.Key)
	b := binary.BigEndian.AppendUint64(p.buf[:0], uint64(r.Timestamp))
	b = appendPart(b, r.Key, key)
	b = appendPart(b, r.Value, maphash.Bytes(p.seed, r.Value))
	for _, h := range r.Headers {
		b = appendPart(b, h.Key, maphash.Bytes(p.seed, h.Key))
		b = appendPart(b, h.Value, maphash.Bytes(p.seed, h.Value))
	}
	p.buf = b
	return Print{Offset: r.Offset, Timestamp: r.Timestamp, Sum: maphash.Bytes(p.seed, b), Key: key, Keyless: r.Key == nil, Tombstone: r.Value == nil}
}

func appendPart(dst, part []byte, hash uint64) []byte {
	length := int32(-1)
	if part != nil {
		length = int32(len(part))
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, uint32(length)), hash)
}

// Range is offsets from From up to but not including To.
type Range struct{ From, To int64 }

func (r Range) has(o int64) bool { return o >= r.From && o < r.To }

// Block is a part of one log: a batch, or what is known of it.
type Block struct {
	// Base and Next bound the offsets it stands for; Next is exclusive.
	Base, Next int64
	// Floor is the log start when it was read: what lies below is gone.
	Floor int64
	// Prints are its visible records, in order, once it is decoded.
	Prints []Print
	// Raw is the batch where it is not decoded yet; nil otherwise.
	Raw []byte
	// Records is how many records a raw batch holds, and Shift what its offsets are
	// less than those of the block.
	Records int32
	Shift   int64
}

// decoder turns batches into prints.
type decoder struct {
	printer *Printer
	span    Range
	chain   *batch.Chain // nil: no digest is wanted
	// marks are where the digest can go on, nil for nowhere; marked is the last one.
	marks  *marks
	marked int64
	// copies finds the records that a target's copies are of; nil where these have
	// their offsets. shift is added to offsets.
	copies *locator
	shift  int64
	limits batch.Limits
}

// decode appends the prints of the records of b that lie in the span.
func (d *decoder) decode(dst []Print, b []byte) ([]Print, error) {
	own := d.copies != nil && d.copies.owns(b)
	for r, err := range batch.Records(b, d.limits) {
		if err != nil {
			return dst, fmt.Errorf("decode: %w", err)
		}
		if r.Offset += d.shift; d.copies != nil && !d.copy(&r, own) || !d.span.has(r.Offset) {
			continue
		}
		print := d.printer.Of(r)
		dst = append(dst, print)
		if d.copies != nil {
			d.copies.copied(r.Offset, print.Sum)
		}
		if d.chain != nil {
			d.marks.made(r.Offset, d.chain, &d.marked)
			d.chain.Add(r)
		}
	}
	return dst, nil
}

// copy gives a copy the offset of its record. What is none is counted.
func (d *decoder) copy(r *batch.Record, own bool) bool {
	source, ok := d.copies.source(r.Offset)
	if !ok {
		d.copies.stray(r.Offset, source, d.printer.Of(*r).Sum, own)
		return false
	}
	r.Offset = source
	return true
}

// alike reports whether two batches that begin at the same offset are the same records
// without a look inside: their headers agree in all that a record's place and
// time follow from, and the payloads are the same bytes, whose checksum holds.
// The producer's fields and the transactional bit may differ.
func alike(a, b []byte) bool {
	x, err := batch.ParseHeader(a)
	if err != nil {
		return false
	}
	y, err := batch.ParseHeader(b)
	if err != nil {
		return false
	}
	same := x.LastOffsetDelta == y.LastOffsetDelta && x.Count == y.Count &&
		x.FirstTimestamp == y.FirstTimestamp && x.MaxTimestamp == y.MaxTimestamp && x.Codec() == y.Codec() &&
		x.LogAppendTime() == y.LogAppendTime() && x.HasDeleteHorizon() == y.HasDeleteHorizon()
	return same && bytes.Equal(a[batch.HeaderLen:], b[batch.HeaderLen:]) && batch.CheckCRC(b) == nil
}
