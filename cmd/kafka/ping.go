package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/config"
)

// Ping logs in to the cluster anew and asks for its metadata. It returns nil as
// soon as one bootstrap broker answers, else an *Obstacle: that of the broker
// whose answer says most.
func (s *Source) Ping(ctx context.Context) error { return s.maker.ping(ctx) }

// Ping is as Source.Ping, for the target.
func (t *Target) Ping(ctx context.Context) error { return t.maker.ping(ctx) }

func (m maker) ping(ctx context.Context) error {
	cl, err := m.make(rolePing)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	seeds := cl.SeedBrokers()
	answers := make(chan *Obstacle, len(seeds)) // so that none waits once one answered
	for i, seed := range seeds {
		go func() { answers <- m.pingBroker(ctx, seed, m.cluster.Brokers[i]) }()
	}
	var worst *Obstacle
	reached := false
	for range seeds {
		o := <-answers
		switch {
		case o == nil:
			reached = true
			cancel()
		case worst == nil || o.Cause > worst.Cause:
			worst = o
		}
	}
	if reached || worst == nil {
		return nil
	}
	return worst
}

func (m maker) pingBroker(ctx context.Context, b *kgo.Broker, address string) *Obstacle {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none: brokers alone
	answer, err := b.Request(ctx, req)
	if meta, ok := answer.(*kmsg.MetadataResponse); err == nil && ok {
		err = kerr.ErrorForCode(meta.ErrorCode)
	}
	o := Classify(err)
	if o == nil {
		return nil
	}
	if c := m.lookCloser(ctx, o, address); c != o.Cause {
		o = newObstacle(c, err)
	}
	o.Broker = address
	return o
}

// lookCloser finds out why a port hangs up or answers nonsense: kgo's errors do
// not tell.
func (m maker) lookCloser(ctx context.Context, o *Obstacle, address string) Cause {
	if o.Cause != ClosedAtOnce && o.Cause != Other {
		return o.Cause
	}
	var answered *kerr.Error
	switch {
	case errors.As(o.Err, &answered):
		return o.Cause
	case !m.cluster.TLS.Enabled && m.dialer.speaksTLS(ctx, address):
		return TLSWanted
	case o.Cause == Other:
		return NotKafka
	case m.cluster.SASL.Mechanism == config.MechanismNone:
		// Brokers answer ApiVersions without a login and hang up at the next request.
		return LoginWanted
	default:
		return o.Cause
	}
}
