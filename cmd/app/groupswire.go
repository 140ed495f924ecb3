package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/linker"
	"klink/linker/control"
	"klink/linker/groups"
	"klink/linker/groups/commits"
	"klink/linker/state"
	"klink/linker/topics"
	"klink/translate/exact"
)

// groupSync carries a link's group offsets over, through the control topic that
// the link opened.
type groupSync struct {
	link string
	sync *groups.Syncer
	// translator is asked of topics that are in checkpoint mode on record, whatever the
	// link is configured to; endTranslator ends it.
	translator    *mapTranslator
	endTranslator func()

	mu    sync.Mutex // guards store
	store *control.Store
}

// groupOptions are what group sync needs beside the configuration.
type groupOptions struct {
	link    config.Link
	src     *kafka.Source
	dst     *kafka.Target
	matcher *topics.Matcher
	lease   linker.Lease
	worker  string
	// topics are the link's as in its report.
	topics func() []state.Topic
	// translate is the link's; see linker.Link.Translate.
	translate func(topic string, partition int32, srcOffset int64) exact.Answer
	// last is for groups.Options.
	last func(ctx context.Context, topics []string) error
	deps Deps
}

// newGroupSync returns nil where the link selects no groups.
func newGroupSync(o groupOptions) (*groupSync, error) {
	l := o.link
	if len(l.Groups.Include) == 0 {
		return nil, nil
	}
	filter, err := groups.NewFilter(l.Groups.Include, l.Groups.Exclude)
	if err != nil {
		return nil, &UsageError{Command: "run", What: fmt.Sprintf("link %s: groups.%v", l.Name, err)}
	}
	g := groups.Options{Link: l.Name, Worker: o.worker, Source: o.src.Groups, Target: o.dst.Groups, Committers: o.dst.Commits,
		Filter: filter, MirrorOf: mirrorOf(o.matcher), Topics: o.topics, Lease: o.lease, Interval: l.Groups.Interval,
		Last: o.last, Logger: o.deps.Logger, Meter: o.deps.Meter}
	if l.Groups.Tail == config.TailAuto {
		g.NewTail = newTail(o.src.Follow, o)
	}
	out := &groupSync{link: l.Name}
	out.translator, out.endTranslator = newMapTranslator(l.Name, o.dst.Admin, o.deps.Logger.With("link", l.Name))
	out.translator.here, out.translator.topic = o.translate, out.topic
	g.Translator = out.translator
	if out.sync, err = groups.New(g); err != nil {
		out.endTranslator()
		return nil, err
	}
	return out, nil
}

// topic is what is on record of a source topic.
func (g *groupSync) topic(source string) (control.TopicRecord, bool) {
	g.mu.Lock()
	store := g.store
	g.mu.Unlock()
	if store == nil {
		return control.TopicRecord{}, false
	}
	return store.Topic(g.link, source)
}

func (g *groupSync) close() {
	if g != nil {
		g.endTranslator()
	}
}

// newTail makes followers of the source's __consumer_offsets.
func newTail(cl *kgo.Client, o groupOptions) func(group, topic func(string) bool) groups.Tail {
	return func(group, topic func(string) bool) groups.Tail {
		return commits.New(commits.Options{Client: cl, Group: group, Topic: topic, Logger: o.deps.Logger.With("link", o.link.Name)})
	}
}

// mirrorOf tells which topics are mirrored, and to where, by the configuration.
func mirrorOf(m *topics.Matcher) func(string) (string, bool) {
	return func(source string) (string, bool) {
		if m.Match(source, false) != "" {
			return "", false
		}
		return m.Target(source), true
	}
}

// port is what the link is given: nil where there is no group sync.
func (g *groupSync) port() linker.Groups {
	if g == nil {
		return nil
	}
	return g
}

// use gives it the control topic.
func (g *groupSync) use(s *control.Store) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.store = s
}

// Run implements linker.Groups; the link opened the control topic before.
func (g *groupSync) Run(ctx context.Context) error {
	g.mu.Lock()
	store := g.store
	g.mu.Unlock()
	if store == nil {
		return errors.New("carry group offsets: the control topic is not open")
	}
	return g.sync.Run(ctx, store)
}

// Report implements linker.Groups.
func (g *groupSync) Report() []state.Group { return g.sync.Report() }
