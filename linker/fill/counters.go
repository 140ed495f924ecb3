package fill

import "klink/linker/ledger"

// Counters is what is left of a reserved block of marker counters. The caller
// keeps it between the gaps of one assignment and drops it (the zero value)
// with the assignment, so that every owner begins with a block of its own.
type Counters struct {
	// Next is the first that is free, End the end (exclusive) of the block.
	Next, End int32
}

// Left is how many counters are free.
func (c Counters) Left() int32 { return max(0, c.End-c.Next) }

// Used is the part of all counters of the partition that is behind it, 0 to 1.
func (c Counters) Used() float64 { return float64(c.Next) / ledger.CounterLimit }

// Low tells that the counters of the partition come to an end: beyond it gaps
// cannot be filled any more (UNFILLABLE).
func (c Counters) Low() bool { return c.Used() >= warnFrom }

// warnFrom leaves time: at a marker every 100 ms the last fifth takes two
// months.
const warnFrom = 0.8
