package mm2

// LagDefault is offset.lag.max where it is not set.
const LagDefault = 100

// Emitter decides which copied records of one source partition MirrorMaker 2
// writes syncs for (OffsetSyncWriter; the delayed ones since 3.7, KAFKA-15906). It
// lives as long as a source task.
type Emitter struct {
	lag              int64
	lastUp, lastDown int64
	syncDown         int64
	delayed          bool
}

// NewEmitter returns that of a task that just started. lag is offset.lag.max, 0
// or more target offsets.
func NewEmitter(lag int64) *Emitter {
	return &Emitter{lag: lag, lastUp: -1, lastDown: -1, syncDown: -1}
}

// Copied takes in that the record at source offset up was acknowledged at target
// offset down, and tells whether a sync of it is written at once.
func (e *Emitter) Copied(up, down int64) bool {
	now := e.syncDown == -1 || down-(e.syncDown+1) >= e.lag || up-e.lastUp != 1 || down < e.lastDown
	if now {
		e.syncDown = down
	}
	e.lastUp, e.lastDown = up, down
	e.delayed = !now
	return now
}

// CopiedRun takes in that count records from source offset up on were acknowledged
// at target offset down and those after it, one after the other, and calls emit for
// each sync that is written at once. It is as if Copied were called for each, and
// takes time for the syncs alone.
func (e *Emitter) CopiedRun(up, down, count int64, emit func(up, down int64)) {
	for at := int64(0); at < count; at = e.syncDown + 1 + e.lag - down {
		if at > 0 {
			e.lastUp, e.lastDown = up+at-1, down+at-1
		}
		if e.Copied(up+at, down+at) {
			emit(up+at, down+at)
		}
	}
	if last := count - 1; last > 0 && e.lastUp != up+last {
		e.lastUp, e.lastDown, e.delayed = up+last, down+last, true
	}
}

// Flush gives the sync that Connect's commit writes, every offset.flush.interval.ms
// (60 s) and after each transaction: that of the last record, unless it was written.
func (e *Emitter) Flush() (up, down int64, ok bool) {
	if !e.delayed {
		return 0, 0, false
	}
	e.delayed = false
	return e.lastUp, e.lastDown, true
}
