//go:build !unix

package install

import (
	"context"
	"errors"
)

func lockFile(context.Context, string) (func(), error) {
	return nil, errors.New("a real Kafka can be installed on Unix systems only")
}
