package checkpoints

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"

	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// Lease tells whether this process may write, and until when.
type Lease interface {
	Held(topic string, partition int32) (until time.Time, ok bool)
}

// Copies tells where the copies of a link lie. Obligations: what it tells is
// acknowledged by the target, and rises with the source offset; exact.None and false
// where it does not know. It may be asked at any time.
type Copies interface {
	Translate(topic string, partition int32, srcOffset int64) exact.Answer
	// LastRun is the last row of copies of a partition.
	LastRun(topic string, partition int32) (exact.Run, bool)
}

// Source lists the source's topics, asked anew at every call: an answer says that it
// is alive.
type Source interface {
	ListTopics(ctx context.Context) ([]string, error)
}

// Options are what a Task needs. All but Commits and Now are required.
type Options struct {
	Link string
	// Policy names the topics of the flow.
	Policy mm2.Policy
	// Client is the task's alone. Its producer must ask for acks from all in-sync
	// replicas, keep the order of records that are sent again, and leave the choice of
	// partitions to the caller.
	Client *kgo.Client
	// Commits are those that groups have on the source; ok is false while they are not
	// known here. nil is that the link carries no groups over.
	Commits func() (all []Commit, ok bool)
	Copies  Copies
	Source  Source
	// Topics are the link's topics as in its report. Nothing is written for a link
	// without one in checkpoint mode.
	Topics func() []state.Topic
	Lease  Lease
	// Interval is the least time between two looks at all groups, and Heartbeat
	// that between two heartbeats.
	Interval, Heartbeat time.Duration
	Logger              *slog.Logger
	Meter               metric.Meter
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}
