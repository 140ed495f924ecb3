// Package labtest is the lab for tests: what it starts ends with the test, what
// cannot be started fails it, and a failed test shows the brokers' logs. Only
// test files may import it.
package labtest
