package reverse

import "errors"

// Errors that callers branch on.
var (
	// ErrRequest: the request itself cannot be carried out as it is written.
	ErrRequest = errors.New("reverse")
	// ErrFile: the file to write is there and says something else, or cannot be
	// written.
	ErrFile = errors.New("the new link's file")
	// ErrUnknownLink: the old link is not on record at its target.
	ErrUnknownLink = errors.New("the link is not on record at its target")
	// ErrLost: somebody else gave the link an order at the same moment.
	ErrLost = errors.New("somebody else gave the link an order at the same moment: look at its status and ask again")
)
