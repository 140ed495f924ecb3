// Package process runs the programs of the lab (brokers, Java tools) so that
// none of them outlives its parent.
//
// Promises:
//
//	P1  A process started here dies with the one that started it: also when
//	    that one is killed with SIGKILL (on Linux), and also while it is frozen.
//	P2  Each has a process group of its own, so that a Ctrl-C on the terminal
//	    reaches the parent only, which stops its children in order.
//	P3  Done is closed when the process has been waited for; nothing is left
//	    behind as a zombie.
package process
