package lab

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is any cluster, as far as loading and judging it goes. *Kafka and
// *Embedded are clusters.
type Cluster interface {
	// AdminOpts connect a client that may do everything and that no fault meets.
	AdminOpts() []kgo.Opt
}

// At makes a cluster of client options, for one that the lab has not started.
type At []kgo.Opt

// AdminOpts are the options themselves.
func (a At) AdminOpts() []kgo.Opt { return a }

// metadataAge is how long the clients that read and write live with metadata
// that have turned out wrong: less than the default of 5 s, which every test
// with a leader change would wait for.
const metadataAge = 250 * time.Millisecond

// adminClient is for requests that set up or look at a cluster. Its metadata are
// asked for again at once when they were wrong: the client's default is to
// live with them for some seconds, which tests would spend waiting.
func adminClient(c Cluster) (*kgo.Client, error) {
	return kgo.NewClient(append(slices.Clone(c.AdminOpts()), kgo.MetadataMinAge(20*time.Millisecond))...)
}
