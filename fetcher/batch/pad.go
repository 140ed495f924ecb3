package batch

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

// MaxPadCount is the most records that a pad batch holds. A broker keeps about
// 70 bytes for each record of a compressed batch while it validates it
// (LogValidator), under the partition's lock: 17 MiB and a few hundredths of a
// second for this many.
const MaxPadCount = 250_000

// PadOptions say what pad batches look like.
type PadOptions struct {
	// Codec of the batches. A record takes 0.6 to 0.8 bytes with zstd, 1.4 with
	// gzip, 4.0 with lz4 or snappy and 9.0 uncompressed: of the last kind no more
	// than 116,000 fit the default limit of a batch (DefaultMaxBatchBytes).
	//
	// A consumer by Sarama stalls at a batch that has more records than bytes
	// after its header, which zstd makes: such pads must be deleted before
	// anybody reads them.
	Codec Codec
	// Timestamp is every record's CreateTime in milliseconds. An old one lets
	// the target's time-based retention remove the pads as well.
	Timestamp int64
}

// DefaultPadOptions are what padding that is trimmed afterwards uses: zstd, and
// the first millisecond of 1970 that no reader takes for "none".
func DefaultPadOptions() PadOptions { return PadOptions{Codec: CodecZstd, Timestamp: 1} }

// Pad builds a batch of count records with null key and null value, ready for
// Patch (B6). count lies between 1 and MaxPadCount. An unknown codec gives
// ErrCodec.
func Pad(count int32, opt PadOptions) ([]byte, error) {
	if count < 1 || count > MaxPadCount {
		return nil, fmt.Errorf("pad batch of %d records: not between 1 and %d", count, MaxPadCount)
	}
	scratch := takeBuffer()
	defer scratch.release()
	payload := appendPayload(nil, Record{})
	var dst []byte
	if opt.Codec == CodecNone {
		dst = make([]byte, 0, HeaderLen+int(count)*(len(payload)+recordOverhead))
	}
	b := newBuilder(dst, opt.Codec, scratch)
	for range count {
		b.add(opt.Timestamp, payload)
	}
	return b.seal(dst, scratch)
}

// maxPadsBytes is what a Pads keeps beside the batch asked for last: that is 20
// batches of MaxPadCount by zstd, where a run of padding needs one large batch
// and one for its remainder.
const maxPadsBytes = 4 << 20

// Pads hands out copies of pad batches and keeps those it built: building takes
// some 100 ns a record, copying and patching a thousandth of that. It is safe
// for concurrent use.
type Pads struct {
	opt PadOptions

	mu    sync.Mutex // guards what follows
	kept  []keptPad  // the one used last comes first
	bytes int        // of all kept
}

type keptPad struct {
	count int32
	batch []byte // never changed
}

// NewPads returns a Pads whose batches are as opt says.
func NewPads(opt PadOptions) *Pads { return &Pads{opt: opt} }

// Append appends to dst a pad batch of count records, the caller's own, ready
// for Patch. The errors are those of Pad; dst is then returned as it was given.
func (p *Pads) Append(dst []byte, count int32) ([]byte, error) {
	b := p.find(count)
	if b == nil {
		var err error
		if b, err = Pad(count, p.opt); err != nil {
			return dst, err
		}
		b = bytes.Clone(b) // seal leaves room that would be kept with it
		p.keep(keptPad{count, b})
	}
	return append(dst, b...), nil
}

// find returns the batch kept for count, nil if there is none.
func (p *Pads) find(count int32) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.kept, func(k keptPad) bool { return k.count == count })
	if i < 0 {
		return nil
	}
	found := p.kept[i]
	copy(p.kept[1:i+1], p.kept[:i])
	p.kept[0] = found
	return found.batch
}

// keep adds a batch, and drops those that were not used for longest while all
// take more than maxPadsBytes. Two callers may have built the same one at once:
// then the first one stays.
func (p *Pads) keep(pad keptPad) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.kept, func(k keptPad) bool { return k.count == pad.count }) {
		return
	}
	p.kept = slices.Insert(p.kept, 0, pad)
	for p.bytes += len(pad.batch); p.bytes > maxPadsBytes && len(p.kept) > 1; {
		last := len(p.kept) - 1
		p.bytes -= len(p.kept[last].batch)
		p.kept[last].batch = nil
		p.kept = p.kept[:last]
	}
}
