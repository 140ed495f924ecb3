package plan

// GapWay is how offsets are kept that hold no visible record on the source.
type GapWay int

// The ways. The zero value writes nothing.
const (
	// FillHalt: a gap halts the partition as UNFILLABLE.
	FillHalt GapWay = iota
	// FillMarkers: transaction markers, which no consumer sees.
	FillMarkers
	// FillRecords: repeats of the next surviving record, on compacted topics
	// only, where a repeat is an upsert that changes nothing. Consumers see
	// them. On other topics a gap halts the partition as UNFILLABLE.
	FillRecords
)

// String returns the way's name as in the configuration key gap_fill.
func (w GapWay) String() string { return [...]string{"halt", "markers", "records"}[w] }

// OverrunWay is what happens where the source deleted offsets before they were
// mirrored.
type OverrunWay int

// The ways. The zero value writes nothing.
const (
	// HaltOverrun: the partition halts as RETENTION_OVERRUN.
	HaltOverrun OverrunWay = iota
	// PadOverrun: the lost offsets are padded over and the target is trimmed to
	// the source's start.
	PadOverrun
)

// String returns the way's name as in the configuration key
// on_retention_overrun.
func (w OverrunWay) String() string { return [...]string{"halt", "pad"}[w] }

// Policy is what the link's configuration and the topic's nature decide. The
// zero value halts at everything that is not a plain record.
type Policy struct {
	Gaps GapWay
	// Compaction is Compacted where the source's cleaner may have removed records
	// at any time, also when the topic is not compacted any more (P6). See
	// ShowsCompaction.
	Compaction Compaction
	Overrun    OverrunWay
	// PadLimit is the most offsets that may be padded at once, the configuration
	// key pad_limit; at 0 nothing is.
	PadLimit int64
}

// repeats tells whether gaps become repeats of the next surviving record.
func (p Policy) repeats() bool { return p.Gaps == FillRecords && p.Compaction == Compacted }
