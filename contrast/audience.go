package contrast

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// audience is a consumer at the target that notes all it is given, until it is
// closed.
type audience struct {
	client *kgo.Client
	names  map[string]string // source topic names by target names
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex // guards copies
	copies map[lab.Partition][]Copy
}

// attend starts a consumer. With starts it takes those partitions from these
// offsets on, else all of the topics from their beginning, also of topics that do
// not exist yet. names are target names by source names.
func attend(c Cluster, names map[string]string, starts map[lab.Partition]int64) (*audience, error) {
	a := &audience{names: map[string]string{}, done: make(chan struct{}), copies: map[lab.Partition][]Copy{}}
	opts := append(slices.Clone(c.AdminOpts()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.MetadataMinAge(clientAge), kgo.DisableClientMetrics(), kgo.UnknownTopicRetries(-1),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var topics []string
	for src, dst := range names {
		topics, a.names[dst] = append(topics, dst), src
	}
	if starts == nil {
		opts = append(opts, kgo.ConsumeTopics(topics...))
	} else {
		places := map[string]map[int32]kgo.Offset{}
		for p, at := range starts {
			topic := names[p.Topic]
			if places[topic] == nil {
				places[topic] = map[int32]kgo.Offset{}
			}
			places[topic][p.Number] = kgo.NewOffset().At(at)
		}
		opts = append(opts, kgo.ConsumePartitions(places))
	}
	var err error
	if a.client, err = kgo.NewClient(opts...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		defer close(a.done)
		for ctx.Err() == nil {
			a.note(a.client.PollFetches(ctx))
		}
	}()
	return a, nil
}

func (a *audience) note(fetches kgo.Fetches) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		if serial, ok := serialOf(r); ok {
			p := lab.Partition{Topic: a.names[r.Topic], Number: r.Partition}
			a.copies[p] = append(a.copies[p], Copy{Serial: serial, Offset: r.Offset, At: now})
		}
	})
}

// given is what it was given of a partition.
func (a *audience) given(p lab.Partition) []Copy {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.copies[p])
}

// first is when it was first given a record that fits; zero for not yet.
func (a *audience) first(fits func(lab.Partition, Copy) bool) (at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, copies := range a.copies {
		for _, c := range copies {
			if fits(p, c) && (at.IsZero() || c.At.Before(at)) {
				at = c.At
			}
		}
	}
	return at
}

func (a *audience) close() {
	a.cancel()
	<-a.done
	a.client.Close()
}
