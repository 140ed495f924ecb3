package telemetry

import (
	"io"
	"log/slog"

	"klink/cmd/config"
)

var levels = map[config.Level]slog.Level{
	config.LevelDebug: slog.LevelDebug,
	config.LevelInfo:  slog.LevelInfo,
	config.LevelWarn:  slog.LevelWarn,
	config.LevelError: slog.LevelError,
}

// NewLogger writes lines of at least c.Level to w, in the format asked for.
func NewLogger(w io.Writer, c config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: levels[c.Level]}
	if c.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
