package kafka

import (
	"context"
	"log/slog"
)

// quiet lets kgo's lines through at debug level only: while a cluster is down
// kgo repeats itself at each try, and klink logs the episode itself. kgo's own
// debug lines, several per request, are dropped.
type quiet struct{ slog.Handler }

// Enabled reports whether a line of kgo's would be written.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the line at debug level and keeps kgo's level beside it.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, slog.LevelDebug, r.Message, r.PC)
	line.AddAttrs(slog.String("kgo_level", r.Level.String()))
	r.Attrs(func(a slog.Attr) bool { line.AddAttrs(a); return true })
	return q.Handler.Handle(ctx, line)
}

// WithAttrs returns a quiet handler with attributes.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup returns a quiet handler with a group.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
