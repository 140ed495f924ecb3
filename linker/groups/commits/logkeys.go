package commits

// Keys of log attributes.
const (
	keyErr        = "err"
	keyPartition  = "partition"
	keyPartitions = "partitions"
	keyReason     = "reason"
)
