package demo

import (
	"context"
	"log/slog"
	"sync"

	"klink/cmd/config"
	"klink/cmd/telemetry"
)

// logger shows klink's warnings between the lines of the story, of each message
// only the first: the states of all partitions stand in the progress anyway.
func (s *story) logger() *slog.Logger {
	all := telemetry.NewLogger(s.view.logs(), config.Log{Level: config.LevelWarn, Format: config.FormatText})
	return slog.New(first{all.Handler(), &said{messages: map[string]bool{}}})
}

// first handles the first record of each message.
type first struct {
	slog.Handler
	said *said
}

// said is the messages that have been handled, by all handlers that stem from
// one.
type said struct {
	mu       sync.Mutex // guards messages
	messages map[string]bool
}

func (h first) Handle(ctx context.Context, r slog.Record) error {
	h.said.mu.Lock()
	again := h.said.messages[r.Message]
	h.said.messages[r.Message] = true
	h.said.mu.Unlock()
	if again {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h first) WithAttrs(a []slog.Attr) slog.Handler { return first{h.Handler.WithAttrs(a), h.said} }
func (h first) WithGroup(n string) slog.Handler      { return first{h.Handler.WithGroup(n), h.said} }
