package linker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
)

// pended is a promotion that is not decided.
type pended struct {
	command intent.Command
	// topics are those that are still stopped for it, sorted.
	topics []string
	// since is when this process learned of it.
	since time.Time
}

// notePended brings what is known of undecided promotions up to date.
func (o *obeyer) notePended(in intent.Intents, all []*topic) {
	now := time.Now()
	for _, p := range o.pended {
		p.topics = nil
	}
	for _, t := range all {
		i := in.Of(t.name)
		if i.Want != intent.PendingStop {
			continue
		}
		p := o.pended[i.Cause.Number]
		if p == nil {
			p = &pended{command: i.Cause, since: now}
			o.pended[i.Cause.Number] = p
		}
		p.topics = append(p.topics, t.name)
	}
	maps.DeleteFunc(o.pended, func(_ int32, p *pended) bool { return p.topics == nil })
}

// takeBack ends promotions that were never decided: each once its wait is over, by
// this process's clock since it knows of it. Whoever decides it at the same time
// writes the same number, and one of the two wins.
func (o *obeyer) takeBack(ctx context.Context) {
	for _, p := range o.pended {
		if time.Since(p.since) >= p.command.Wait {
			o.resumeItself(ctx, p)
		}
	}
}

func (o *obeyer) resumeItself(ctx context.Context, p *pended) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	slices.Sort(p.topics)
	err := o.l.store.PutCommand(ctx, intent.Command{Link: o.l.o.Name, Number: o.next, ID: fmt.Sprintf("%016x", rand.Uint64()),
		Verb: intent.Resume, Topics: p.topics, At: time.Now(), By: o.l.o.Worker})
	var lost *control.LostError
	switch log := o.l.log.With("command", p.command.Number, "by", p.command.By); {
	case err == nil:
		log.Warn("a promotion was not decided in time and is taken back", "topics", len(p.topics))
	case errors.As(err, &lost):
		log.Info("a promotion is not taken back, as another command was quicker", "verb", lost.Winner.Verb)
	default:
		log.Debug("a promotion is not taken back yet", "error", err)
	}
}
