package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/config"
	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/proc"
	"klink/cmd/lab/shapes"
	"klink/contrast"
)

// ContrastRequest is what is to be set side by side.
type ContrastRequest struct {
	Seed uint64
	Load time.Duration
	// Rate is in records per second.
	Rate      int
	BulkBytes int64
	// Link has the user's own clusters; nil for clusters that are started.
	Link *config.Link
	// Kafka is a version of real clusters; "" is embedded ones.
	Kafka string
	// MM2 runs MirrorMaker 2, too, which needs real clusters.
	MM2 bool
	// Only is the one mode to run; "" is all that there are.
	Only string
	Say  func(string)
}

// contrastPrefix is before the names on clusters that are started, and the name of
// the link there.
const contrastPrefix = "contrast-"

// runContrast sets the modes that there are side by side. klink makes command lines
// of this program.
func runContrast(klink func(args ...string) (*exec.Cmd, error)) func(context.Context, ContrastRequest) (contrast.Result, error) {
	return func(ctx context.Context, req ContrastRequest) (contrast.Result, error) {
		l := config.DefaultLink()
		o := contrast.Options{Seed: req.Seed, Load: req.Load, Rate: req.Rate, BulkBytes: req.BulkBytes, Say: req.Say}
		var clusters string
		switch {
		case req.Link != nil:
			clusters = "those of link " + req.Link.Name
			l.Source, l.Target, l.Limits, l.Topics.ReplicationFactor = req.Link.Source, req.Link.Target, req.Link.Limits, req.Link.Topics.ReplicationFactor
			l.Groups.Tail, l.Groups.Interval = req.Link.Groups.Tail, req.Link.Groups.Interval
			o.Raise = func(context.Context) (*contrast.Stage, error) { return enterClusters(*req.Link), nil }
		case req.Kafka != "":
			clusters = "Apache Kafka " + req.Kafka + ": one broker a side, on this machine"
			o.Raise = func(ctx context.Context) (*contrast.Stage, error) { return raiseKafka(ctx, req.Kafka) }
		default:
			clusters = "embedded, in this process: one broker a side, in memory"
			l.Groups.Tail, l.Groups.Interval = config.TailOff, fakeInterval // fake clusters have no __consumer_offsets
			o.Raise = raiseEmbedded
		}
		var err error
		if o.Modes, err = contrastModes(ctx, req, l, klink); err != nil {
			return contrast.Result{}, err
		}
		r, err := contrast.Run(ctx, o)
		r.Clusters, r.Machine = clusters, strings.Join(proc.Machine(), ", ")
		return r, err
	}
}

const fakeInterval = 200 * time.Millisecond

// contrastModes are those that this klink has, and MirrorMaker 2's where they are
// wanted.
func contrastModes(ctx context.Context, req ContrastRequest, l config.Link, klink func(args ...string) (*exec.Cmd, error)) ([]contrast.Mode, error) {
	var all []contrast.Mode
	for _, mode := range []config.Mode{config.ModeMirror, config.ModeCheckpoint} {
		if hasMode(mode) {
			all = append(all, klinkMode{mode: mode, link: l, klink: klink, promise: klinkPromises[mode]})
		}
	}
	if req.MM2 {
		req.Kafka = cmp.Or(req.Kafka, install.Newest)
	}
	kafka, err := contrastKafka(ctx, req.Kafka)
	if err != nil {
		return nil, err
	}
	if req.MM2 {
		all = append(all, mm2Modes(kafka)...)
	}
	if req.Only == "" {
		return all, nil
	}
	var names []string
	for _, m := range all {
		if m.Name() == req.Only {
			return []contrast.Mode{m}, nil
		}
		names = append(names, m.Name())
	}
	return nil, &UsageError{Command: "contrast", What: fmt.Sprintf("there is no mode %q; allowed: %s", req.Only, strings.Join(names, ", "))}
}

// contrastKafka makes sure of a version before anything is measured: without it every
// mode would fail for the same reason. nil for "".
func contrastKafka(ctx context.Context, version string) (*install.Distribution, error) {
	if version == "" {
		return nil, nil
	}
	kafka, err := install.Kafka(ctx, version)
	known := fmt.Sprintf("known to work: %s, %s", install.Newest, install.Oldest)
	switch {
	case errors.Is(err, install.ErrNoVersion):
		return nil, &UsageError{Command: "contrast", What: fmt.Sprintf("--%s: %v; %s", flagKafka, err, known)}
	case errors.Is(err, install.ErrNotFetched):
		return nil, fmt.Errorf("--%s: %w; %s", flagKafka, err, known)
	}
	return kafka, err
}

// hasMode tells whether this klink can run links in a mode.
func hasMode(mode config.Mode) bool {
	_, err := config.Load(config.Options{Flags: config.Flags{Source: []string{"source:1"}, Target: []string{"target:1"}, Topics: []string{"any"}, Mode: string(mode)}})
	return err == nil
}

// thisProgram makes a command line of the running program.
func thisProgram(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, args...), nil
}

// raiseEmbedded starts two embedded clusters.
func raiseEmbedded(ctx context.Context) (*contrast.Stage, error) {
	src, err := lab.StartEmbedded(ctx, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("contrast-source")}})
	if err != nil {
		return nil, err
	}
	dst, err := lab.StartEmbedded(ctx, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("contrast-target")}})
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return &contrast.Stage{Prefix: contrastPrefix, Source: src, Target: dst,
		Clean: func(context.Context, string) error { src.Cluster().Compact(); return nil },
		Kill:  func(context.Context) error { src.Stop(); return nil },
		Close: func() error { return errors.Join(src.Close(), dst.Close()) }}, nil
}

// raiseKafka starts two real clusters.
func raiseKafka(ctx context.Context, version string) (*contrast.Stage, error) {
	var src, dst *lab.Kafka
	var starts errgroup.Group
	start := func(k **lab.Kafka) {
		starts.Go(func() (err error) {
			*k, err = lab.StartKafka(ctx, lab.KafkaOptions{Version: version, Props: shapes.BrokerProps()})
			return err
		})
	}
	start(&src)
	start(&dst)
	err := starts.Wait()
	shut := func() error {
		var errs []error
		for _, k := range []*lab.Kafka{src, dst} {
			if k != nil {
				errs = append(errs, k.Close())
			}
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, errors.Join(err, shut())
	}
	return &contrast.Stage{Prefix: contrastPrefix, Source: src, Target: dst, Close: shut,
		Clean: func(ctx context.Context, topic string) error { return awaitCleaned(ctx, src, topic) },
		Kill:  func(context.Context) error { return src.Broker(1).Kill() }}, nil
}

// cleanTimeout bounds the wait for a cleaner, which is told to begin at once.
const cleanTimeout = 30 * time.Second

// awaitCleaned waits until a real broker's cleaner has made holes in every
// partition of a topic. Then segments become long, so that it rests.
func awaitCleaned(ctx context.Context, c lab.Cluster, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	bounds, err := lab.ReadBounds(ctx, c, lab.ReadUncommitted, topic)
	for p := range bounds {
		err = errors.Join(err, awaitHoles(ctx, c, p))
	}
	if err != nil {
		return fmt.Errorf("wait until %s is cleaned: %w", topic, err)
	}
	client, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		return err
	}
	defer client.Close()
	set := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "segment.ms"}
	_, err = kadm.NewClient(client).AlterTopicConfigs(ctx, []kadm.AlterConfig{set}, topic)
	return err
}

// awaitHoles waits until there are fewer records than offsets.
func awaitHoles(ctx context.Context, c lab.Cluster, p lab.Partition) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		batches, bounds, err := lab.Scan(ctx, c, p)
		if err != nil {
			return err
		}
		var records int64
		for _, b := range batches {
			records += int64(b.Count)
		}
		if records < bounds.End-bounds.Start {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
