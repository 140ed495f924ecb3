package fetcher

// Keys of log lines.
const (
	keyLink       = "link"
	keyBroker     = "broker"
	keyTopic      = "topic"
	keyPartition  = "partition"
	keyError      = "error"
	keyNext       = "next"
	keyLasted     = "lasted"
	keyLastStable = "last_stable"
)
