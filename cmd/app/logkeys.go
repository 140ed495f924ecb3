package app

// Keys of log lines; those shared with metrics are in package telemetry.
const (
	keyConfigHash  = "config_hash"
	keyLinks       = "links"
	keyHTTP        = "http"
	keyFetchMemory = "fetch_memory"
	keyMemoryLimit = "memory_limit"
	keyPartitions  = "partitions"
	keyLimit       = "limit"
)
