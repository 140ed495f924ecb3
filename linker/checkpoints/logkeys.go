package checkpoints

// Keys of log lines.
const (
	keyTopic   = "topic"
	keyReason  = "reason"
	keyDetail  = "detail"
	keyHint    = "hint"
	keyRecords = "records"
)
