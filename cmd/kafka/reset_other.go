//go:build !linux

package kafka

import (
	"net"
	"time"
)

// limitUnacked does nothing where there is no TCP_USER_TIMEOUT: there the
// system's own, longer limit ends a connection whose peer is gone.
func limitUnacked(*net.TCPConn, time.Duration) error { return nil }
