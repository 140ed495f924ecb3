package main

import "time"

// amount is how much of something a run takes, by size.
type amount struct{ short, long int64 }

func (a amount) of(long bool) int64 {
	if long {
		return a.long
	}
	return a.short
}

func (a amount) seconds(long bool) time.Duration { return time.Duration(a.of(long)) * time.Second }

// The time that a system is measured for, in seconds from the first record. It
// ends earlier where all records are there. MirrorMaker 2 needs a minute until
// its code is compiled; the others are the same from the first second on.
var (
	mm2Box   = amount{short: 20, long: 60}
	quickBox = amount{short: 20, long: 15}
	// Offsets without records are few or come in large steps, and are to be kept
	// to the last one.
	keepingBox = amount{short: 60, long: 120}
)

// Latency runs, in seconds: what passes before samples count, and how long they
// count.
var (
	mm2LatencyWarm   = amount{short: 10, long: 30}
	quickLatencyWarm = amount{short: 3, long: 5}
	latencyMeasured  = amount{short: 5, long: 30}
)

// Idle and failover runs, in seconds: how long nothing comes, what passes before
// that counts, and how long groups are carried before the source is killed.
var (
	idleWarm        = amount{short: 3, long: 10}
	idleMeasured    = amount{short: 5, long: 30}
	failoverCarried = amount{short: 10, long: 60}
)

const (
	// firstRecordLimit is for MirrorMaker 2 on a busy machine, which takes a minute.
	firstRecordLimit = 2 * time.Minute
	// stallLimit ends a run that no longer moves.
	stallLimit = 60 * time.Second
	// stopLimit is what a mirror may take to end in order.
	stopLimit = 10 * time.Second
)
