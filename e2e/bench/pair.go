package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
)

// pair is a source and a target of one broker each.
type pair struct {
	src, dst             *lab.Kafka
	srcClient, dstClient *kgo.Client
}

// stock are the broker settings that the lab changes for quick tests, put back
// to what a broker has by itself, except that deleted logs leave the page cache
// soon.
var stock = map[string]string{
	"num.network.threads":                          "3",
	"num.io.threads":                               "8",
	"offsets.topic.num.partitions":                 "50",
	"transaction.state.log.num.partitions":         "50",
	"share.coordinator.state.topic.num.partitions": "50",
	"group.initial.rebalance.delay.ms":             "3000",
	"broker.session.timeout.ms":                    "9000",
	"broker.heartbeat.interval.ms":                 "2000",
	"log.cleaner.dedupe.buffer.size":               "134217728",
	"log.segment.delete.delay.ms":                  "500",
	// Lets the source's log of transactions be written without the coordinator.
	"transaction.partition.verification.enable": "false",
}

const brokerHeapMiB = 1024

// startPair starts both clusters; proxied puts a proxy before the source.
func startPair(ctx context.Context, proxied bool) (*pair, error) {
	p := &pair{}
	var group errgroup.Group
	start := func(k **lab.Kafka, proxied bool) {
		group.Go(func() (err error) {
			*k, err = lab.StartKafka(ctx, lab.KafkaOptions{HeapMiB: brokerHeapMiB, Props: stock, Throughput: true, Proxy: proxied})
			return err
		})
	}
	start(&p.src, proxied)
	start(&p.dst, false)
	err := group.Wait()
	if err == nil {
		p.srcClient, err = kgo.NewClient(p.src.AdminOpts()...)
	}
	if err == nil {
		p.dstClient, err = kgo.NewClient(p.dst.AdminOpts()...)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pair) close() error {
	var errs []error
	for _, client := range []*kgo.Client{p.srcClient, p.dstClient} {
		if client != nil {
			client.Close()
		}
	}
	for _, cluster := range []*lab.Kafka{p.src, p.dst} {
		if cluster != nil {
			errs = append(errs, cluster.Close())
		}
	}
	return errors.Join(errs...)
}

// setRTT puts a round trip between the source and those who come through its
// proxy, if there is one.
func (p *pair) setRTT(rtt time.Duration) {
	if proxy := p.src.Broker(onlyBroker).Proxy(); proxy != nil {
		proxy.SetRTT(rtt)
	}
}

// spec is a workload's topic on the target, and on the source where no more is
// said of it.
func (w workload) spec() lab.TopicSpec {
	configs := lab.KeepEverything()
	if w.log == holeLog {
		configs["cleanup.policy"] = "compact"
	}
	return lab.TopicSpec{Name: w.topic(), Partitions: w.partitions, Configs: configs}
}

// sourceSpec is its topic on the source.
func (w workload) sourceSpec() lab.TopicSpec {
	spec := w.spec()
	if w.appendTime {
		spec.Configs["message.timestamp.type"] = "LogAppendTime"
	}
	if w.log == holeLog {
		spec.Configs["segment.ms"] = strconv.FormatInt(holeSegment.Milliseconds(), 10)
		spec.Configs["min.cleanable.dirty.ratio"] = "0.01"
	}
	return spec
}

// refresh removes everything that former runs left: all on the target, and all
// but the workload's log on the source. It returns when dirty pages are on disk,
// so that no run pays for the one before.
func (p *pair) refresh(ctx context.Context, w workload) error {
	if err := deleteTopics(ctx, p.dstClient, ""); err != nil {
		return fmt.Errorf("empty the target: %w", err)
	}
	if err := deleteTopics(ctx, p.srcClient, w.topic()); err != nil {
		return fmt.Errorf("tidy the source: %w", err)
	}
	syscall.Sync()
	return nil
}

// brokersOwn are topics that a broker makes for itself and does not take well
// when somebody deletes them.
var brokersOwn = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

// deleteTopics deletes all topics but one, and returns when they are gone.
func deleteTopics(ctx context.Context, client *kgo.Client, keep string) error {
	admin := kadm.NewClient(client)
	wait := time.NewTicker(100 * time.Millisecond)
	defer wait.Stop()
	for {
		all, err := topicNames(ctx, client)
		if err != nil {
			return err
		}
		names := slices.DeleteFunc(all, func(name string) bool {
			return name == keep || slices.Contains(brokersOwn, name)
		})
		if len(names) == 0 {
			return nil
		}
		deleted, err := admin.DeleteTopics(ctx, names...)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("delete %s: %w", strings.Join(names, ", "), ctx.Err())
		case <-wait.C:
		}
	}
}

// topicNames asks the broker itself: kadm answers from a cache that is seconds
// old.
func topicNames(ctx context.Context, client *kgo.Client) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := req.RequestWith(ctx, client.Broker(onlyBroker))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range resp.Topics {
		if t.Topic != nil {
			names = append(names, *t.Topic)
		}
	}
	return names, nil
}

// onTarget adds up the log ends of a topic on the target, which is how many
// records it has where all offsets hold one; one that does not exist (yet) has
// none.
func (p *pair) onTarget(ctx context.Context, w workload) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = w.topic()
	for number := range w.partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition = number
		partition.Timestamp = -1 // the end
		topic.Partitions = append(topic.Partitions, partition)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, p.dstClient.Broker(onlyBroker))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, t := range resp.Topics {
		for _, partition := range t.Partitions {
			if partition.ErrorCode == 0 {
				sum += max(0, partition.Offset)
			}
		}
	}
	return sum, nil
}
