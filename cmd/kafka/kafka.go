package kafka

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"klink/cmd/config"
)

// Options say for whom clients are made.
type Options struct {
	Link config.Link
	// FetchMemory is the budget of the process; it bounds what a Fetch may answer.
	FetchMemory config.Bytes
	// Version of klink, told to the brokers (KIP-511); "" is dev.
	Version string
	// Logger takes what kgo has to say, at debug level; nil drops it.
	Logger *slog.Logger
	// Dial opens the connections below TLS; nil is TCP.
	Dial DialFunc
}

// Source holds the clients of a link's source.
type Source struct {
	// Fetch is for Fetch long polls alone.
	Fetch *kgo.Client
	// Short is for the short polls beside the long ones.
	Short *kgo.Client
	// Admin is for everything else: metadata, ListOffsets, OffsetForLeaderEpoch,
	// and single reads.
	Admin *kgo.Client
	// Groups asks for groups and their offsets, and Follow reads __consumer_offsets;
	// nil where the link selects no groups.
	Groups, Follow *kgo.Client

	maker maker
}

// Target holds the clients of a link's target.
type Target struct {
	// Lanes are for Produce, one connection per broker each.
	Lanes []*kgo.Client
	// Slow is for Produce to partitions that hold others up.
	Slow *kgo.Client
	// Admin is for metadata, log ends, topics and configs.
	Admin *kgo.Client
	// Control is for the control topic alone; it may produce and consume.
	Control *kgo.Client
	// Maps is for the topic of maps alone, like Control. A topic that is in checkpoint
	// mode on record stays so, whatever the link is configured to by now.
	Maps *kgo.Client
	// Checkpoints is for MirrorMaker 2's topics alone; nil where the link is configured
	// for none.
	Checkpoints *kgo.Client
	// Markers and MarkerBulks are for WriteTxnMarkers alone (K6).
	Markers     *kgo.Client
	MarkerBulks *kgo.Client
	// Groups asks for groups and their offsets, and Commits write them, one
	// connection per broker each; nil where the link selects no groups.
	Groups  *kgo.Client
	Commits []*kgo.Client

	maker maker
}

// OpenSource makes the source's clients. It dials nothing: a cluster that is
// down shows in the first request, or in Ping.
func OpenSource(o Options) (*Source, error) {
	m := newMaker(o, o.Link.Source)
	s := &Source{maker: m}
	err := m.makeAll(map[role]**kgo.Client{roleFetch: &s.Fetch, roleShort: &s.Short, roleSourceAdmin: &s.Admin})
	if err == nil && len(o.Link.Groups.Include) > 0 {
		err = m.makeAll(map[role]**kgo.Client{roleGroups: &s.Groups, roleFollow: &s.Follow})
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("make clients for the source of link %s: %w", o.Link.Name, err)
	}
	return s, nil
}

// OpenTarget makes the target's clients, with limits.connections_per_broker
// lanes. It dials nothing.
func OpenTarget(o Options) (*Target, error) {
	m := newMaker(o, o.Link.Target)
	t := &Target{maker: m}
	err := m.makeAll(map[role]**kgo.Client{roleSlow: &t.Slow, roleTargetAdmin: &t.Admin, roleControl: &t.Control,
		roleMaps: &t.Maps, roleMarkers: &t.Markers, roleMarkerBulks: &t.MarkerBulks})
	if err == nil {
		t.Lanes, err = m.makeMany(roleProduce, o.Link.Limits.ConnectionsPerBroker)
	}
	if err == nil && o.Link.Translates() {
		err = m.makeAll(map[role]**kgo.Client{roleCheckpoints: &t.Checkpoints})
	}
	if err == nil && len(o.Link.Groups.Include) > 0 {
		t.Commits, err = m.makeMany(roleCommit, commitConnections)
		err = errors.Join(err, m.makeAll(map[role]**kgo.Client{roleGroups: &t.Groups}))
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("make clients for the target of link %s: %w", o.Link.Name, err)
	}
	return t, nil
}

// Group makes one more client, for membership in a group; it is the caller's to
// close.
func (t *Target) Group(more ...kgo.Opt) (*kgo.Client, error) {
	return t.maker.make(roleGroup, more...)
}

// Close closes the clients and their connections.
func (s *Source) Close() { closeAll(s.Fetch, s.Short, s.Admin, s.Groups, s.Follow) }

// Close closes the clients and their connections.
func (t *Target) Close() {
	closeAll(t.Lanes...)
	closeAll(t.Commits...)
	closeAll(t.Slow, t.Admin, t.Control, t.Maps, t.Checkpoints, t.Markers, t.MarkerBulks, t.Groups)
}

func closeAll(clients ...*kgo.Client) {
	for _, cl := range clients {
		if cl != nil {
			cl.Close()
		}
	}
}

// maker makes the clients of one side of one link (K2).
type maker struct {
	options Options
	cluster config.Cluster
	dialer  dialer
}

func newMaker(o Options, c config.Cluster) maker {
	return maker{options: o, cluster: c, dialer: dialer{tls: c.TLS, dial: o.Dial}}
}

func (m maker) makeAll(clients map[role]**kgo.Client) error {
	for r, into := range clients {
		cl, err := m.make(r)
		if err != nil {
			return err
		}
		*into = cl
	}
	return nil
}

// makeMany makes several clients of a role; also with an error those that were
// made.
func (m maker) makeMany(r role, count int) (all []*kgo.Client, err error) {
	for range count {
		cl, err := m.make(r)
		if err != nil {
			return all, err
		}
		all = append(all, cl)
	}
	return all, nil
}

func (m maker) make(r role, extra ...kgo.Opt) (*kgo.Client, error) {
	version := m.options.Version
	if version == "" {
		version = "dev"
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(m.cluster.Brokers...),
		kgo.ClientID(fmt.Sprintf("%s-%s", m.options.Link.Name, r)),
		kgo.SoftwareNameAndVersion("klink", version),
		kgo.Dialer(r.dialer(m.dialer).Dial),
		kgo.RequestTimeoutOverhead(requestOverhead),
		kgo.ConnIdleTimeout(connIdle),
		kgo.DisableClientMetrics(),
	}
	if mech := mechanism(m.cluster.SASL); mech != nil {
		opts = append(opts, kgo.SASL(mech))
	}
	if m.options.Logger != nil {
		opts = append(opts, kgo.WithLogger(kslog.New(slog.New(quiet{m.options.Logger.With("client", string(r)).Handler()}))))
	}
	opts = append(append(opts, r.options(m.options.FetchMemory)...), extra...)
	return kgo.NewClient(opts...)
}
