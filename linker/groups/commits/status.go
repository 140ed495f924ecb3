package commits

import (
	"time"

	"klink/linker/state"
)

// State is how much of the topic is followed.
type State string

// The states of a Follower.
const (
	// Starting: the ends of the log are being looked up.
	Starting State = "STARTING"
	// Following: every partition is read as it grows.
	Following State = "FOLLOWING"
	// Unavailable: the topic, or some of its partitions, cannot be read; it is
	// tried again. Groups of the others are followed all the same.
	Unavailable State = "UNAVAILABLE"
)

// Status is a Follower as it is now.
type Status struct {
	State State
	// Reason and Detail say why it is UNAVAILABLE; the missing right is in Detail.
	Reason state.Reason
	Detail string
	// Since is when State became what it is.
	Since time.Time
	// Partitions of the topic (0 while unknown), and how many of them are read.
	Partitions, Following int
	// Behind is how many offsets of the log were known to be there and not read
	// when each partition last answered.
	Behind int64
	// Open is the number of transactions whose end is awaited.
	Open int
	// Unknown counts records since the start of which the version or the bytes
	// were not understood.
	Unknown int64
}
