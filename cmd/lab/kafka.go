package lab

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab/install"
	"klink/cmd/lab/proxy"
)

// Kafka is a real cluster of one or three brokers on 127.0.0.1.
type Kafka struct {
	opts      KafkaOptions
	dist      *install.Distribution
	run       *runDir
	clusterID string
	brokers   []*Broker
	secrets   *secrets // nil for Plaintext

	closing  sync.Once
	closeErr error
}

// StartKafka installs Kafka where needed and starts a cluster. It returns when
// every broker sees all of them; ctx bounds the start only. Close ends it.
func StartKafka(ctx context.Context, opts KafkaOptions) (*Kafka, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start a Kafka cluster: %w", err)
	}
	dist, err := install.Kafka(ctx, opts.Version)
	if err != nil {
		return nil, err
	}
	run, err := newRunDir(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a Kafka cluster: %w", err)
	}
	k := &Kafka{opts: opts, dist: dist, run: run, clusterID: randomID()}
	if err := k.bringUp(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (k *Kafka) bringUp(ctx context.Context) error {
	if err := k.layOut(); err != nil {
		return err
	}
	for _, b := range k.brokers {
		if err := b.format(); err != nil {
			return fmt.Errorf("format broker %d: %w", b.id, err)
		}
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	return k.createScramUsers(ctx)
}

// layOut gives every broker its folder, ports, proxy and certificates.
func (k *Kafka) layOut() error {
	const portsEach = 4
	ports, err := k.run.ports(portsEach * k.opts.Brokers)
	if err != nil {
		return err
	}
	if k.secrets, err = newSecrets(k.run.path, k.opts); err != nil {
		return err
	}
	for i := range k.opts.Brokers {
		mine := ports[portsEach*i:]
		b := &Broker{cluster: k, id: int32(i + 1), clientPort: mine[0], internalPort: mine[1], controllerPort: mine[2]}
		b.dir = filepath.Join(k.run.path, "broker-"+strconv.Itoa(i+1))
		if err := os.Mkdir(b.dir, 0o755); err != nil {
			return err
		}
		k.brokers = append(k.brokers, b)
		if !k.opts.Proxy {
			continue
		}
		b.proxy, err = proxy.Listen(proxy.Options{
			Listen:   localAddr(mine[3]),
			Upstream: localAddr(b.clientPort),
			Opaque:   k.opts.Security != Plaintext,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Start starts every broker that does not run, and returns when all see all.
func (k *Kafka) Start(ctx context.Context) error {
	for _, b := range k.brokers {
		if err := b.launch(); err != nil && !errors.Is(err, ErrRunning) {
			return err
		}
	}
	var waits errgroup.Group
	for _, b := range k.brokers {
		waits.Go(func() error { return b.awaitReady(ctx, len(k.brokers)) })
	}
	return waits.Wait()
}

// Close ends the cluster: brokers, proxies, ports and the folder with data and
// logs. The brokers are killed, since nobody will read their logs again; stop
// them before where an orderly end matters. Later calls do nothing.
func (k *Kafka) Close() error {
	k.closing.Do(func() {
		var errs []error
		for _, b := range k.brokers {
			errs = append(errs, b.Kill())
			if b.proxy != nil {
				errs = append(errs, b.proxy.Close())
			}
		}
		k.closeErr = errors.Join(append(errs, k.run.close())...)
	})
	return k.closeErr
}

// Version is the Kafka version, as in Maven.
func (k *Kafka) Version() string { return k.opts.Version }

// ClusterID is the id that the brokers report.
func (k *Kafka) ClusterID() string { return k.clusterID }

// Brokers are all nodes, in order of id, running or not.
func (k *Kafka) Brokers() []*Broker { return k.brokers }

// Broker is the node with this id, 1 to 3; nil if there is none.
func (k *Kafka) Broker(id int32) *Broker {
	if id < 1 || int(id) > len(k.brokers) {
		return nil
	}
	return k.brokers[id-1]
}

// Bootstrap are the addresses for clients, through the proxies where there are any.
func (k *Kafka) Bootstrap() []string {
	var addrs []string
	for _, b := range k.brokers {
		addrs = append(addrs, b.Addr())
	}
	return addrs
}

// AdminOpts connect as super user past the proxies and without encryption,
// whatever the cluster's security: for setting up and judging a test.
func (k *Kafka) AdminOpts() []kgo.Opt {
	var addrs []string
	for _, b := range k.brokers {
		addrs = append(addrs, localAddr(b.internalPort))
	}
	return []kgo.Opt{kgo.SeedBrokers(addrs...)}
}

// randomID is a UUID as Kafka writes it: 16 bytes in URL-safe base64. It begins
// with no dash, which command-line tools would take for a flag.
func randomID() string {
	for {
		var id [16]byte
		rand.Read(id[:])
		if text := base64.RawURLEncoding.EncodeToString(id[:]); text[0] != '-' {
			return text
		}
	}
}

// dial opens a connection and closes it again.
func dial(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
