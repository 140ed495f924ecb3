package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/contrast"
)

// ownCluster is a cluster of the user's.
type ownCluster struct {
	cluster config.Cluster
	opts    []kgo.Opt
}

func newOwnCluster(c config.Cluster, name string) ownCluster {
	return ownCluster{cluster: c, opts: kafka.OrdinaryOptions(c, name)}
}

// Bootstrap implements contrast.Cluster.
func (c ownCluster) Bootstrap() []string { return c.cluster.Brokers }

// AdminOpts implements lab.Cluster.
func (c ownCluster) AdminOpts() []kgo.Opt { return slices.Clone(c.opts) }

// enterClusters makes a stage of the user's own clusters: everything on it has a
// name that nobody else has, by which it is taken away again. Nothing is killed.
func enterClusters(l config.Link) *contrast.Stage {
	var tag [4]byte
	rand.Read(tag[:])
	name := "klink-contrast-" + hex.EncodeToString(tag[:])
	src, dst := newOwnCluster(l.Source, name), newOwnCluster(l.Target, name)
	return &contrast.Stage{Source: src, Target: dst, Prefix: name + "-", Close: func() error {
		return errors.Join(sweep(src, name, "source"), sweep(dst, name, "target"))
	}}
}

// sweepTimeout bounds the removal of a run's topics and groups; it also happens
// after Ctrl-C.
const sweepTimeout = 30 * time.Second

// sweep deletes all topics and groups that have a run's name in theirs.
func sweep(c ownCluster, name, side string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	client, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	err = errors.Join(sweepTopics(ctx, admin, name), sweepGroups(ctx, admin, name))
	if err != nil {
		return fmt.Errorf("%s: take away the topics and groups called %s: %w", side, name, err)
	}
	return nil
}

func sweepTopics(ctx context.Context, admin *kadm.Client, name string) error {
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	ours := slices.DeleteFunc(topics.Names(), func(t string) bool { return !strings.Contains(t, name) })
	if len(ours) == 0 {
		return nil
	}
	deleted, err := admin.DeleteTopics(ctx, ours...)
	for _, d := range deleted.Sorted() {
		if !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, d.Err)
		}
	}
	return err
}

func sweepGroups(ctx context.Context, admin *kadm.Client, name string) error {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	ours := slices.DeleteFunc(groups.Groups(), func(g string) bool { return !strings.Contains(g, name) })
	if len(ours) == 0 {
		return nil
	}
	deleted, err := admin.DeleteGroups(ctx, ours...)
	for _, d := range deleted.Sorted() {
		if !errors.Is(d.Err, kerr.GroupIDNotFound) {
			err = errors.Join(err, d.Err)
		}
	}
	return err
}
