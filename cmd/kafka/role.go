package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
)

// role is the job of a client. Its name ends the client id, <link>-<role>,
// which is what brokers log and what quotas can be set on.
type role string

const (
	roleFetch       role = "fetch"
	roleShort       role = "fetch-short"
	roleSourceAdmin role = "source-admin"
	roleProduce     role = "produce"
	roleSlow        role = "produce-slow"
	roleTargetAdmin role = "target-admin"
	roleControl     role = "control"
	roleMaps        role = "maps"
	roleMarkers     role = "markers"
	roleMarkerBulks role = "markers-bulk"
	roleGroup       role = "group"
	roleGroups      role = "groups"
	roleFollow      role = "groups-follow"
	roleCommit      role = "groups-commit"
	roleCheckpoints role = "checkpoints"
	rolePing        role = "ping"
)

const (
	// commitConnections is how many connections a target broker gets for the commits
	// of groups. It works on one request of a connection at a time and takes some
	// milliseconds for each, waiting for replicas; four make well over the 500
	// requests per second that are to be managed.
	commitConnections = 4
	// dialTimeout bounds connecting and the TLS handshake together.
	dialTimeout = 5 * time.Second
	// probeTimeout bounds finding out whether a port speaks TLS; a listener that
	// does answers within a round trip or two.
	probeTimeout = 2 * time.Second
	// requestOverhead is what an answer may take beyond the time the request
	// itself asks the broker to wait.
	requestOverhead = 10 * time.Second
	// connIdle is below the brokers' connections.max.idle.ms (10 minutes), so that
	// klink and not the broker closes an idle connection, and well above kgo's 30 s,
	// so that a quiet mirror need not log in again for each record.
	connIdle = 5 * time.Minute
	// maxAnswerBytes bounds the answers to all but Fetch; the metadata of 10,000
	// partitions is about 1 MiB. It must not be below kgo's default FetchMaxBytes.
	maxAnswerBytes = 64 << 20
	// leastFetchAnswerBytes is what a Fetch may always answer: its first batch comes
	// whole, however small the wanted size, and can be as large as the topic's
	// max.message.bytes.
	leastFetchAnswerBytes = 100 << 20
	// mostFetchAnswerBytes stays below 0x15030000: the first bytes of a TLS alert,
	// read as a length, must be refused and not allocated.
	mostFetchAnswerBytes = 256 << 20
)

// options are those of the role alone.
func (r role) options(fetchMemory config.Bytes) []kgo.Opt {
	switch r {
	case roleFetch, roleShort, roleFollow:
		size := min(max(2*fetchMemory, leastFetchAnswerBytes), mostFetchAnswerBytes)
		return []kgo.Opt{kgo.BrokerMaxReadBytes(int32(size))}
	case roleProduce, roleSlow:
		return []kgo.Opt{kgo.BrokerMaxReadBytes(maxAnswerBytes), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite()}
	case roleControl, roleMaps:
		return []kgo.Opt{kgo.BrokerMaxReadBytes(maxAnswerBytes), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0)}
	case roleCheckpoints:
		// Not idempotent: a record twice does no harm, and a producer that lost its id
		// would never write again. One request at a time keeps the order all the same.
		return []kgo.Opt{kgo.BrokerMaxReadBytes(maxAnswerBytes), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(),
			kgo.MaxProduceRequestsInflightPerBroker(1), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression())} // as MirrorMaker 2; some Java clients lack the codecs
	case rolePing:
		return []kgo.Opt{kgo.BrokerMaxReadBytes(maxAnswerBytes), kgo.RequestRetries(0)}
	default:
		return []kgo.Opt{kgo.BrokerMaxReadBytes(maxAnswerBytes)}
	}
}

// dialer returns what the role's connections are opened with.
func (r role) dialer(d dialer) dialer {
	d.reset = r == roleMarkers || r == roleMarkerBulks || r == roleCommit
	return d
}
