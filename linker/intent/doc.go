// Package intent is what operators want of a link and its topics: the commands
// that they gave, and what follows from them. It is pure: no I/O, no clock.
//
// A command states whole facts and carries the running number that its link had
// reached when it was given. Of one number one command counts; package control
// finds out which. So whoever gives a command has seen all that came before it,
// or learns that another one was quicker and looks again: that is how two
// operators with opposite commands never both have their way.
//
// What is wanted is folded from the commands that count, and from nothing else.
// Whatever runs obeys it: a worker that starts reads it before it writes to any
// partition, so a pause or a promotion survives every restart.
//
// Invariants:
//
//	N1  Fold depends on the commands that count alone; a command that may not be
//	    given where it stands changes nothing.
//	N2  Nothing leaves Stopped but Reverse, Recreate and Remove; after Reverse,
//	    Adopt does too.
//	N3  A command counts for all of its topics or for none.
//	N4  A link's pause leaves what is wanted of its topics as it is, and a resume
//	    of the link brings it back.
//	N5  A topic's fence never falls.
package intent
