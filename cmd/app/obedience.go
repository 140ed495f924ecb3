package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"klink/cmd/show"
	"klink/linker/control"
	"klink/linker/state"
)

const (
	// defaultTimeout is how long a command waits until it is obeyed. A klink that
	// runs takes some 100 ms; one that died leaves the group with its session, after
	// 10 s.
	defaultTimeout = 10 * time.Second
	// workersEvery is how often it is asked whether a klink runs at all.
	workersEvery = time.Second
	// swarm is how long changes of the record are gathered: those of a thousand
	// topics come together.
	swarm = 20 * time.Millisecond
)

// sight is the record at one moment, to tell whether a command is obeyed.
type sight struct {
	Console
	topics map[string]state.Topic // nil until somebody asks
}

// reported is a topic as it was reported last; its zero value where it never was.
func (s *sight) reported(source string) state.Topic {
	if s.topics == nil {
		s.topics = make(map[string]state.Topic)
		for _, t := range s.Link().Topics {
			s.topics[t.SourceTopic] = t
		}
	}
	return s.topics[source]
}

// obedience waits for a command on record to be obeyed.
type obedience struct {
	order
	con    Console
	number int32
	result *orderResult
	// nobody is whether no klink runs, err why that is not known.
	nobody bool
	err    error
	// waited says how the wait ended where not all is confirmed.
	waited string
}

// wait returns when every topic is confirmed, when there is nobody to confirm it,
// or after a time.
func (w *obedience) wait(ctx context.Context, timeout time.Duration) {
	w.waited = fmt.Sprintf("not confirmed within --%s %s", flagTimeout, timeout)
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ask := time.NewTicker(workersEvery)
	defer ask.Stop()
	for {
		w.look(within)
		for again := false; !again; {
			changed := w.con.Changed() // before looking, so that nothing is missed
			if w.nobody || w.allConfirmed() {
				return
			}
			select {
			case <-changed:
				pause(within, swarm)
			case <-ask.C:
				again = true
			case <-within.Done():
				if ctx.Err() != nil {
					w.waited = "stopped before it was confirmed"
				}
				return
			}
		}
	}
}

// look asks whether a klink runs.
func (w *obedience) look(ctx context.Context) {
	if n, err := w.con.Workers(ctx); ctx.Err() == nil {
		w.nobody, w.err = err == nil && n == 0, err
	}
}

// allConfirmed looks at those topics that were not confirmed when it looked before.
func (w *obedience) allConfirmed() bool {
	all, now := true, &sight{Console: w.con}
	for i := range w.result.Topics {
		t := &w.result.Topics[i]
		if t.due && t.OK && !t.seen {
			_, t.seen = w.confirmed(now, *t, w.number)
			all = all && t.seen
		}
	}
	return all
}

// tell fills in what became of each topic.
func (w *obedience) tell() {
	now := &sight{Console: w.con}
	for i := range w.result.Topics {
		t := &w.result.Topics[i]
		if !t.due || !t.OK {
			continue
		}
		is := now.reported(t.SourceTopic)
		if t.Detail = ""; is.State != "" {
			t.State = is.State
		}
		missing, ok := w.confirmed(now, *t, w.number)
		halted, halts := stillHalted(is, missing)
		switch {
		case ok:
			if final, known := stateOf[w.want]; known {
				t.State = final // it may be recorded a moment later
			}
		case w.nobody:
			t.Detail = "no running klink: it takes effect at the next start"
		case w.want == "" && halts:
			t.fail(halted.Reason, fmt.Sprintf("%s/%d is HALTED: %s", t.SourceTopic, halted.Partition, halted.Detail), halted.Hint)
		default:
			t.fail(reasonUnconfirmed, w.unconfirmed(missing), "the command is on record and will be obeyed; klink status shows when")
		}
	}
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// stillHalted finds the first of some partitions that is halted, or halted again.
func stillHalted(t state.Topic, of []int32) (state.Partition, bool) {
	for _, p := range t.Partitions {
		if p.State == state.Halted && slices.Contains(of, p.Partition) {
			return p, true
		}
	}
	return state.Partition{}, false
}

func (w *obedience) unconfirmed(missing []int32) string {
	detail := w.waited
	if len(missing) > 0 {
		detail += ", by whoever mirrors partitions " + show.Ranges(missing)
	}
	if w.err != nil {
		detail += fmt.Sprintf("; whether a klink runs is not known: %v", w.err)
	}
	return detail
}

// acknowledged tells which partitions of a topic nobody has confirmed since a
// command, or a later one, was on record.
func acknowledged(now *sight, t topicResult, number int32) (missing []int32, ok bool) {
	return unacknowledged(now.Acks(t.SourceTopic), t, number)
}

func unacknowledged(acks []control.AckRecord, t topicResult, number int32) (missing []int32, ok bool) {
	confirmed := map[int32]bool{}
	for _, a := range acks {
		if a.Number < number {
			continue
		}
		for _, p := range a.Partitions {
			confirmed[p.Partition] = true
		}
	}
	for _, p := range t.recorded.Partitions {
		if !confirmed[p.Partition] {
			missing = append(missing, p.Partition)
		}
	}
	return missing, len(missing) == 0
}
