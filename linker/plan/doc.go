// Package plan decides what to do with the next source batches, given the
// target's log end. It is pure: values in, values out; no I/O, no clock, no
// goroutines. The partition loop in package linker acts on its Steps.
//
// Invariants:
//
//	P1  A Step that writes covers exactly the offsets [Base, End) with
//	    Base == the target's log end, and every offset of it holds a record a
//	    read_committed consumer of the source would see.
//	P2  What cannot be carried with its offsets is a Halt step that names the
//	    offset; no step skips or shifts an offset.
//	P3  Steps are taken strictly in log order; one Step never spans two source
//	    leader epochs, so that lineage can be recorded ahead of it.
//	P4  Deciding is a function of its arguments alone: the same log gives the
//	    same offsets after any restart.
package plan
