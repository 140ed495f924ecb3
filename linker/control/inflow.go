package control

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/intent"
	"klink/linker/ownlog"
	"klink/linker/remote"
	"klink/linker/state"
)

// Inflow is a mirror that ends in a topic of the cluster whose control topic is read.
type Inflow struct {
	Link, SourceTopic string
	// Clusters are those that its records came through, the nearest first.
	Clusters Clusters
	// Begun: it has a target topic; else the name is claimed for it.
	Begun bool
	// Stopped: it was promoted or failed over, and writes no more.
	Stopped bool
}

// Clusters are cluster ids in order; the zero value is none. It can be compared.
type Clusters string

// NewClusters makes a list of cluster ids, which hold no spaces.
func NewClusters(ids ...string) Clusters { return Clusters(strings.Join(ids, " ")) }

// All lists the ids.
func (c Clusters) All() []string { return strings.Fields(string(c)) }

// Holds tells whether a cluster is one of them.
func (c Clusters) Holds(id string) bool { return slices.Contains(c.All(), id) }

// Inflows gives the mirrors that end on this cluster, by its topics' names. What was
// taken off the record is none.
func (v *View) Inflows() map[string]Inflow {
	out := make(map[string]Inflow)
	for _, name := range v.linkNames() {
		l, ok := v.links[name]
		if !ok {
			continue
		}
		wanted := v.Intents(name)
		for _, r := range v.Topics(name) {
			if owner, ok := v.TopicOwner(r.TargetTopic); !ok || owner.Link != name {
				continue
			}
			want := wanted.Of(r.SourceTopic).Want
			if want == intent.Removed {
				continue
			}
			out[r.TargetTopic] = Inflow{Link: name, SourceTopic: r.SourceTopic, Begun: !r.TargetID.IsZero(), Stopped: want == intent.Stopped,
				Clusters: NewClusters(append([]string{l.SourceClusterID}, r.Origins.All()...)...)}
		}
	}
	return out
}

// InflowReader reads the inflows of a cluster that is only read: a link's source.
// Describe and Read on its control topic are all it needs. It is safe for concurrent
// use.
type InflowReader struct {
	cl *kgo.Client

	mu   sync.Mutex // guards all below; held over requests
	log  *ownlog.Log
	view *View
}

// NewInflowReader makes a reader; it dials nothing. Close must be called on it.
func NewInflowReader(cl *kgo.Client) *InflowReader { return &InflowReader{cl: cl} }

// Close ends the reader; not the client.
func (r *InflowReader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

func (r *InflowReader) forget() {
	if r.log != nil {
		r.log.Close()
	}
	r.log, r.view = nil, nil
}

// Inflows reads what is new on record. A cluster without a control topic, or one that
// does not show it, has no inflows. After an error the next call begins anew.
func (r *InflowReader) Inflows(ctx context.Context) (map[string]Inflow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		log := ownlog.New(r.cl, TopicName)
		if err := log.Locate(ctx); err != nil {
			log.Close()
			if remote.ReasonOf(err) == state.TopicMissing {
				return nil, nil
			}
			return nil, err
		}
		r.log, r.view = log, newView()
	}
	if err := readWhole(ctx, r.log, r.view.take); err != nil {
		r.forget()
		return nil, err
	}
	return r.view.Inflows(), nil
}
