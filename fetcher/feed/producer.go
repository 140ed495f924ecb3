package feed

import "time"

// Producer is an entry of what a partition's leader remembers of producers.
type Producer struct {
	ID    int64
	Epoch int32
	// TxnStart is the first offset of the transaction that the producer has open
	// on the partition, Unknown without one.
	TxnStart int64
	// LastWrite is the timestamp of its newest record or marker, by the clock that
	// the record was stamped with; zero where the leader does not tell.
	LastWrite time.Time
}
