package kafka

import (
	"fmt"
	"net"
	"time"
)

// unackedLimit is how long bytes on a connection for markers or commits may stay
// without the peer's acknowledgement. It is below the session timeout of the link's
// group, so that none can still arrive from a worker whose session has ended.
const unackedLimit = 5 * time.Second

// resetAtEnd makes a connection end with RST rather than FIN. After FIN a broker
// was seen to take up requests that still lay in its socket; after RST they are
// gone. It is set at the start, since nobody can set it for a process that is
// killed. A connection that is not TCP's own is left as it is.
func resetAtEnd(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := tcp.SetLinger(0)
	if err == nil {
		err = limitUnacked(tcp, unackedLimit)
	}
	if err != nil {
		tcp.Close()
		return fmt.Errorf("set up a connection that ends with a reset: %w", err)
	}
	return nil
}

// abrupt is a TLS connection that closes the one below at once: TLS itself would
// first try to say goodbye, for up to five seconds.
type abrupt struct {
	net.Conn
	below net.Conn
}

// Close resets the connection below.
func (a abrupt) Close() error { return a.below.Close() }
