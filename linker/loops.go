package linker

import (
	"context"
	"fmt"

	"klink/linker/control"
	"klink/linker/state"
)

// Inflows tells which of the source's topics are mirrors themselves, by what klink has
// on record there. Obligations: it writes nothing; what the source does not show is no
// inflow.
type Inflows interface {
	Inflows(ctx context.Context) (map[string]control.Inflow, error)
}

// removeHint is what ends a loop.
const removeHint = "records would go round for ever: take the topic out of one of the two links (topics.exclude), and off the record with klink remove"

// unlooped picks the topics whose records did not come from the target, directly or
// through others: names tell that of some policies only, cluster ids of all (K13). It
// comes after the claim, so that of two links that begin at once one sees the other.
func (l *Link) unlooped(ctx context.Context, claimed []Found) []Found {
	if l.o.Inflows == nil || len(claimed) == 0 {
		return claimed
	}
	in, err := l.o.Inflows.Inflows(ctx)
	if ctx.Err() != nil {
		return nil
	}
	l.tellBlind(err)
	rec, _ := l.store.Link(l.o.Name)
	return l.each(ctx, claimed, func(f Found, t *topic) *Trouble {
		i := in[f.Topic]
		own, _ := l.store.Topic(l.o.Name, f.Topic)
		if trouble := looped(loop{inflow: i, target: rec.TargetClusterID, name: f.Target, mode: l.modeOf(own), begun: !own.TargetID.IsZero()}); trouble != nil {
			t.forget() // where both had begun already, both end
			return trouble
		}
		if err == nil && own.Origins != i.Clusters {
			own.Origins = i.Clusters
			return t.put(ctx, own)
		}
		return nil
	})
}

// loop is all that decides whether a topic would be mirrored back.
type loop struct {
	inflow control.Inflow
	// target is this link's target cluster, name the topic there.
	target, name string
	mode         Mode
	// begun: this link has a target topic on record.
	begun bool
}

// looped says why a topic would be mirrored back to where its records came from; nil
// where it would not. A mirror in the other direction that was stopped is no loop, as
// after a failover: but copies that drift would be copied once more into the topic they
// came from. Of two links of which one has begun the other waits.
func looped(c loop) *Trouble {
	i := c.inflow
	switch {
	case c.target == "" || !i.Clusters.Holds(c.target):
		return nil
	case i.Stopped && (c.mode == Mirror || i.SourceTopic != c.name):
		return nil
	case c.begun && !i.Begun:
		return nil
	}
	by := fmt.Sprintf("link %s mirrors it from topic %s of cluster %s", i.Link, i.SourceTopic, i.Clusters.All()[0])
	if i.Clusters.All()[0] != c.target {
		by += fmt.Sprintf(", where it came from this link's target cluster %s", c.target)
	}
	if i.Stopped {
		return &Trouble{Reason: state.TopicRefused, Detail: "the source topic holds what came from the target's topic: " + by + ", until it was stopped",
			Hint: "copies would be copied once more: use replication_policy default, which gives them another name, or take the old mirror off the record with klink remove, and have klink repair --recreate make the target topic anew"}
	}
	return &Trouble{Reason: state.TopicRefused, Detail: "the source topic is a mirror of the target's: " + by, Hint: removeHint}
}

// tellBlind tells once of a source that does not show which of its topics are mirrors.
func (l *Link) tellBlind(err error) {
	l.mu.Lock()
	was := l.blind
	l.blind = err != nil
	l.mu.Unlock()
	if err != nil && !was {
		l.log.Warn("whether topics of the source are mirrors of the target cannot be seen, but by their names", "error", err,
			"hint", "allow Describe and Read on topic "+control.TopicName+" of the source")
	}
}
