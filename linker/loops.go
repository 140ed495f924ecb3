package linker

import (
	"context"

	"klink/linker/admit"
	"klink/linker/control"
)

// Inflows tells which of the source's topics are mirrors themselves, by what klink has
// on record there. Obligations: it writes nothing; what the source does not show is no
// inflow.
type Inflows interface {
	Inflows(ctx context.Context) (map[string]control.Inflow, error)
}

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
		loop := admit.Loop{Inflow: i, TargetCluster: rec.TargetClusterID, Target: f.Target, Drifts: l.modeOf(own) == Checkpoint, Begun: !own.TargetID.IsZero()}
		if refused := admit.ByLoop(loop); refused != nil {
			t.forget() // where both had begun already, both end
			return refusal(refused)
		}
		if err == nil && own.Origins != i.Clusters {
			own.Origins = i.Clusters
			return t.put(ctx, own)
		}
		return nil
	})
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
