// Package app is klink's command line: it reads arguments, loads the
// configuration, builds the daemon from its parts and prints results.
//
// Invariants:
//
//	A1  Run never exits the process and never touches its signals; main does.
//	A2  Results go to out, everything else to errOut; an error is printed once,
//	    by Run, and its exit code is chosen there.
//	A3  Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 differences
//	    found, 4 refused because it would lose data.
//	A4  argv is checked and put in order before the cli library sees it: flags
//	    count wherever they stand, and a word that begins with - is never a topic.
package app
