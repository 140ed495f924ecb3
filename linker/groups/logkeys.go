package groups

// Keys of log lines.
const (
	keyGroup    = "group"
	keyReason   = "reason"
	keyErr      = "err"
	keyPatterns = "patterns"
	keyNumber   = "command"
	keyVerb     = "verb"
)
