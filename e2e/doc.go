// Package e2e holds whole-system tests: klink as a process of its own or through
// app.Run, between clusters from cmd/lab, most of them real Kafka.
//
// Every test ends in the digest of both sides, read by an ordinary consumer
// that shares nothing with the mirror; none passes on counts or end offsets
// alone. Heavy checks have two sizes from one table (sizes.go): short ones in
// make test, long ones in make soak; the code and the assertions are the same.
package e2e
