package commits

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// pollWait is how long a broker holds a Fetch with nothing to tell. It is also
	// how long a partition that came to a broker waits for the request under way
	// there, so it is short: two requests a second cost next to nothing.
	pollWait = 500 * time.Millisecond
	// answerTimeout is what an answer may take beyond that. A broker that hangs
	// has been replaced by then; one that is slow is asked again from the same
	// place.
	answerTimeout = 5 * time.Second
	// gatherPause follows an answer with records. Without it a busy topic would be
	// asked for each commit by itself; with it a broker is asked 50 times a second
	// at most, and a commit waits a tenth of what it may take in all.
	gatherPause = 20 * time.Millisecond
	// partitionBytes and answerBytes bound an answer; a first batch that is larger
	// comes whole (KIP-74).
	partitionBytes = 1 << 20
	answerBytes    = 4 << 20
)

// fetch is a Fetch to one broker with what was asked.
type fetch struct {
	broker int32
	pause  time.Duration // before it is sent
	parts  []*part
	req    *kmsg.FetchRequest
}

// answer is what came of a fetch.
type answer struct {
	fetch
	resp *kmsg.FetchResponse
	err  error
	at   time.Time
}

// newFetch asks for what follows in the parts' logs. turn changes which of them
// is named first, so that none starves where the size of the answer is reached.
func newFetch(broker int32, topicID [16]byte, parts []*part, turn int) fetch {
	topic := kmsg.NewFetchRequestTopic()
	// By id from Fetch v13 on: a topic made anew is then an error.
	topic.Topic, topic.TopicID = Topic, topicID
	for i := range parts {
		p := parts[(i+turn)%len(parts)]
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.number, p.log.next, partitionBytes
		// With both epochs a broker says where the log was cut (KIP-320, KIP-595).
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = p.leader.Epoch, p.log.epoch
		topic.Partitions = append(topic.Partitions, rp)
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(pollWait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, answerBytes
	req.IsolationLevel = readUncommitted // O2
	req.Topics = append(req.Topics, topic)
	return fetch{broker: broker, parts: parts, req: req}
}

// ask sends it.
func (q fetch) ask(ctx context.Context, cl *kgo.Client) answer {
	a := answer{fetch: q}
	if q.pause > 0 {
		timer := time.NewTimer(q.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			a.err = ctx.Err()
			return a
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pollWait+answerTimeout)
	defer cancel()
	a.resp, a.err = q.req.RequestWith(ctx, cl.Broker(int(q.broker)))
	a.at = time.Now()
	return a
}

// of returns the answer for a partition, nil where there is none.
func (a answer) of(number int32) *kmsg.FetchResponseTopicPartition {
	for i := range a.resp.Topics {
		for j := range a.resp.Topics[i].Partitions {
			if p := &a.resp.Topics[i].Partitions[j]; p.Partition == number {
				return p
			}
		}
	}
	return nil
}
