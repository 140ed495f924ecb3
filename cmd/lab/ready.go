package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// awaitReady returns when the broker's client listener takes connections and its
// own metadata name it and at least want brokers in all. A dead process or the
// end of ctx is an error that shows the end of the log.
func (b *Broker) awaitReady(ctx context.Context, want int) error {
	proc := b.process()
	client, err := kgo.NewClient(kgo.SeedBrokers(localAddr(b.internalPort)), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		last := b.askReady(ctx, client, want)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("broker %d ended while starting: %w\n%s", b.id, proc.Err(), b.LogTail(4000))
		case <-ctx.Done():
			return fmt.Errorf("wait for broker %d: %w (last answer: %w)\n%s", b.id, ctx.Err(), last, b.LogTail(4000))
		}
	}
}

func (b *Broker) askReady(ctx context.Context, client *kgo.Client, want int) error {
	if err := dial(ctx, localAddr(b.clientPort)); err != nil {
		return err
	}
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil {
		return err
	}
	known := false
	for _, other := range resp.Brokers {
		known = known || other.NodeID == b.id
	}
	if !known || len(resp.Brokers) < want {
		return fmt.Errorf("broker %d sees %d brokers, itself among them: %t; want %d", b.id, len(resp.Brokers), known, want)
	}
	return nil
}
