package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes is beyond every frame of a broker (socket.request.max.bytes is
// 100 MiB) and tells a stream that is none of Kafka's.
const maxFrameBytes = 512 << 20

var errNotKafka = errors.New("proxy: not a Kafka frame")

// requestHeadBytes are length, API key, version and correlation id; answers
// begin with length and correlation id.
const (
	requestHeadBytes = 12
	answerHeadBytes  = 8
)

// readRequestHead reads the fixed part of a request's header. rest is what of
// the frame is still to be read.
func readRequestHead(r io.Reader) (f Frame, head []byte, rest int, err error) {
	head, rest, err = readHead(r, requestHeadBytes)
	if err != nil {
		return f, nil, 0, err
	}
	f = Frame{
		Key:           int16(binary.BigEndian.Uint16(head[4:])),
		Version:       int16(binary.BigEndian.Uint16(head[6:])),
		CorrelationID: int32(binary.BigEndian.Uint32(head[8:])),
		Bytes:         rest + requestHeadBytes - 4,
	}
	return f, head, rest, nil
}

func readAnswerHead(r io.Reader) (correlationID int32, head []byte, rest int, err error) {
	head, rest, err = readHead(r, answerHeadBytes)
	if err != nil {
		return 0, nil, 0, err
	}
	return int32(binary.BigEndian.Uint32(head[4:])), head, rest, nil
}

// readHead reads n bytes, the first four of which are the length of what follows them.
func readHead(r io.Reader, n int) (head []byte, rest int, err error) {
	head = make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, err
	}
	length := int64(binary.BigEndian.Uint32(head))
	if length < int64(n-4) || length > maxFrameBytes {
		return nil, 0, fmt.Errorf("%w: length %d", errNotKafka, length)
	}
	return head, int(length) - (n - 4), nil
}

// clientID reads the nullable string at the start of what follows the fixed
// part of a request's header; "" where it is null or not all there.
func clientID(rest []byte) string {
	if len(rest) < 2 {
		return ""
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	if n <= 0 || len(rest) < 2+n {
		return ""
	}
	return string(rest[2 : 2+n])
}
