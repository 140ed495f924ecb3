package workers

// Keys of log attributes.
const (
	keyCount = "count"
	keyErr   = "err"
	keyGroup = "group"
)
