// Package plan decides what to do with the next source batches, given the
// target's log end. It is pure: values in, values out; no I/O, no clock, no
// goroutines. The partition loop in package linker acts on its Steps.
//
// A source log is seen as a row of offsets: each holds a record that a
// read_committed consumer sees, or is a gap with a reason (package ledger).
//
//	Next     what to do with the batches of a fetch
//	Pieces   how a batch with holes lies between its neighbours
//	Tail     what it means that nothing comes
//	Overrun  what to do where the source deleted what was wanted
//	StartAt  where an empty target begins
//
// Invariants:
//
//	P1  A Step that writes covers exactly the offsets [Base, End) with
//	    Base == the target's log end. Every offset of an Append or Merge holds a
//	    record that a read_committed consumer of the source sees, none of a Fill
//	    does; of a Recode the records decoded tell which is which (Pieces). A
//	    Repeat may end below End: see there.
//	P2  What cannot be carried with its offsets is a Halt step that names the
//	    offset; no step skips or shifts an offset.
//	P3  Steps are taken strictly in log order; one Step never spans two source
//	    leader epochs, so that lineage can be recorded ahead of it. Offsets that
//	    no batch covers count to the batch behind them, as do those of a Repeat: a
//	    fetch from among them with an older epoch would look like one of a
//	    truncated log (KIP-595), with a later one it does not.
//	P4  Deciding is a function of its arguments alone: the same log gives the
//	    same offsets and, filled with markers, the same reasons after any
//	    restart and however it was cut into fetches.
//	P5  The Runs of a Fill are in log order, none empty, neighbours of unlike
//	    reasons, and their counts add up to End-Base, which is at most
//	    Limits.MaxFillOffsets. What is longer takes several steps; the step after
//	    one that ended inside a batch begins inside it.
//	P6  Offsets that no batch covers are filled only on topics whose cleaner may
//	    have run. On any other they are CORRUPT, whatever the way of filling.
package plan
