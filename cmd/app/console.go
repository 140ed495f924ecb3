package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/user"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// Console is the record of one link on its target, to the commands that give
// orders to whoever mirrors. Nothing is written before Open.
type Console interface {
	// Link is the link as it was last recorded, with every topic that is on record.
	Link() state.Link
	// Mirror is what is on record of a topic's mirror.
	Mirror(sourceTopic string) (control.TopicRecord, bool)
	// Accepted is what was accepted last of a partition: the offsets from (inclusive)
	// to end (exclusive), as the ledger has it on record.
	Accepted(sourceTopic string, partition int32) (from, end int64, ok bool)
	// Wrote tells whether anything is on record of the link having written to a
	// partition's target, or of what counts as if it had.
	Wrote(sourceTopic string, partition int32) bool
	// Commands are those in force, by number.
	Commands() []intent.Command
	// Open makes all that follows possible. It needs Write on the control topic.
	Open(ctx context.Context) error
	// Give writes a command; a *control.LostError says that another one of its
	// number was first.
	Give(ctx context.Context, c intent.Command) error
	// Acks are what running klinks have confirmed of a topic.
	Acks(sourceTopic string) []control.AckRecord
	// Changed is closed at the next change of what the others return.
	Changed() <-chan struct{}
	// Workers counts the members of the link's group on the target: the klinks that
	// run, and for the length of a session those that died.
	Workers(ctx context.Context) (int, error)
	Mirrors
	Close()
}

// Mirrors acts on what belongs to single mirrors. All but Tails and Deletable need
// Open, and what they are about to be mirrored no more.
type Mirrors interface {
	// Tails reads where the logs of a mirror's target topic end, and who wrote there.
	Tails(ctx context.Context, sourceTopic string) ([]Tail, error)
	// Adopt puts on record that the logs count as the mirror's up to some ends.
	Adopt(ctx context.Context, sourceTopic string, ends map[int32]int64) error
	// Deletable is nil where a mirror's target topic is the one on record, or gone. It
	// does not need Open.
	Deletable(ctx context.Context, sourceTopic string) error
	// Delete deletes it where it is Deletable.
	Delete(ctx context.Context, sourceTopic string) error
	// Forget brings the source's settings into force on a mirror's target topic, and
	// takes all that is on record of the mirror off it. The notes say what stayed as
	// it is.
	Forget(ctx context.Context, sourceTopic string) (notes []string, err error)
	// ForgetLink takes the link itself off the record.
	ForgetLink(ctx context.Context) error
}

// newCommand returns a command with what every one has.
func newCommand(link string, verb intent.Verb, next int32) intent.Command {
	return intent.Command{Link: link, Number: next, ID: randomID(), Verb: verb, At: time.Now().UTC(), By: operator()}
}

// randomID tells apart commands of one number.
func randomID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// operator is who gives a command, for those who read of it later.
func operator() string {
	name, host := "unknown", "unknown-host"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
