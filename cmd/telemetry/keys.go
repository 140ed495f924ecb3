package telemetry

// Keys of attributes, the same in logs and metrics.
const (
	KeyLink      = "link"
	KeyTopic     = "topic"
	KeyPartition = "partition"
	KeyVersion   = "version"
	KeyGo        = "go_version"
	KeyError     = "error"
)
