package reverse

import "errors"

// Errors that callers branch on.
var (
	// ErrRequest: the request itself cannot be carried out as it is written.
	ErrRequest = errors.New("the request cannot be carried out as it is written")
	// ErrFile: the file to write is there and says something else, or cannot be
	// written.
	ErrFile = errors.New("the new link's file")
	// ErrUnwritten: all else is done, and the file could not be written after all.
	ErrUnwritten = errors.New("the link is turned around, and only its file is missing: it is printed, and written by the same command with another FILE")
	// ErrUnknownLink: the old link is not on record at its target.
	ErrUnknownLink = errors.New("the link is not on record at its target")
	// ErrOffsetsDrift: the old link is in checkpoint mode, so that nothing on its target
	// has the offset it had on the source.
	ErrOffsetsDrift = errors.New("the link is in checkpoint mode, where offsets drift: there is no way back at the same offsets; " +
		"mirror back with a link of its own in checkpoint mode, and klink translate --reverse tells where groups go on")
	// ErrLost: somebody else gave the link an order at the same moment.
	ErrLost = errors.New("somebody else gave the link an order at the same moment: look at its status and ask again")
)

// checkpointMode is the mode of such a link as it is on record.
const checkpointMode = "checkpoint"
