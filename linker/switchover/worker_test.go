package switchover

import (
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
)

// worker mirrors.
type worker struct {
	alive bool
	// reads: it follows the record. Else it is cut off from it, and its lease ends
	// a session after the world began.
	reads bool
	acked map[string]int32
	seen  map[int32]time.Time // when it saw a Pend
	stops bool                // it does not mirror at all, so that source and target stay as they are
}

// step lets the worker do what it would have done by now.
func (w *world) step() {
	now := time.Now()
	k := &w.worker
	if !k.alive || !k.reads && now.After(w.began.Add(session)) {
		return
	}
	heard := intent.Intents{}
	if k.reads {
		heard = intent.Fold(w.winners(now.Add(-lag)))
	}
	for _, topic := range w.names() {
		i := heard.Of(topic)
		if i.Want != intent.Mirror {
			w.obey(topic, i)
			continue
		}
		for _, p := range w.of(topic) {
			if !k.stops && int64(len(p.log)) < p.src {
				_ = p.add(entry{}) // it halts as FENCED where this is refused
			}
		}
	}
}

// obey confirms a command once, and takes a Pend back that holds for too long.
func (w *world) obey(topic string, i intent.Intent) {
	k, now := &w.worker, time.Now()
	if k.acked[topic] != i.Cause.Number {
		k.acked[topic] = i.Cause.Number
		r := control.AckRecord{Link: theLink, Topic: topic, Worker: "w1", Number: i.Cause.Number, At: now}
		for _, p := range w.of(topic) {
			p.ackedAt = now
			alone := p.n%2 == 0 && p.firstFence() == feed.Unknown
			r.Partitions = append(r.Partitions, control.Acked{Partition: p.n, End: int64(len(p.log)), Wrote: alone})
		}
		w.acks[topic] = append(w.acks[topic], r)
		if w.groups {
			w.acks[""] = append(w.acks[""], control.AckRecord{Link: theLink, Worker: "w1", Number: i.Cause.Number, At: now})
		}
	}
	if i.Want != intent.PendingStop {
		return
	}
	if _, ok := k.seen[i.Cause.Number]; !ok {
		k.seen[i.Cause.Number] = now
	}
	if now.Sub(k.seen[i.Cause.Number]) > i.Cause.Wait {
		c := intent.Command{Link: theLink, Number: intent.Fold(w.winners(now)).Next(), ID: newID(), Verb: intent.Resume,
			Topics: i.Cause.Topics, At: now, By: "w1"}
		if w.wants(topic).Want == intent.PendingStop {
			w.put(c, now)
		}
	}
}
