package fill

import "time"

// Settings are the times and sizes of fills. What is 0 takes its default.
type Settings struct {
	// SettleTime is how long a log end must stand still before a marker in doubt
	// counts as settled. It must not be below the lease's session timeout with
	// its margin, nor below the time after which a broker has surely carried out
	// a request that it took. 30 s.
	SettleTime time.Duration
	// PollTime is the longest pause between looks at a log end. 1 s.
	PollTime time.Duration
	// BulkMarkers bounds one request: each marker waits for the followers in its
	// own entry, all under one key. 2,000.
	BulkMarkers int
	// BlockCounters is how many counters are reserved at once. 65,536.
	BlockCounters int32
}

// DefaultSettings is the only home of the defaults.
func DefaultSettings() Settings {
	return Settings{SettleTime: 30 * time.Second, PollTime: time.Second, BulkMarkers: 2000, BlockCounters: 1 << 16}
}

func (s Settings) orDefault() Settings {
	d := DefaultSettings()
	if s.SettleTime <= 0 {
		s.SettleTime = d.SettleTime
	}
	if s.PollTime <= 0 {
		s.PollTime = d.PollTime
	}
	if s.BulkMarkers <= 0 {
		s.BulkMarkers = d.BulkMarkers
	}
	if s.BlockCounters <= 0 {
		s.BlockCounters = d.BlockCounters
	}
	return s
}
