package linker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
)

// CatalogOptions of NewCatalog. All are required.
type CatalogOptions struct {
	// Src and Dst ask the two clusters; Src is only read.
	Src, Dst *kgo.Client
	Matcher  *topics.Matcher
	// Plan holds the link's settings. CopyRetention is for a link that does not
	// follow the source's log start; Owner and Recorded come with each call.
	Plan   topics.PlanOptions
	Logger *slog.Logger
}

// clusterCatalog is the Catalog over real clusters.
type clusterCatalog struct {
	o      CatalogOptions
	target *topics.Target
	admin  *kadm.Client

	mu     sync.Mutex // guards all below
	plans  map[string]topics.Plan
	told   map[string]bool
	expiry time.Duration
}

// stockExpiry is producer.id.expiration.ms as brokers come.
const stockExpiry = 24 * time.Hour

// NewCatalog returns the Catalog of a link over its two clusters.
func NewCatalog(o CatalogOptions) Catalog {
	return &clusterCatalog{o: o, target: topics.NewTarget(o.Dst, control.TopicName), admin: kadm.NewClient(o.Dst), told: make(map[string]bool)}
}

// Find lists the selected topics, and those that are included by name or were
// mirrored before and are not there to be seen. What is passed over is logged
// once.
func (c *clusterCatalog) Find(ctx context.Context, records []control.TopicRecord) ([]Found, *Trouble) {
	d, err := topics.Discover(ctx, c.o.Src, c.o.Matcher, mirrored(records)...)
	if err != nil {
		return nil, clusterTrouble(srcSide, err)
	}
	c.tell(d)
	plans := make(map[string]topics.Plan, len(d.Topics))
	out := make([]Found, 0, len(d.Topics))
	rules := c.o.Plan
	rules.Owner = owners(records)
	for _, p := range topics.PlanAll(d.Topics, rules) {
		plans[p.Source.Name] = p
		traits := p.Source.Configs.Traits()
		f := Found{Topic: p.Source.Name, ID: p.Source.ID, Partitions: p.Partitions, Target: p.Target,
			Compacted: traits.Compacts, Traits: traits, OnRecord: onRecord(p.Source.Configs)}
		if p.Reason != "" {
			side := dstSide
			if p.Source.Reason != "" {
				side = srcSide
			}
			f.Trouble = topicTrouble(side, p.Reason, p.Detail)
		}
		out = append(out, f)
	}
	for _, m := range d.Missing {
		out = append(out, Found{Topic: m.Name, Target: c.o.Matcher.Target(m.Name),
			Trouble: topicTrouble(srcSide, m.Reason, m.Detail)})
	}
	c.mu.Lock()
	c.plans = plans
	c.mu.Unlock()
	return out, nil
}

// The sides of a link, as details name them.
const (
	srcSide = "source"
	dstSide = "target"
)

// topicTrouble is about one topic. A missing right is one on a certain side.
func topicTrouble(side string, reason state.Reason, detail string) *Trouble {
	if reason == state.NoPermission {
		detail = side + ": " + detail
	}
	return &Trouble{Reason: reason, Detail: detail, OnSource: side == srcSide}
}

// clusterTrouble says which cluster an error came from.
func clusterTrouble(side string, err error) *Trouble {
	var f *remote.Fault
	if errors.As(err, &f) {
		return &Trouble{Reason: f.Reason, Detail: side + ": " + f.Error()}
	}
	return &Trouble{Reason: remote.ReasonOf(err), Detail: fmt.Sprintf("%s: %v", side, err)}
}

// tell logs what is not mirrored, each name once.
func (c *clusterCatalog) tell(d topics.Discovered) {
	for _, s := range d.Skipped {
		c.once("skip "+s.Name, slog.LevelInfo, "topic is not mirrored", "topic", s.Name, "why", string(s.Why))
	}
	for _, p := range d.Unmatched {
		c.once("none "+p, slog.LevelWarn, "a pattern selects nothing", "pattern", p)
	}
}

func (c *clusterCatalog) once(key string, level slog.Level, msg string, args ...any) {
	c.mu.Lock()
	told := c.told[key]
	c.told[key] = true
	c.mu.Unlock()
	if !told {
		c.o.Logger.Log(context.Background(), level, msg, args...)
	}
}

// Existing asks the target for topics by name.
func (c *clusterCatalog) Existing(ctx context.Context, targets []string) (map[string]bool, *Trouble) {
	there, err := topics.Existing(ctx, c.o.Dst, targets)
	if err != nil {
		return nil, clusterTrouble(dstSide, err)
	}
	return there, nil
}

// Prepare makes, grows and checks target topics.
func (c *clusterCatalog) Prepare(ctx context.Context, found []Found, recorded func(source string) topics.Recorded) (map[string]Prepared, *Trouble) {
	plans := make([]topics.Plan, 0, len(found))
	c.mu.Lock()
	for _, f := range found {
		p := c.plans[f.Topic]
		p.CopyRetention = p.CopyRetention || recorded(f.Topic).Drifts
		p.Recorded = func() topics.Recorded { return recorded(f.Topic) }
		plans = append(plans, p)
	}
	c.mu.Unlock()
	outcomes, err := c.target.Ensure(ctx, plans)
	if err != nil {
		return nil, clusterTrouble(dstSide, err)
	}
	out := make(map[string]Prepared, len(outcomes))
	for _, o := range outcomes {
		c.tellOutcome(o)
		p := Prepared{ID: o.ID, Created: o.Created, MaxBatchBytes: int(o.MaxMessageBytes),
			CleanupPolicy: o.CleanupPolicy, Unfollowed: o.Unfollowed}
		if o.Reason != "" {
			p.Trouble = topicTrouble(dstSide, o.Reason, o.Detail)
		}
		out[o.SourceTopic] = p
	}
	return out, nil
}

func (c *clusterCatalog) tellOutcome(o topics.Outcome) {
	log := c.o.Logger.With("topic", o.SourceTopic, "target_topic", o.TargetTopic)
	if o.Created {
		log.Info("target topic created", "partitions", o.Partitions)
	}
	if o.Grown {
		log.Info("partitions added to the target topic", "partitions", o.Partitions)
	}
	for _, s := range o.Changed {
		log.Info("setting of the target topic changed", "key", s.Key, "was", s.Have, "value", s.Want)
	}
	for _, d := range o.Dropped {
		c.once("drop "+o.SourceTopic+" "+d.Key, slog.LevelInfo, "setting not copied", "topic", o.SourceTopic, "key", d.Key, "value", d.Value, "why", d.Why)
	}
	for _, w := range o.Warnings {
		c.once("warn "+o.SourceTopic+" "+w, slog.LevelWarn, "target topic", "topic", o.SourceTopic, "warning", w)
	}
}

// ExpireProducers reads the setting from any broker of the target, once.
func (c *clusterCatalog) ExpireProducers(ctx context.Context) time.Duration {
	c.mu.Lock()
	known := c.expiry
	c.mu.Unlock()
	if known > 0 {
		return known
	}
	brokers, err := c.admin.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return stockExpiry
	}
	configs, err := c.admin.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		return stockExpiry
	}
	for _, r := range configs {
		for _, kv := range r.Configs {
			if kv.Key != "producer.id.expiration.ms" || kv.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*kv.Value, 10, 64); err == nil && ms > 0 {
				known = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if known == 0 {
		return stockExpiry
	}
	c.mu.Lock()
	c.expiry = known
	c.mu.Unlock()
	return known
}
