package topics

import (
	"errors"
	"fmt"
)

// Clusters are the ids of a link's two clusters; "" is unknown.
type Clusters struct{ Source, Target string }

// Errors of CheckClusters.
var (
	// ErrSameCluster: source and target are one cluster, whatever addresses
	// lead to it. Mirroring would read its own writes for ever.
	ErrSameCluster = errors.New("source and target are the same cluster")
	// ErrClusterChanged: an address leads to another cluster than before.
	ErrClusterChanged = errors.New("an address leads to another cluster than before")
)

// CheckClusters compares the clusters that answered now with each other and with
// those on record. It is asked at every connect and reconnect, since a name can
// be pointed elsewhere while klink runs. An unknown id proves nothing.
func CheckClusters(now, recorded Clusters) error {
	if now.Source != "" && now.Source == now.Target {
		return fmt.Errorf("%w: both have the cluster id %s", ErrSameCluster, now.Source)
	}
	for _, c := range []struct{ side, now, recorded string }{
		{"source", now.Source, recorded.Source}, {"target", now.Target, recorded.Target},
	} {
		if c.now != "" && c.recorded != "" && c.now != c.recorded {
			return fmt.Errorf("%w: the %s's cluster id is %s and was %s", ErrClusterChanged, c.side, c.now, c.recorded)
		}
	}
	return nil
}
