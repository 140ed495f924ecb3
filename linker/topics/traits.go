package topics

import (
	"math"
	"time"
)

// Traits are what mirroring has to know of a topic's settings.
type Traits struct {
	// Known is false where the settings could not be read; then all else is
	// zero.
	Known bool
	// Compacts and Deletes: cleanup.policy includes compact, delete.
	Compacts, Deletes bool
	// TombstonesFor is delete.retention.ms: a mirror that was away for longer
	// may have missed tombstones of a topic that compacts.
	TombstonesFor time.Duration
	// Retention is retention.ms and RetentionBytes retention.bytes, per
	// partition; -1 is no limit.
	Retention      time.Duration
	RetentionBytes int64
	// AppendTime is true where records carry the broker's time
	// (message.timestamp.type=LogAppendTime).
	AppendTime bool
}

// Traits reads the settings. One that the cluster did not tell is taken for what
// Kafka has by default.
func (s Settings) Traits() Traits {
	if s == nil {
		return Traits{}
	}
	t := Traits{Known: true, Deletes: true, TombstonesFor: 24 * time.Hour, Retention: 7 * 24 * time.Hour, RetentionBytes: -1,
		AppendTime: s[keyTimestamps].Value == "LogAppendTime"}
	if c, ok := s[keyCleanup]; ok {
		t.Compacts, t.Deletes = compacts(c.Value), deletes(c.Value)
	}
	if n, ok := number(s[keyTombstones].Value); ok {
		t.TombstonesFor = millis(n)
	}
	if n, ok := number(s[keyRetainMs].Value); ok {
		t.Retention = millis(n)
	}
	if n, ok := number(s[keyRetainSize].Value); ok {
		t.RetentionBytes = n
	}
	return t
}

// millis is a setting in milliseconds; -1 stays -1, and what is too long for a
// Duration, some 292 years, becomes the longest.
func millis(n int64) time.Duration {
	switch {
	case n < 0:
		return -1
	case n > math.MaxInt64/int64(time.Millisecond):
		return math.MaxInt64
	default:
		return time.Duration(n) * time.Millisecond
	}
}

// OnRecord picks the settings that have to be remembered of a source topic: its
// own values of what is forced on the target while it mirrors, which come into
// force there at promotion, and of what is followed (T6). Nil where s is.
func (s Settings) OnRecord() Settings {
	if s == nil {
		return nil
	}
	out := make(Settings)
	for _, keys := range [][]string{forced, followed} {
		for _, k := range keys {
			if v, ok := s[k]; ok {
				out[k] = v
			}
		}
	}
	return out
}
