package topics

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

// topicsPerRequest bounds the size of requests that name topics.
const topicsPerRequest = 500

// SourceTopic is one topic of the source that the rules select.
type SourceTopic struct {
	Name string
	// Target is its name on the target by the rules.
	Target string
	// ID is zero where the cluster has no topic ids.
	ID feed.TopicID
	// Leaders is indexed by partition; its length is the partition count.
	Leaders []leaders.Leader
	// Replicas is the replication factor of partition 0.
	Replicas int
	// Configs is nil where they could not be read; ConfigsErr says why.
	Configs    Settings
	ConfigsErr error
	// Reason is not "" where the cluster told nothing usable of the topic.
	Reason state.Reason
	Detail string
}

// Skipped is a topic that an include pattern selects and that is not mirrored.
type Skipped struct {
	Name string
	Why  Skip
}

// Missing is a topic that is included by its exact name, or known from before,
// and was not found.
type Missing struct {
	Name   string
	Reason state.Reason // TOPIC_MISSING or NO_PERMISSION
	Detail string
}

// Discovered is what one look at the source gave. All lists are sorted by name.
type Discovered struct {
	ClusterID string
	Topics    []SourceTopic
	Skipped   []Skipped
	Missing   []Missing
	// Unmatched are include patterns that select nothing.
	Unmatched []string
}

// Discover asks the source for the topics that the rules select: ids, partitions
// and leaders by Metadata, settings by DescribeConfigs. It changes nothing there
// (T1). Topics known from before that the rules select still are missed like
// those included by name. The error is a *remote.Fault: the cluster gave no list
// at all.
func Discover(ctx context.Context, src *kgo.Client, m *Matcher, known ...string) (Discovered, error) {
	all, err := metadata(ctx, src, nil)
	if err != nil {
		return Discovered{}, err
	}
	d := Discovered{ClusterID: all.clusterID}
	listed := make(map[string]bool)
	var names []string
	for _, t := range all.topics {
		listed[t.Name] = true
		names = append(names, t.Name)
		switch why := m.Match(t.Name, t.internal); why {
		case "":
			t.Target = m.Target(t.Name)
			d.Topics = append(d.Topics, t.SourceTopic)
		case NotIncluded:
		default:
			d.Skipped = append(d.Skipped, Skipped{t.Name, why})
		}
	}
	d.Unmatched = m.Unmatched(names)
	expected := m.Names()
	for _, n := range known {
		if m.Match(n, false) == "" {
			expected = append(expected, n)
		}
	}
	if d.Missing, err = missing(ctx, src, expected, listed); err != nil {
		return Discovered{}, err
	}
	slices.SortFunc(d.Topics, func(a, b SourceTopic) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Name, b.Name) })
	return d, addConfigs(ctx, src, d.Topics)
}

// missing asks for expected topics that were not listed: a list leaves out what one
// may not see, but a question by name is answered with the reason.
func missing(ctx context.Context, src *kgo.Client, names []string, listed map[string]bool) ([]Missing, error) {
	var ask []string
	for _, n := range names {
		if !listed[n] && checkTargetName(n) == nil {
			ask = append(ask, n)
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	slices.Sort(ask)
	ask = slices.Compact(ask)
	answer, err := metadata(ctx, src, ask)
	if err != nil {
		return nil, err
	}
	var out []Missing
	for _, t := range answer.topics {
		switch t.Reason {
		case "": // made between the two questions: the next look finds it
		case state.NoPermission:
			out = append(out, Missing{t.Name, t.Reason, t.Detail})
		default:
			out = append(out, Missing{t.Name, state.TopicMissing, "the source has no topic of this name"})
		}
	}
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// listedTopic is a topic as Metadata tells it.
type listedTopic struct {
	SourceTopic
	internal bool
}

type listing struct {
	clusterID string
	topics    []listedTopic
}

// metadata asks for the named topics, or for all where names is nil.
func metadata(ctx context.Context, cl *kgo.Client, names []string) (listing, error) {
	var out listing
	rest := names
	for first := true; first || len(rest) > 0; first = false {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = false // T1
		if names != nil {
			n := min(len(rest), topicsPerRequest)
			req.Topics = []kmsg.MetadataRequestTopic{}
			for _, name := range rest[:n] {
				t := kmsg.NewMetadataRequestTopic()
				t.Topic = kmsg.StringPtr(name)
				req.Topics = append(req.Topics, t)
			}
			rest = rest[n:]
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return listing{}, remote.Classify("list topics", "", err)
		}
		if resp.ClusterID != nil {
			out.clusterID = *resp.ClusterID
		}
		for i := range resp.Topics {
			if t := &resp.Topics[i]; t.Topic != nil {
				out.topics = append(out.topics, readTopic(t))
			}
		}
	}
	return out, nil
}

func readTopic(a *kmsg.MetadataResponseTopic) listedTopic {
	t := listedTopic{SourceTopic: SourceTopic{Name: *a.Topic, ID: a.TopicID,
		Leaders: make([]leaders.Leader, len(a.Partitions))}, internal: a.IsInternal}
	for i := range t.Leaders {
		t.Leaders[i] = leaders.Leader{Broker: -1, Epoch: -1}
	}
	for _, p := range a.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(t.Leaders) {
			continue
		}
		t.Leaders[p.Partition] = leaders.Leader{Broker: p.Leader, Epoch: p.LeaderEpoch}
		if p.Partition == 0 {
			t.Replicas = len(p.Replicas)
		}
	}
	err := kerr.ErrorForCode(a.ErrorCode)
	if err == nil && len(t.Leaders) == 0 {
		err = kerr.LeaderNotAvailable // still being made
	}
	if err != nil {
		t.Reason = remote.ReasonOf(err)
		t.Detail = err.Error()
		if t.Reason == state.NoPermission {
			t.Detail = "missing right: " + remote.Right("Describe", "topic", t.Name)
		}
	}
	return t
}

// addConfigs fills in what the source tells of settings. Where it does not, the
// topic carries the error and is mirrored with the forced settings alone.
func addConfigs(ctx context.Context, src *kgo.Client, topics []SourceTopic) error {
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		names = append(names, t.Name)
	}
	configs, err := describeConfigs(ctx, src, names)
	if errors.Is(err, context.Canceled) {
		return err
	}
	for i := range topics {
		c, ok := configs[topics[i].Name]
		switch {
		case ok:
			topics[i].Configs, topics[i].ConfigsErr = c.settings, c.err
		case err != nil:
			topics[i].ConfigsErr = err
		default:
			topics[i].ConfigsErr = errors.New("the answer does not hold the topic")
		}
	}
	return nil
}

type described struct {
	settings Settings
	err      error
}

// describeConfigs gives what could be learned, and the first error of a whole
// request. cl is a client, or one broker of it.
func describeConfigs(ctx context.Context, cl kmsg.Requestor, names []string) (map[string]described, error) {
	out := make(map[string]described, len(names))
	for chunk := range slices.Chunk(names, topicsPerRequest) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, n := range chunk {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, n
			req.Resources = append(req.Resources, r)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return out, remote.Classify("describe configs", "", err)
		}
		for i := range resp.Resources {
			r := &resp.Resources[i]
			d := described{}
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				d.err = remote.Classify("describe configs", remote.Right("DescribeConfigs", "topic", r.ResourceName),
					remote.WithMessage(err, r.ErrorMessage))
			} else {
				d.settings = readSettings(r.Configs)
			}
			out[r.ResourceName] = d
		}
	}
	return out, nil
}

func readSettings(configs []kmsg.DescribeConfigsResponseResourceConfig) Settings {
	s := make(Settings, len(configs))
	for _, c := range configs {
		if c.Value == nil { // sensitive, or has none
			continue
		}
		s[c.Name] = Setting{Value: *c.Value, Explicit: c.Source == kmsg.ConfigSourceDynamicTopicConfig}
	}
	return s
}
