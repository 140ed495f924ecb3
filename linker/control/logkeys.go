package control

// Keys of log attributes.
const (
	keyErr     = "err"
	keyOffset  = "offset"
	keyRecords = "records"
)
