// Package filelock keeps processes apart by locks on files. The kernel drops a
// lock with the process that holds it, also at kill -9, so a lock that can be
// taken means that its owner is gone or done.
package filelock
