package pad

import (
	"time"

	"klink/fetcher/batch"
)

// Settings are sizes and times of padding. What is 0 takes its default.
type Settings struct {
	// PieceOffsets is how many pads a batch holds. 200,000: some 160 KB by zstd,
	// and some 14 MiB of the broker's heap while it checks them. At most
	// batch.MaxPadCount.
	PieceOffsets int32
	// ChunkOffsets is how many pads may be untrimmed. 10 million: some 8 MB.
	ChunkOffsets int64
	// Checkpoints is twice the target's
	// log.flush.start.offset.checkpoint.interval.ms: how long after a trim it may
	// come undone. 2 minutes.
	Checkpoints time.Duration
	// SettleTime is how long a log end must stand still before a piece in doubt
	// counts as settled. It must not be below the lease's session timeout with its
	// margin. 30 s.
	SettleTime time.Duration
	// PollTime is the pause between looks at something that is waited for. 1 s.
	PollTime time.Duration
	// SegmentTime is the target topic's segment.ms. 7 days.
	SegmentTime time.Duration
}

// DefaultSettings is the only home of the defaults.
func DefaultSettings() Settings {
	return Settings{PieceOffsets: 200_000, ChunkOffsets: 10_000_000, Checkpoints: 2 * time.Minute,
		SettleTime: 30 * time.Second, PollTime: time.Second, SegmentTime: 7 * 24 * time.Hour}
}

func (s Settings) orDefault() Settings {
	d := DefaultSettings()
	if s.PieceOffsets <= 0 {
		s.PieceOffsets = d.PieceOffsets
	}
	s.PieceOffsets = min(s.PieceOffsets, batch.MaxPadCount)
	if s.ChunkOffsets <= 0 {
		s.ChunkOffsets = d.ChunkOffsets
	}
	if s.Checkpoints <= 0 {
		s.Checkpoints = d.Checkpoints
	}
	if s.SettleTime <= 0 {
		s.SettleTime = d.SettleTime
	}
	if s.PollTime <= 0 {
		s.PollTime = d.PollTime
	}
	if s.SegmentTime <= 0 {
		s.SegmentTime = d.SegmentTime
	}
	return s
}
