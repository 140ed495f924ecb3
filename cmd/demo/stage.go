package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
)

// topic is one that is mirrored, with its share of the load.
type topic struct {
	name       string
	partitions int32
	codec      string
	percent    int // of all records
}

// cast are the topics of the story: each codec once.
var cast = []topic{
	{"orders", 6, "lz4", 30},
	{"payments", 4, "none", 25},
	{"clicks", 4, "zstd", 25},
	{"sensors", 3, "snappy", 15},
	{"audit", 1, "gzip", 5},
}

// group is the application that moves to the target.
const group = "billing"

// brokers of each cluster.
const brokers = 2

func names(topics []topic) (out []string) {
	for _, t := range topics {
		out = append(out, t.name)
	}
	return out
}

// stage is the two clusters and what loads the source.
type stage struct {
	source, target *lab.Embedded
	loads          []*lab.Load // also those that have ended
}

// raise starts both clusters, with the topics on the source.
func raise(ctx context.Context) (*stage, error) {
	s := &stage{}
	if err := s.bringUp(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("set up the clusters: %w", err), s.close())
	}
	return s, nil
}

func (s *stage) bringUp(ctx context.Context) (err error) {
	// Only the source has proxies: they are the listeners that it loses.
	if s.source, err = lab.StartEmbedded(ctx, lab.EmbeddedOptions{Brokers: brokers, Proxy: true, Opts: identity("demo-source")}); err != nil {
		return err
	}
	if s.target, err = lab.StartEmbedded(ctx, lab.EmbeddedOptions{Brokers: brokers, Opts: identity("demo-target")}); err != nil {
		return err
	}
	var specs []lab.TopicSpec
	for _, t := range cast {
		specs = append(specs, lab.TopicSpec{Name: t.name, Partitions: t.partitions, Configs: lab.KeepEverything()})
	}
	return lab.CreateTopics(ctx, s.source, specs...)
}

// identity gives a cluster an id of its own; klink refuses to mirror a cluster
// to itself.
func identity(id string) []kfake.Opt { return []kfake.Opt{kfake.ClusterID(id)} }

// maxBatch is the most records in a batch: some kilobytes, as producers that
// wait a few milliseconds make them.
const maxBatch = 40

// produce loads the source with so many records per second, over all topics.
func (s *stage) produce(ctx context.Context, perSecond int) error {
	now := time.Now()
	for i, t := range cast {
		l, err := lab.StartLoad(ctx, lab.At(s.source.ClientOpts()), lab.LoadOptions{
			Topics: []string{t.name}, Codecs: []string{t.codec}, Seed: uint64(i), MaxBatch: min(maxBatch, max(1, perSecond/10)),
			RecordsPerSecond: max(1, perSecond*t.percent/100), From: now.Add(-time.Hour), To: now,
		})
		if err != nil {
			return fmt.Errorf("load the source: %w", err)
		}
		s.loads = append(s.loads, l)
	}
	return nil
}

// records counts what the source has acknowledged.
func (s *stage) records() (n int64) {
	for _, l := range s.loads {
		n += l.Report().Acked
	}
	return n
}

// quiet ends loads, all at once, since producers may wait for a dead source.
func quiet(loads []*lab.Load) {
	var ends sync.WaitGroup
	for _, l := range loads {
		ends.Go(func() { l.Crash() })
	}
	ends.Wait()
}

// kill closes the source's listeners and resets all its connections (D1).
func (s *stage) kill() error {
	var errs []error
	for _, p := range s.source.Proxies() {
		errs = append(errs, p.SetMode(proxy.Refuse))
	}
	for _, p := range s.source.Proxies() {
		p.CutAll()
	}
	return errors.Join(errs...)
}

// reopen lets clients reach the source again.
func (s *stage) reopen() error {
	var errs []error
	for _, p := range s.source.Proxies() {
		errs = append(errs, p.SetMode(proxy.Pass))
	}
	return errors.Join(errs...)
}

// close ends the loads and both clusters.
func (s *stage) close() error {
	quiet(s.loads)
	var errs []error
	for _, c := range []*lab.Embedded{s.source, s.target} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
