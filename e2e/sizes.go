package e2e

import "os"

// SizeVariable selects the column of the table: "long" for soak, else short.
const SizeVariable = "KLINK_SIZE"

// Size is how much of something a test does.
type Size struct{ Short, Long int }

// N returns the number that holds in this run.
func (s Size) N() int {
	if os.Getenv(SizeVariable) == "long" {
		return s.Long
	}
	return s.Short
}

// The table. A test takes every number that makes it heavy from here.
var (
	// CodecRecords are the records per codec and partition.
	CodecRecords = Size{Short: 2_000, Long: 200_000}
	// Kills is how often klink is killed by SIGKILL under load.
	Kills = Size{Short: 20, Long: 500}
	// CheckpointKills are kills by SIGKILL under load in checkpoint mode.
	CheckpointKills = Size{Short: 4, Long: 100}
	// MM2Settings are those of MirrorMaker 2 that run beside klink, over BesideRecords
	// and what is written meanwhile.
	MM2Settings   = Size{Short: 1, Long: 2}
	BesideRecords = Size{Short: 4_000, Long: 400_000}
	// LeaderMoves are planned moves of leaders under load, on each side.
	LeaderMoves = Size{Short: 6, Long: 100}
	// BrokerKills are SIGKILLs of brokers under load, on each side.
	BrokerKills = Size{Short: 2, Long: 20}
	// LostAnswers are Produce answers swallowed by the proxy.
	LostAnswers = Size{Short: 20, Long: 1_000}
	// CutRounds are rounds of connections cut at each step of each request.
	CutRounds = Size{Short: 1, Long: 20}
	// TwinRecords are mirrored by two klinks at once.
	TwinRecords = Size{Short: 20_000, Long: 2_000_000}
	// SmallTransactions of one record or a few, per partition.
	SmallTransactions = Size{Short: 2_000, Long: 72_000}
	// LongTransaction is the records of one transaction.
	LongTransaction = Size{Short: 5_000, Long: 500_000}
	// WideBatch is the records of one batch.
	WideBatch = Size{Short: 100_000, Long: 100_000}
	// WideDrift: at 1 consumers of all makers read the wide batches of checkpoint mode
	// too, which franz-go reads in any case.
	WideDrift = Size{Short: 0, Long: 1}
	// ModesOnOldest are the modes in which logs of all shapes are mirrored between the
	// oldest brokers.
	ModesOnOldest = Size{Short: 1, Long: 2}
	// FillLanes are ways to cut the connections of a fill.
	FillLanes = Size{Short: 48, Long: 54}
	// FillKills are rounds of kills by SIGKILL with markers in flight, in each of
	// three ways.
	FillKills = Size{Short: 1, Long: 50}
	// FarStart is the offset at which a source partition begins.
	FarStart = Size{Short: 10_000_000, Long: 1_000_000_000}
	// ManyPartitions of one topic, mirrored with the default memory.
	ManyPartitions = Size{Short: 200, Long: 2_000}
	// MovedRecords are consumed before a promotion.
	MovedRecords = Size{Short: 10_000, Long: 1_000_000}
	// MoveSeconds is how long consumers keep up before the source is killed.
	MoveSeconds = Size{Short: 2, Long: 120}
	// ZombieRounds are rounds of workers that are killed, frozen and cut off.
	ZombieRounds = Size{Short: 1, Long: 10}
	// CommandKills are steps of promote, and of failover, before which it is killed: it
	// has five, a failover of two partitions that workers confirm some more.
	CommandKills = Size{Short: 6, Long: 12}
	// ScalePartitions and ScaleGroups are those of one link on one klink.
	ScalePartitions = Size{Short: 1_000, Long: 10_000}
	ScaleGroups     = Size{Short: 100, Long: 500}
	// RoundTrips are planned switches there and back.
	RoundTrips = Size{Short: 2, Long: 10}
	// EstimateFactor is by how much the time that a plan says may be wrong. Seconds
	// are few in a short run, and other work on the machine is much of them.
	EstimateFactor = Size{Short: 4, Long: 2}
	// SyncedGroups commit once a second for ten partitions each, for SyncedSeconds.
	SyncedGroups  = Size{Short: 100, Long: 500}
	SyncedSeconds = Size{Short: 8, Long: 60}
	// TranslatedRecords per partition are mirrored by a MirrorMaker 2.
	TranslatedRecords = Size{Short: 1_600, Long: 160_000}
)
