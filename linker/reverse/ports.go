package reverse

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// Reader reads one cluster once. Every error is a *feed.Fault. Read returns the
// batches from the one that holds from on up to the last stable offset, with the
// aborted transactions among them, and at least one whole batch where the log has
// any there; the receiver releases the chunk.
type Reader interface {
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// Records is what a control topic tells: a control.View, or a control.Store.
type Records interface {
	Report() state.Report
	Link(name string) (control.LinkRecord, bool)
	Topic(link, sourceTopic string) (control.TopicRecord, bool)
	Topics(link string) []control.TopicRecord
	Ledger(link, sourceTopic string, partition int32) (control.LedgerRecord, bool)
	Intents(link string) intent.Intents
	Cuts(link, switchID string) []control.CutRecord
	Group(link, group string) (control.GroupRecord, bool)
}

// Store is an open control topic. The Reverser runs it and closes it.
type Store interface {
	Records
	Run(ctx context.Context) error
	Close()
	CatchUp(ctx context.Context) error
	PutLink(ctx context.Context, r control.LinkRecord) error
	PutTopic(ctx context.Context, r control.TopicRecord) error
	PutLedger(ctx context.Context, r control.LedgerRecord) error
	PutAdopt(ctx context.Context, r control.AdoptRecord) error
	PutGroups(ctx context.Context, rs []control.GroupRecord) error
	PutCommand(ctx context.Context, c intent.Command) error
}

// Side is one of the old link's two clusters.
type Side struct {
	// Admin asks the cluster for topics, log ends, producers, groups and rights. On
	// the old source it also deletes, where a request says so.
	Admin  *kgo.Client
	Reader Reader
	// Records reads the control topic once and writes nothing. A cluster without
	// one gives a *control.Fault with TOPIC_MISSING.
	Records func(ctx context.Context) (Records, error)
	// Open opens the control topic, and makes it where there is none.
	Open func(ctx context.Context) (Store, error)
}

// Options of New. Source and Target are required.
type Options struct {
	// Source and Target are the sides of the old link: Target was promoted, and
	// Source is to become the target.
	Source, Target Side
	// Groups selects the consumer groups whose offsets go back; nil is none.
	Groups func(group string) bool
	// VisibleFills: the old link kept compacted offsets by repeats that consumers
	// see (gap_fill: records).
	VisibleFills bool
	// Version is klink's, for the record.
	Version string
	// By is who asks, as user@host.
	By     string
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Sample is how many offsets below the cut are compared in each partition, with
	// all above it; DefaultSample if not above zero.
	Sample int64
}

// DefaultSample is some batches of each partition: what a lost tail or a foreign
// writer would have changed shows there, and a thousand partitions are compared
// within a minute.
const DefaultSample = 1_000

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Sample <= 0 {
		o.Sample = DefaultSample
	}
	if o.Groups == nil {
		o.Groups = func(string) bool { return false }
	}
}
