package groups

import (
	"context"
	"time"

	"klink/linker/control"
	"klink/linker/groups/commits"
	"klink/linker/intent"
	"klink/translate/exact"
)

// Store is the control topic. Obligations: those of control.Store.
type Store interface {
	Topics(link string) []control.TopicRecord
	Commands(link string) []intent.Command
	Intents(link string) intent.Intents
	// CatchUp returns once all that was in the log when it began is read.
	CatchUp(ctx context.Context) error
	// Changed is closed at the next change of what was read.
	Changed() <-chan struct{}
	Group(link, group string) (control.GroupRecord, bool)
	Groups(link string) []control.GroupRecord
	PutGroups(ctx context.Context, rs []control.GroupRecord) error
	DropGroup(ctx context.Context, link, group string) error
	Acks(link, sourceTopic string) []control.AckRecord
	PutAck(ctx context.Context, r control.AckRecord) error
}

// Translator tells where the copy of a source record lies. Obligations: what it tells
// is acknowledged by the target, rises with the source offset, and never lies beyond
// what was copied; exact.None where it does not know. It may be asked at any time.
type Translator interface {
	Translate(topic string, partition int32, srcOffset int64) exact.Answer
}

// Lease tells whether this process may write, and until when.
type Lease interface {
	Held(topic string, partition int32) (until time.Time, ok bool)
}

// Tail tells of the source's commits as they happen. Obligations: those of
// commits.Follower (O1 to O6).
type Tail interface {
	Run(ctx context.Context) error
	Batches() <-chan commits.Batch
	Status() commits.Status
}
