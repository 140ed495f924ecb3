package linker

import (
	"context"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/drift"
	"klink/linker/intent"
	"klink/linker/state"
	"klink/linker/topics"
	"klink/translate/exact"
)

// Source opens streams on the source cluster. Obligations: F1 to F4 of package
// feed; Open may be called at any time and from any goroutine; a stream keeps
// trying through temporary faults.
type Source interface {
	Open(start feed.Start) feed.Stream
}

// Reader reads either cluster once. Every error is a *feed.Fault. Read returns
// the batches from the one that holds from on, at least one whole batch where
// the log has any at or above from; the receiver releases the chunk.
type Reader interface {
	Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error)
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// Target acts on target partitions. Obligations: Begin never sends a batch
// twice, says Unknown where it cannot tell, and sends none whose predecessor was
// not appended; LogEnds tells the leader's log end beyond the high watermark.
type Target interface {
	Begin(ctx context.Context, t appender.Target, b appender.Batch) *appender.Pending
	LogEnds(ctx context.Context, ts []appender.Target) map[appender.Target]appender.LogEnd
	ProducerState(ctx context.Context, t appender.Target, producerID int64) (appender.ProducerState, error)
	// WriteMarkers and SettleMarkers are for one partition and never retried.
	WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult
	SettleMarkers(ctx context.Context, t appender.Target) error
	Ends(ctx context.Context, ts []appender.Target) map[appender.Target]appender.Ends
	Trim(ctx context.Context, starts map[appender.Target]int64) map[appender.Target]appender.Trimmed
}

// Lineage keeps source leader epochs on the target. PutEpoch returns once the
// cluster acknowledged the record (K3).
type Lineage interface {
	Epochs(link, topic string, partition int32) []control.Epoch
	PutEpoch(ctx context.Context, r control.EpochRecord) error
}

// Records keeps on the target what is known of its gaps and pads. Obligations:
// those of control.Store (C1 to C6).
type Records interface {
	ReserveCounters(ctx context.Context, r control.CounterRequest) (first int32, err error)
	CounterEnd(link, sourceTopic string, sourceID feed.TopicID, partition int32) int32
	PutPad(ctx context.Context, r control.PadRecord) error
	Pad(link, sourceTopic string, partition int32) (control.PadRecord, bool)
	Pads(link, sourceTopic string) []control.PadRecord
	PutLedger(ctx context.Context, r control.LedgerRecord) error
	Ledger(link, sourceTopic string, partition int32) (control.LedgerRecord, bool)
	// Adopt tells which logs count as written by this mirror; see control.AdoptRecord.
	Adopt(link, sourceTopic string) (control.AdoptRecord, bool)
}

// MapKey names the map of one partition. Another topic of that name, on either side,
// has another id, and so another map.
type MapKey struct {
	Link, Topic        string
	SourceID, TargetID feed.TopicID
	Partition          int32
}

// Maps keeps on the target where the copies of records lie that are not at their own
// offsets. Obligations: Map tells what was put last by anyone of the link and
// acknowledged, and gives a map of the caller's own; PutMap and PutCursor return once
// the cluster has acknowledged.
type Maps interface {
	// Map is ok where a cursor was ever put. The map may hold runs that were planned
	// and never written. Without an answer of the cluster it is an error.
	Map(ctx context.Context, k MapKey) (m *exact.Map, cursor drift.Position, ok bool, err error)
	// PutMap replaces the map. It was derived from what Map gave, by cutting its end and
	// adding to it.
	PutMap(ctx context.Context, k MapKey, m *exact.Map) error
	// PutCursor tells up to where the map is known to be right. Its Dst is the end of
	// the last copy.
	PutCursor(ctx context.Context, k MapKey, cursor drift.Position) error
}

// Memory tells whether somebody waits for the fetch budget, so that data which
// cannot be used now should be dropped and read again later.
type Memory interface {
	Contended() bool
}

// Turn tells whether this process may append to a target partition where the target
// may have forgotten the link's producers, so that sequences guard nothing: whoever
// holds its lease may; where no lease can be had, the process that started last. It
// waits where another one has to learn of this one first. Without a rival's name the
// lease is what is missing.
type Turn interface {
	Mine(ctx context.Context, topic string, partition int32) (rival string, mine bool)
}

// Trouble is why a cluster or topic cannot be used now. It is an error.
type Trouble struct {
	Reason state.Reason
	Detail string
	// Hint overrides the reason's fixed one where more is known.
	Hint string
	// OnSource says that it lies on the source's side.
	OnSource bool
	// Final is set where trying again cannot help: the process must end.
	Final error
}

// Error returns the reason and its detail.
func (t *Trouble) Error() string { return string(t.Reason) + ": " + t.Detail }

// Clusters tells which clusters the link's addresses lead to, asked anew at
// every call.
type Clusters interface {
	SourceID(ctx context.Context) (string, *Trouble)
	TargetID(ctx context.Context) (string, *Trouble)
}

// Found is a topic that the link selects.
type Found struct {
	Topic      string
	ID         feed.TopicID
	Partitions int32
	// Target is the name of the topic that mirrors it.
	Target string
	// Compacted is true where the source's cleaner removes records by key, or was
	// once seen to: the holes stay.
	Compacted bool
	// Traits are what its settings mean, as seen now.
	Traits topics.Traits
	// OnRecord are the settings that have to be remembered; "" where they cannot
	// be seen now.
	OnRecord control.Configs
	// Trouble is why it cannot be mirrored as it is.
	Trouble *Trouble
}

// Prepared is a target topic that is ready to be written to, or why not.
type Prepared struct {
	ID [16]byte
	// Created says that it was made by this call.
	Created bool
	// MaxBatchBytes is its max.message.bytes, 0 where it cannot be read.
	MaxBatchBytes int
	// CleanupPolicy is its cleanup.policy, "" where it cannot be read.
	CleanupPolicy string
	// Unfollowed are settings that changed on the source and not yet here.
	Unfollowed []string
	Trouble    *Trouble
}

// Catalog finds the topics on the source and prepares them on the target.
// Obligations: Prepare answers for each topic it is given, never makes fewer
// partitions or replicas than asked for, and never changes what klink has no
// need to force. One topic's trouble is never another's; the *Trouble beside
// the values is about a cluster as a whole.
type Catalog interface {
	// Find tells also of topics that have a target by the link's records, are
	// selected still and are not there any more: with TOPIC_MISSING for their
	// trouble. Of two topics that want one target's name the one on record has it.
	Find(ctx context.Context, records []control.TopicRecord) ([]Found, *Trouble)
	// Existing tells which target topics are there.
	Existing(ctx context.Context, targets []string) (map[string]bool, *Trouble)
	// Prepare returns a Prepared for each source topic's name. It asks what is on
	// record of a source topic after it looked at the target topic.
	Prepare(ctx context.Context, found []Found, recorded func(source string) topics.Recorded) (map[string]Prepared, *Trouble)
	// ExpireProducers is the target's producer.id.expiration.ms, or its stock
	// value of a day where it cannot be read.
	ExpireProducers(ctx context.Context) time.Duration
}

// AuditRequest names a partition on both sides, and up to where it is mirrored.
type AuditRequest struct {
	Src, Dst     feed.Partition
	SrcID, DstID feed.TopicID
	// End is exclusive, and the source's.
	End int64
	// Copies is the map of what was copied in checkpoint mode, nil in mirror mode.
	Copies *exact.Map
}

// Audit compares what is mirrored with its source, by code that mirrors nothing.
// Obligations: it writes nothing, keeps to a rate, ends soon after ctx does, and
// returns an error where it did not read all; that says nothing of the records.
type Audit interface {
	Audit(ctx context.Context, r AuditRequest) (state.AuditPass, error)
}

// Groups carries the offsets of consumer groups over. Obligations: those of
// groups.Syncer (U1 to U7).
type Groups interface {
	// Run works until ctx ends. The control topic is open, and closed after it.
	Run(ctx context.Context) error
	// Report may be called at any time.
	Report() []state.Group
}

// Checkpoints writes MirrorMaker 2's topics on the target. Obligations: those of
// checkpoints.Task (P1 to P6).
type Checkpoints interface {
	// Run works until ctx ends. The control topic is open, and closed after it.
	Run(ctx context.Context) error
	// Report may be called at any time.
	Report() *state.Checkpoints
}

// Store is the control topic: what must be known of a mirror beside the
// target's own log.
type Store interface {
	Lineage
	Records
	Run(ctx context.Context) error
	// Close ends what opening began; Run has returned before.
	Close()
	Link(name string) (control.LinkRecord, bool)
	PutLink(ctx context.Context, r control.LinkRecord) error
	PutLinkState(ctx context.Context, r control.LinkStateRecord) error
	Topic(link, sourceTopic string) (control.TopicRecord, bool)
	Topics(link string) []control.TopicRecord
	PutTopic(ctx context.Context, r control.TopicRecord) error
	// Padding tells whether a partition of a source topic is being padded: then
	// its target's cleanup.policy is the padding's.
	Padding(link, sourceTopic string) bool
	Worker(link string) (control.WorkerRecord, bool)
	PutWorker(ctx context.Context, r control.WorkerRecord) error
	DropWorker(ctx context.Context, link, worker string) error
	States(link string) []control.StateRecord
	// Recorded is States as each was recorded, without what sights add. Nothing in it
	// is to be changed.
	Recorded(link string) []control.StateRecord
	PutState(ctx context.Context, r control.StateRecord) error
	// Sights are what the link's workers said of when they saw the sources; States
	// has it already.
	Sights(link string) []control.SightRecord
	PutSights(ctx context.Context, rs []control.SightRecord) error
	DropSights(ctx context.Context, rs []control.SightRecord) error
	// Audit and Audits tell what comparing partitions last showed.
	Audit(link, sourceTopic string, partition int32) (control.AuditRecord, bool)
	Audits(link string) []control.AuditRecord
	PutAudit(ctx context.Context, r control.AuditRecord) error
	Orders
}

// Orders is what operators want, and where it is told that it was done.
type Orders interface {
	// Commands are those that count, by number; Intents what follows from them.
	Commands(link string) []intent.Command
	Intents(link string) intent.Intents
	// Changed is closed at the next change of what is on record.
	Changed() <-chan struct{}
	// PutCommand returns a *control.LostError where another command has its number.
	PutCommand(ctx context.Context, c intent.Command) error
	PutAck(ctx context.Context, r control.AckRecord) error
	Acks(link, topic string) []control.AckRecord
	// Cuts are where the topics of one switch were cut.
	Cuts(link, switchID string) []control.CutRecord
}
