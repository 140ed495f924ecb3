package linker

import (
	"context"
	"time"

	"klink/linker/control"
	"klink/linker/state"
)

const (
	// looksAtOnce is how many topics one round looks at before it starts those, so that
	// a link of many topics does not wait for the last one.
	looksAtOnce = 20
	// lookTimeout bounds that, far below stuckAfter.
	lookTimeout = time.Minute
)

// Outlook tells, before anything is mirrored of a topic, whether its offsets can be
// kept. Obligations: it writes nothing; one topic's trouble is never another's.
type Outlook interface {
	// Unkept gives an answer for each of the source topics that it could look at. The
	// *Trouble is about a cluster as a whole.
	Unkept(ctx context.Context, topics []string) (map[string]Unkept, *Trouble)
}

// Unkept is what an Outlook says of a topic.
type Unkept struct {
	// Why is why its offsets cannot be kept, "" where they can.
	Why string
	// Unknown is why that could not be found out; Why is "" then.
	Unknown string
}

// decide picks the topics whose mode is decided, and decides on others where that is
// this process's to do (K12). A topic that has no answer yet waits.
func (l *Link) decide(ctx context.Context, found []Found, there map[string]bool) []Found {
	out, open := make([]Found, 0, len(found)), []Found(nil)
	for _, f := range found {
		if l.decided(f, there[f.Target]) {
			out = append(out, f)
		} else {
			open = append(open, f)
		}
	}
	if len(open) == 0 || !l.decides() {
		return out
	}
	if len(open) > looksAtOnce {
		open = open[:looksAtOnce]
		poke(l.soon)
	}
	return append(out, l.lookAhead(ctx, open)...)
}

// decided tells whether it is known in which mode a topic is mirrored. Where its target
// is to be made, nothing that was found of another one counts.
func (l *Link) decided(f Found, there bool) bool {
	rec, _ := l.store.Topic(l.o.Name, f.Topic)
	switch {
	case l.o.Mode == Checkpoint || l.topic(f).running():
		return true
	case l.o.Unmirrorable != UnmirrorableCheckpoint:
		return true // what was decided once is on record
	case !there:
		return false
	case rec.Mode != "":
		return true
	}
	return l.wroteTo(rec)
}

// wroteTo tells whether anything was mirrored to a topic's target, or counts as if it
// was.
func (l *Link) wroteTo(rec control.TopicRecord) bool {
	if rec.TargetID.IsZero() {
		return false
	}
	if _, adopted := l.store.Adopt(l.o.Name, rec.SourceTopic); adopted || len(l.store.Pads(l.o.Name, rec.SourceTopic)) > 0 {
		return true
	}
	for n := range rec.Partitions {
		if len(l.store.Epochs(l.o.Name, rec.SourceTopic, n)) > 0 {
			return true
		}
	}
	return false
}

// decides tells whether this process is the one of the link that decides on modes.
func (l *Link) decides() bool {
	alone, since := l.alone()
	return sharing{l.o.Lease.Share(control.TopicName, 0), alone, since}.mirrors()
}

// lookAhead looks at topics, puts on record how each is mirrored, and returns those
// where it is known then.
func (l *Link) lookAhead(ctx context.Context, open []Found) []Found {
	within, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	names := make([]string, len(open))
	for i, f := range open {
		names[i] = f.Topic
	}
	answers, trouble := l.o.Outlook.Unkept(within, names)
	return l.each(ctx, open, func(f Found, t *topic) *Trouble {
		a, ok := answers[f.Topic]
		switch {
		case trouble != nil:
			return trouble
		case !ok || a.Unknown != "":
			return &Trouble{Reason: state.Unreachable, OnSource: true, Detail: "whether its offsets can be kept is not known yet: " + a.Unknown}
		}
		rec, _ := l.store.Topic(l.o.Name, f.Topic)
		rec.Mode, rec.Why = control.ModeMirror, a.Why
		if a.Why != "" {
			rec.Mode = control.ModeCheckpoint
			t.log.Warn("topic is mirrored in checkpoint mode, as its offsets cannot be kept", "why", a.Why)
		}
		return t.put(ctx, rec)
	})
}

// fresh is the record of a topic that there is none of yet.
func (l *Link) fresh() control.TopicRecord {
	r := control.TopicRecord{Link: l.o.Name}
	if l.o.Mode == Checkpoint {
		r.Mode = control.ModeCheckpoint
	}
	return r
}

// modeOf is how a topic is mirrored by its record.
func (l *Link) modeOf(rec control.TopicRecord) Mode {
	if l.o.Mode == Checkpoint || rec.Mode == control.ModeCheckpoint {
		return Checkpoint
	}
	return Mirror
}
