package workers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/remote"
	"klink/linker/state"
)

// ErrNotJoined: the group has taken no notice of this process for a session
// timeout and more, and nobody has said why.
var ErrNotJoined = errors.New("the group's coordinator has not answered yet")

// topicMemory is how long an error about a topic is believed: kgo says it again
// with each metadata answer, which it asks for every 5 s while there is one.
const topicMemory = 15 * time.Second

// trouble is why no lease is held. Its fields are guarded by the owner's lock.
type trouble struct {
	ofGroup error
	ofTopic map[string]heard
	since   time.Time // there is something to share; zero: nothing
}

type heard struct {
	err error
	at  time.Time
}

// watching notes since when there is something to share.
func (t *trouble) watching(any bool, now time.Time) {
	switch {
	case !any:
		*t = trouble{}
	case t.since.IsZero():
		t.since = now
	}
}

// joined: the coordinator takes this process for a member.
func (t *trouble) joined() { t.ofGroup = nil }

func (t *trouble) group(name, op string, err error) {
	t.ofGroup = remote.Classify(op, remote.Right("Read", "group", name), err)
}

// outside: not a member yet, which nobody calls trouble at first.
func (t *trouble) outside(name string, now time.Time, patience time.Duration) {
	if t.ofGroup == nil && !t.since.IsZero() && now.Sub(t.since) > patience {
		t.ofGroup = &remote.Fault{Op: "join group " + name, Reason: state.Unreachable, Err: ErrNotJoined}
	}
}

func (t *trouble) topic(name string, err error, now time.Time) {
	if t.ofTopic == nil {
		t.ofTopic = make(map[string]heard)
	}
	t.ofTopic[name] = heard{remote.Classify("share topic "+name, remote.Right("Describe", "topic", name), err), now}
}

// assigned: the topics can be shared.
func (t *trouble) assigned(ps []Partition) {
	for _, p := range ps {
		delete(t.ofTopic, p.Topic)
	}
}

// now is the group's trouble, else that of the first topic by name.
func (t *trouble) now(at time.Time) error {
	if t.ofGroup != nil {
		return t.ofGroup
	}
	maps.DeleteFunc(t.ofTopic, func(_ string, h heard) bool { return at.Sub(h.at) > topicMemory })
	for _, name := range slices.Sorted(maps.Keys(t.ofTopic)) {
		return t.ofTopic[name].err
	}
	return nil
}

// Trouble is what keeps this process from holding partitions: a *remote.Fault
// whose Right names what is missing, as "Read on group east-west-klink", where
// that is it. It is nil while all is well and while nothing is known yet.
func (m *Members) Trouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble.now(time.Now())
}

// manageErrors hears of what ends kgo's group sessions.
type manageErrors struct{ m *Members }

// OnGroupManageError is kgo's hook.
func (h manageErrors) OnGroupManageError(err error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if !h.m.stopped {
		h.m.trouble.group(h.m.opts.Group, "join group "+h.m.opts.Group, err)
	}
}

// errors takes what kgo has to say about topics out of its fetches, which hold
// nothing else here.
func (m *Members) errors(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachError(func(topic string, _ int32, err error) {
			if topic == "" || ctx.Err() != nil {
				return // the group's come by the hook
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if _, ok := m.watched[topic]; ok {
				m.trouble.topic(topic, err, time.Now())
			}
		})
	}
}
