//go:build !unix

package filelock

import (
	"context"
	"errors"
)

var errUnsupported = errors.New("files can be locked on Unix systems only")

// TryLock is for Unix systems only.
func TryLock(string) (func(), error) { return nil, errUnsupported }

// Lock is for Unix systems only.
func Lock(context.Context, string) (func(), error) { return nil, errUnsupported }
