// Package proc reads from Linux's /proc what processes and the machine have used:
// processor time and memory. On other systems there is no such folder, and every
// question ends in an error.
//
// Promise: what cannot be read is an error, and never 0.
package proc
