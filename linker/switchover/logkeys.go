package switchover

// Keys of log records.
const (
	keyLink      = "link"
	keyTopic     = "topic"
	keyPartition = "partition"
	keyErr       = "err"
)
