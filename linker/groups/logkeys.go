package groups

// Keys of log lines.
const (
	keyGroup    = "group"
	keyTopic    = "topic"
	keyReason   = "reason"
	keyErr      = "err"
	keyPatterns = "patterns"
	keyNumber   = "command"
	keyVerb     = "verb"
	keyDetail   = "detail"
)
