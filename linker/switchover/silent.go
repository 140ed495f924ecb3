package switchover

import (
	"fmt"
	"time"
)

// silentWorker is the Topic.Reason of what a promotion held and whose worker did not
// confirm that.
const silentWorker = "UNCONFIRMED"

// hintSilent is the hint of silentWorker, which is no reason of a partition.
const hintSilent = "start klink run where none lives, and give klink promote again; or klink failover, which needs no klink that runs and shuts out one that hangs"

// unconfirmed says of the partitions whose workers did not confirm the hold who they
// are.
func unconfirmed(fs []*fate, now time.Time) string {
	s := counted(len(fs), "partition") + ", such as "
	if len(fs) == 1 {
		s = "1 partition, "
	}
	return fmt.Sprintf("%s%s/%d: %s", s, fs[0].m.SourceTopic, fs[0].n, fs[0].seen.lastHeard(now))
}

// lastHeard says which worker has a partition and when it last said anything.
func (s sight) lastHeard(now time.Time) string {
	switch {
	case s.worker == "":
		return "no klink has ever reported on it"
	case s.heard.IsZero():
		return fmt.Sprintf("its worker is %s", s.worker)
	default:
		return fmt.Sprintf("its worker %s was last heard of %s ago, at %s", s.worker, max(0, now.Sub(s.heard)).Round(time.Second),
			s.heard.UTC().Format(time.RFC3339))
	}
}

// blame notes whose workers did not confirm the hold.
func (x *promRun) blame(now time.Time) {
	for _, f := range x.silent {
		x.troubles.first(f.m.SourceTopic, silentWorker, fmt.Errorf("partition %d: the hold was not confirmed: %s", f.n, f.seen.lastHeard(now)))
	}
}
