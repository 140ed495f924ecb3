package contrast

import (
	"context"
	"time"

	"klink/cmd/lab"
)

// Cluster is one side of a mode's run.
type Cluster interface {
	lab.Cluster
	// Bootstrap are the addresses that a mirror is given.
	Bootstrap() []string
}

// Mode is a way to mirror.
type Mode interface {
	// Name is unique among the modes of a run.
	Name() string
	// Promise is what it promises; a breach is a finding.
	Promise() Promise
	// Patience is the longest time that a group's commit may take to the target by
	// the mode's settings.
	Patience() time.Duration
	// Start begins to mirror. It returns as soon as something runs.
	Start(ctx context.Context, j Job) (Mirror, error)
}

// Job is what a mode is to mirror.
type Job struct {
	// Name is of [a-z0-9-], and no other run's on these clusters.
	Name           string
	Source, Target Cluster
	Topics, Groups []string
}

// Mirror is a mode at work.
type Mirror interface {
	// Ended is closed when it ends by itself; Err then tells why.
	Ended() <-chan struct{}
	Err() error
	// TargetTopic is the name of a topic's copy.
	TargetTopic(topic string) string
	// Move does, now that the source is gone, what the mode asks an operator to do
	// before consumers go on at the target.
	Move(ctx context.Context) error
	// Resume tells where a group goes on at the target, by target offsets and the
	// source's topic names. A partition that is missing has no place to go on.
	Resume(ctx context.Context, group string) (map[lab.Partition]int64, error)
	// Usage is what it has used so far.
	Usage() (Usage, error)
	// Stop ends it, and takes away what it alone has left behind. Later calls do
	// nothing.
	Stop() error
}

// Usage is what a mirror has used since its start.
type Usage struct {
	CPU        time.Duration // of all cores
	PeakMemory int64         // bytes, resident
}

// Promise is what a mode promises of a switch; the zero value promises nothing.
type Promise struct {
	// NothingLost: of what lies before the last record that was copied, all was
	// copied, but for what compaction may take.
	NothingLost bool `json:"nothing_lost"`
	// NothingTwice: no record was copied twice, none of an aborted transaction can be
	// seen, and copies stand in order.
	NothingTwice bool `json:"nothing_twice"`
	// SameOffsets: each copy stands at its record's offset.
	SameOffsets bool `json:"same_offsets"`
	// NothingReadAgain: a group whose commits had the mode's time to be carried over
	// goes on exactly where it stopped.
	NothingReadAgain bool `json:"nothing_read_again"`
}

// Stage is the pair of clusters of one mode's run.
type Stage struct {
	Source, Target Cluster
	// Prefix is before the name of each topic and group of the run.
	Prefix string
	// Clean makes the source's cleaner pass over a compacted topic, and returns when
	// it has; nil where that cannot be ordered.
	Clean func(ctx context.Context, topic string) error
	// Kill ends the source for good; nil where it may not be killed: then the groups
	// move in that moment all the same.
	Kill func(ctx context.Context) error
	// Close ends both clusters, or takes away what was made on them.
	Close func() error
}
