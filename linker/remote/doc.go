// Package remote holds the one kind of error for "a cluster did not do what it
// was asked": what was tried, the reason in the words of the state table, and
// the missing right where that is it. It is shared by the parts of the linker
// that ask clusters for other things than records.
package remote
