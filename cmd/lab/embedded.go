package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab/proxy"
	"klink/cmd/lab/strict"
)

// EmbeddedOptions describe an embedded cluster; the zero value is one broker
// that judges batches strictly.
type EmbeddedOptions struct {
	Brokers int  // 0 is 1
	Proxy   bool // clients are told the addresses of fault proxies, one per broker
	// Lenient leaves out the strict batch checker, for logs that are written in
	// ways that no producer may.
	Lenient bool
	// Durable keeps the data in a folder, so that Stop and Start lose nothing.
	Durable bool
	// Network replaces TCP by memory, for tests in virtual time. It excludes
	// Proxy, Durable and Stop, which need ports and files of the machine.
	Network *kfake.VirtualNetwork
	// Opts go to kfake after the lab's own.
	Opts []kfake.Opt
}

// Embedded is a cluster of fake brokers (kfake) within this process.
type Embedded struct {
	opts    EmbeddedOptions
	run     *runDir // nil with a virtual network
	ports   []int
	proxies []*proxy.Proxy

	closing  sync.Once
	closeErr error

	mu      sync.Mutex // guards what is below
	cluster *kfake.Cluster
	guard   *strict.Guard
	past    []*strict.Violation // found before the last Start
}

// StartEmbedded starts an embedded cluster; Close ends it.
func StartEmbedded(ctx context.Context, opts EmbeddedOptions) (*Embedded, error) {
	if opts.Brokers == 0 {
		opts.Brokers = 1
	}
	e := &Embedded{opts: opts}
	if opts.Network != nil {
		if opts.Proxy || opts.Durable {
			return nil, errors.New("start an embedded cluster: a virtual network has neither proxies nor files")
		}
		for i := range opts.Brokers {
			e.ports = append(e.ports, firstPort+i)
		}
		return e, e.Start()
	}
	run, err := newRunDir(ctx)
	if err != nil {
		return nil, fmt.Errorf("start an embedded cluster: %w", err)
	}
	e.run = run
	if err := e.bringUp(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Embedded) bringUp() error {
	ports, err := e.run.ports(2 * e.opts.Brokers)
	if err != nil {
		return err
	}
	e.ports = ports[:e.opts.Brokers]
	if e.opts.Proxy {
		for i, port := range e.ports {
			p, err := proxy.Listen(proxy.Options{Listen: localAddr(ports[e.opts.Brokers+i]), Upstream: localAddr(port)})
			if err != nil {
				return err
			}
			e.proxies = append(e.proxies, p)
		}
	}
	return e.Start()
}

// Start starts a stopped cluster on the same addresses, with its data if it is
// durable.
func (e *Embedded) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cluster != nil {
		return nil
	}
	opts := []kfake.Opt{kfake.NumBrokers(e.opts.Brokers), kfake.Ports(e.ports...), kfake.ListenFn(e.listen)}
	if e.opts.Network != nil {
		opts = append(opts, kfake.ListenFn(e.opts.Network.Listen))
	}
	if e.opts.Durable {
		opts = append(opts, kfake.DataDir(filepath.Join(e.run.path, "data")))
	}
	cluster, err := kfake.NewCluster(append(opts, e.opts.Opts...)...)
	if err != nil {
		return fmt.Errorf("start an embedded cluster: %w", err)
	}
	e.cluster = cluster
	if !e.opts.Lenient {
		e.guard = strict.Watch(cluster, nil)
	}
	return nil
}

// Stop ends the brokers as a crash of the whole cluster does: every connection
// is closed and new ones are refused, until Start.
func (e *Embedded) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cluster == nil {
		return
	}
	e.cluster.Close()
	if e.guard != nil {
		e.past = append(e.past, e.guard.Violations()...)
	}
	e.cluster, e.guard = nil, nil
}

// Close ends the cluster for good. Later calls do nothing.
func (e *Embedded) Close() error {
	e.Stop()
	e.closing.Do(func() {
		var errs []error
		for _, p := range e.proxies {
			errs = append(errs, p.Close())
		}
		if e.run != nil {
			errs = append(errs, e.run.close())
		}
		e.closeErr = errors.Join(errs...)
	})
	return e.closeErr
}

// listen gives kfake a listener that calls itself what clients are to be told.
func (e *Embedded) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	for i, port := range e.ports {
		if address == localAddr(port) && i < len(e.proxies) {
			return advertised{l, e.proxies[i]}, nil
		}
	}
	return l, nil
}

// advertised is a listener behind a proxy.
type advertised struct {
	net.Listener
	proxy *proxy.Proxy
}

func (a advertised) Addr() net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", a.proxy.Addr())
	if err != nil {
		panic(err) // the proxy listens there
	}
	return addr
}

// Cluster is the fake itself, for its own faults and controls; nil while it is
// stopped, and another one after each Start.
func (e *Embedded) Cluster() *kfake.Cluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster
}

// Guard is the batch checker in force; nil while stopped, or if Lenient.
func (e *Embedded) Guard() *strict.Guard {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guard
}

// Violations are all batches that broke a rule, over all starts.
func (e *Embedded) Violations() []*strict.Violation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guard == nil {
		return e.past
	}
	return append(append([]*strict.Violation(nil), e.past...), e.guard.Violations()...)
}

// Proxies are those in front of the brokers, in their order; none without.
func (e *Embedded) Proxies() []*proxy.Proxy { return e.proxies }

// Bootstrap are the addresses for clients, through the proxies where there are any.
func (e *Embedded) Bootstrap() []string {
	var addrs []string
	for _, p := range e.proxies {
		addrs = append(addrs, p.Addr())
	}
	if addrs != nil {
		return addrs
	}
	for _, port := range e.ports {
		addrs = append(addrs, localAddr(port))
	}
	return addrs
}

// ClientOpts connect as an ordinary client.
func (e *Embedded) ClientOpts() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(e.Bootstrap()...)}
	if e.opts.Network != nil {
		opts = append(opts, kgo.Dialer(e.opts.Network.DialContext))
	}
	return opts
}

// AdminOpts connect past the proxies: for setting up and judging a test.
func (e *Embedded) AdminOpts() []kgo.Opt {
	if len(e.proxies) == 0 {
		return e.ClientOpts()
	}
	// kfake has one listener a broker and names the proxies in its metadata, so
	// the way past them is to turn each address back when dialing.
	direct := map[string]string{}
	for i, p := range e.proxies {
		direct[p.Addr()] = localAddr(e.ports[i])
	}
	return []kgo.Opt{kgo.SeedBrokers(e.Bootstrap()...), kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		if addr, ok := direct[host]; ok {
			host = addr
		}
		return new(net.Dialer).DialContext(ctx, network, host)
	})}
}
