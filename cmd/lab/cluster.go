package lab

import "github.com/twmb/franz-go/pkg/kgo"

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
