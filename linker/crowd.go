package linker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// crowdWindow is how long the same move of other partitions is only counted
// after one was logged.
const crowdWindow = 10 * time.Second

// crowd keeps the log readable when a cluster goes away or comes back: the
// first partition to make a move is logged in full, the others that make the
// same move within crowdWindow are counted and told in one line.
type crowd struct {
	log *slog.Logger

	mu    sync.Mutex // guards moves
	moves map[string]*crowdMove
}

type crowdMove struct {
	level   slog.Level
	msg     string
	since   time.Time
	further int
}

func newCrowd(log *slog.Logger) *crowd { return &crowd{log: log, moves: make(map[string]*crowdMove)} }

// admits reports whether a move is to be logged by itself.
func (c *crowd) admits(level slog.Level, msg, reason string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := msg + " " + reason
	m := c.moves[key]
	if m == nil {
		c.moves[key] = &crowdMove{level: level, msg: msg, since: now}
		return true
	}
	m.further++
	return false
}

// tell logs what was only counted, once its window is over.
func (c *crowd) tell(now time.Time) {
	c.mu.Lock()
	var done []*crowdMove
	for key, m := range c.moves {
		if now.Sub(m.since) >= crowdWindow {
			delete(c.moves, key)
			if m.further > 0 {
				done = append(done, m)
			}
		}
	}
	c.mu.Unlock()
	for _, m := range done {
		c.log.Log(context.Background(), m.level, m.msg+", and further partitions with it", "partitions", m.further)
	}
}
