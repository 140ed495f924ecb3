package config

import "time"

// Default returns a Config without links; every other key has its default (C1).
func Default() Config {
	return Config{
		Limits: Limits{FetchMemory: 32 * MiB},
		HTTP:   HTTP{Listen: "127.0.0.1:8466"},
		Log:    Log{Level: LevelInfo, Format: FormatText},
	}
}

// DefaultLink returns a link with every default; name, brokers and
// topics.include have none.
func DefaultLink() Link {
	return Link{
		Mode: ModeMirror,
		Groups: Groups{
			Tail:     TailAuto,
			Interval: time.Second,
		},
		Start:              StartEarliest,
		FollowStart:        true,
		GapFill:            GapFillAuto,
		PadLimit:           2_000_000_000,
		OnUnmirrorable:     UnmirrorableHalt,
		OnRetentionOverrun: OverrunHalt,
		Limits:             LinkLimits{ConnectionsPerBroker: 2},
		Audit:              Audit{BytesPerSecond: 10 * MiB},
		Checkpoint: Checkpoint{
			ReplicationPolicy: PolicyDefault,
			Separator:         ".",
			Interval:          5 * time.Second,
			HeartbeatInterval: time.Second,
		},
	}
}
