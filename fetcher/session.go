package fetcher

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
)

// A lane uses an incremental fetch session (KIP-227) from sessionFrom members
// on and gives it up below sessionBelow.
//
// Measured with BenchmarkPoll on two cores: a poll that brings one batch takes
// 1 to 2 µs of CPU and 70 bytes on the wire for each further partition without
// a session (encoding, decoding the empty answers, matching them), and with one
// next to nothing: 0.2 ms against 3 µs at 100 partitions, 19 ms against 18 µs at
// 10,000. A broker's work is of the same order. At 500 polls a second 100
// partitions cost a tenth of a core, which is where we stop paying; below that a
// session saves little and takes one of the broker's 1,000 slots
// (max.incremental.fetch.session.cache.slots).
const (
	sessionFrom  = 100
	sessionBelow = 50
)

// sessionKey names a partition as a session knows it: a topic of the same name
// with another id is another one.
type sessionKey struct {
	feed.Partition
	id feed.TopicID
}

// session is the client side of one fetch session. Guarded by Fetcher.mu.
type session struct {
	// id and epoch of the next request; epoch -1: no session is wanted.
	id, epoch int32
	// known are the partitions that the broker has in it.
	known map[sessionKey]struct{}
	// forget are those of them that left since the last request.
	forget map[sessionKey]struct{}
}

func noSession() session { return session{epoch: -1} }

// live reports whether the next request may name changes alone.
func (x *session) live() bool { return x.epoch > 0 }

// restart makes the next request a full one for a new session; the old one, if
// any, is closed by it.
func (x *session) restart() {
	x.epoch, x.known, x.forget = 0, make(map[sessionKey]struct{}), make(map[sessionKey]struct{})
}

// broken is restart after a request without an answer: nobody knows whether the
// broker took it.
func (x *session) broken() {
	if x.epoch >= 0 {
		x.restart()
	}
}

// end makes the next request a full one without a session.
func (x *session) end() { x.epoch, x.known, x.forget = -1, nil, nil }

// lost is broken for an id that the broker does not know (any more).
func (x *session) lost() {
	x.id = 0
	x.broken()
}

// answered takes over the id of an answer and advances the epoch.
func (x *session) answered(id int32) {
	switch {
	case x.epoch < 0 || id == 0: // none wanted, or the broker has no slot free
		x.id = 0
	case x.epoch == math.MaxInt32:
		x.id, x.epoch = id, 1
	default:
		x.id = id
		x.epoch++
	}
}

// adds notes a partition that a request names.
func (x *session) adds(k sessionKey) {
	if x.epoch >= 0 {
		x.known[k] = struct{}{}
		delete(x.forget, k)
	}
}

// drops notes a partition that left the lane.
func (x *session) drops(k sessionKey) {
	if _, ok := x.known[k]; ok {
		delete(x.known, k)
		x.forget[k] = struct{}{}
	}
}

// forgotten returns what the next request has to take out of the session.
func (x *session) forgotten() []kmsg.FetchRequestForgottenTopic {
	if !x.live() {
		return nil
	}
	var topics []kmsg.FetchRequestForgottenTopic
	at := make(map[sessionKey]int)
	for k := range x.forget {
		topic := sessionKey{Partition: feed.Partition{Topic: k.Topic}, id: k.id}
		i, ok := at[topic]
		if !ok {
			i = len(topics)
			at[topic] = i
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = k.Topic, k.id
			topics = append(topics, t)
		}
		topics[i].Partitions = append(topics[i].Partitions, k.Partition.Partition)
	}
	clear(x.forget)
	return topics
}
