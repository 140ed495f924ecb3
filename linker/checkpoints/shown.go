package checkpoints

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"klink/linker/ownlog"
	"klink/linker/remote"
	"klink/linker/state"
)

// othersFor is how long it is shown that somebody else wrote to a topic.
const othersFor = 10 * time.Minute

const (
	settingsHint = "give the topic one partition and cleanup.policy=compact, or delete it if nobody else uses it: klink makes it anew, and goes on by itself"
	othersHint   = "if a MirrorMaker 2, or another klink, writes for the same aliases, stop it or set checkpoint.source_alias to another one: its checkpoints and these replace each other"
	refusedHint  = "check the rights on the topic and the target's health; klink goes on by itself"
)

// shown is what others may see of a Task. Readers get copies.
type shown struct {
	log   *slog.Logger
	topic string
	now   func() time.Time

	mu       sync.Mutex // guards all below
	writing  bool
	on       int
	seen     bool
	written  int64
	waiting  map[Verdict]int
	looks    state.Seen
	wrotes   state.Seen
	beats    state.Seen
	troubles map[string]state.CheckpointsTrouble
	met      map[string]meeting
}

// meeting is when records of others were met last in a topic.
type meeting struct {
	records int64
	at      time.Time
}

func newShown(o Options) *shown {
	return &shown{log: o.Logger, topic: o.Policy.CheckpointsTopic(), now: o.Now,
		troubles: make(map[string]state.CheckpointsTrouble), met: make(map[string]meeting)}
}

// writes tells whether this process writes. While it does not, what it knew of
// troubles is another's.
func (s *shown) writes(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing = now; !now {
		clear(s.troubles)
		s.waiting = nil
	}
}

func (s *shown) looked(at time.Time, on int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks, s.on, s.seen = state.Seen{Time: at}, on, true
}

func (s *shown) wrote(at time.Time, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrotes, s.written = state.Seen{Time: at}, s.written+n
}

func (s *shown) beat(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats = state.Seen{Time: at}
}

func (s *shown) tally(t map[Verdict]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = t
}

// outcome shows what stands in the way of a topic, nil for nothing, and logs it when
// it begins and when it ends.
func (s *shown) outcome(topic string, err error) {
	s.mu.Lock()
	was, troubled := s.troubles[topic]
	now := troubleOf(topic, err)
	if err == nil {
		delete(s.troubles, topic)
	} else {
		s.troubles[topic] = now
	}
	s.mu.Unlock()
	switch {
	case err == nil && troubled:
		s.log.Info("a topic of MirrorMaker 2's is written again", keyTopic, topic)
	case err != nil && was.Reason != now.Reason:
		s.log.Warn("a topic of MirrorMaker 2's is not written", keyTopic, topic, keyReason, now.Reason, keyDetail, now.Detail, keyHint, now.Hint)
	}
}

func troubleOf(topic string, err error) state.CheckpointsTrouble {
	t := state.CheckpointsTrouble{Topic: topic}
	if err == nil {
		return t
	}
	t.Detail = err.Error()
	reason := remote.ReasonOf(err)
	if f := (*remote.Fault)(nil); errors.As(err, &f) {
		reason = f.Reason
	}
	if errors.Is(err, ownlog.ErrLost) {
		reason = state.TopicMissing
	}
	t.Hint = reason.About().Hint
	switch {
	case errors.Is(err, ErrSettings):
		t.Hint = settingsHint
	case reason == state.ControlUnwritable:
		reason, t.Hint = state.TopicRefused, refusedHint // that reason is of another topic
	}
	t.Reason = string(reason)
	return t
}

// others notes how many records of somebody else were met in a topic so far.
func (s *shown) others(topic string, records int64) {
	s.mu.Lock()
	was := s.met[topic]
	more := records > was.records
	if more {
		s.met[topic] = meeting{records, s.now()}
	}
	s.mu.Unlock()
	if more && (was.at.IsZero() || s.now().Sub(was.at) >= othersFor) {
		s.log.Warn("somebody else writes to a topic of MirrorMaker 2's that is klink's", keyTopic, topic, keyRecords, records, keyHint, othersHint)
	}
}

// report gives a copy; nil is that nothing is known here.
func (s *shown) report() *state.Checkpoints {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &state.Checkpoints{Topic: s.topic, Writing: s.writing, WrittenAt: s.wrotes, LookedAt: s.looks, BeatAt: s.beats, Written: s.written,
		Waiting: []state.CheckpointsWaiting{}, Troubles: []state.CheckpointsTrouble{}}
	if s.seen {
		n := int64(s.on)
		r.Checkpoints = &n
	}
	for _, v := range slices.Sorted(maps.Keys(s.waiting)) {
		if v != Current && v != Changed {
			r.Waiting = append(r.Waiting, state.CheckpointsWaiting{Reason: string(v), Offsets: int64(s.waiting[v])})
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(s.troubles)) {
		r.Troubles = append(r.Troubles, s.troubles[topic])
	}
	for _, topic := range slices.Sorted(maps.Keys(s.met)) {
		if m := s.met[topic]; s.now().Sub(m.at) < othersFor {
			r.Troubles = append(r.Troubles, state.CheckpointsTrouble{Topic: topic, Reason: string(state.ForeignWrite),
				Detail: "somebody else writes to it", Hint: othersHint})
		}
	}
	return r
}

// Report returns what status shows of the topics.
func (t *Task) Report() *state.Checkpoints { return t.shown.report() }
