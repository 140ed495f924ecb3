package strict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Guard stands in front of every produce request of an embedded cluster.
type Guard struct {
	cluster *kfake.Cluster
	now     func() time.Time

	mu         sync.Mutex // guards what is below
	allowed    map[Rule]bool
	violations []*Violation
}

// Watch puts a guard in front of c's produce requests, for as long as c lives.
// now is the clock of timestamp rules; nil is time.Now.
func Watch(c *kfake.Cluster, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	g := &Guard{cluster: c, now: now, allowed: map[Rule]bool{}}
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return g.judge(req.(*kmsg.ProduceRequest))
	})
	return g
}

// Allow makes a breach of these rules an ordinary refusal: still answered with
// the error, but no Violation. For tests that mean to send such batches.
func (g *Guard) Allow(rules ...Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range rules {
		g.allowed[r] = true
	}
}

// Violations are all breaches so far, in order of arrival.
func (g *Guard) Violations() []*Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.violations)
}

// judge lets a clean request pass and answers any other as a whole: the guilty
// partitions with their error, the others with NOT_ENOUGH_REPLICAS, which says
// for certain that nothing was written.
func (g *Guard) judge(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
	found := g.check(req)
	if len(found) == 0 {
		return nil, nil, false
	}
	g.record(found)
	if req.Acks == 0 {
		return nil, nil, true
	}
	return refusal(req, found), nil, true
}

// place is a partition within a request, by position.
type place struct{ topic, partition int }

func (g *Guard) check(req *kmsg.ProduceRequest) map[place]*Violation {
	found := map[place]*Violation{}
	type seen struct {
		topic     string
		partition int32
	}
	once := map[seen]bool{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		name, topic := g.topic(rt)
		topic.Transactional = req.TransactionID != nil
		topic.ProduceVersion = req.Version
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			v := Check(rp.Records, topic)
			if key := (seen{name, rp.Partition}); once[key] && v == nil {
				v = breach(OncePerRequest, kerr.InvalidRecord, "named twice")
			} else {
				once[key] = true
			}
			if v != nil {
				v.Topic, v.Partition = name, rp.Partition
				found[place{i, j}] = v
			}
		}
	}
	return found
}

func (g *Guard) record(found map[place]*Violation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range found {
		if !g.allowed[v.Rule] {
			g.violations = append(g.violations, v)
		}
	}
}

func refusal(req *kmsg.ProduceRequest, found map[place]*Violation) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for i := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for j := range req.Topics[i].Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition = req.Topics[i].Partitions[j].Partition
			partition.BaseOffset = -1
			partition.ErrorCode = kerr.NotEnoughReplicas.Code
			if v := found[place{i, j}]; v != nil {
				text := v.Error()
				partition.ErrorCode, partition.ErrorMessage = v.Code, &text
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// Defaults of a Kafka 4 broker.
const (
	defaultMaxBytes     = 1<<20 + 12
	defaultSegmentBytes = 1 << 30
	defaultAfterMax     = time.Hour
)

// topic reads the settings that the rules depend on. A topic that does not
// exist is judged by the defaults; the cluster then refuses it by itself.
func (g *Guard) topic(rt *kmsg.ProduceRequestTopic) (string, Topic) {
	t := Topic{MaxBytes: defaultMaxBytes, SegmentBytes: defaultSegmentBytes, AfterMax: defaultAfterMax, Now: g.now()}
	var info *kfake.TopicInfo
	if rt.Topic != "" {
		info = g.cluster.TopicInfo(rt.Topic)
	} else {
		info = g.cluster.TopicIDInfo(rt.TopicID)
	}
	if info == nil {
		return cmp.Or(rt.Topic, fmt.Sprintf("%x", rt.TopicID)), t
	}
	if n, ok := number(info, "max.message.bytes"); ok {
		t.MaxBytes = int(n)
	}
	if n, ok := number(info, "segment.bytes"); ok {
		t.SegmentBytes = int(n)
	}
	if n, ok := number(info, "message.timestamp.after.max.ms"); ok {
		t.AfterMax = millis(n)
	}
	if n, ok := number(info, "message.timestamp.before.max.ms"); ok {
		t.BeforeMax = millis(n)
	}
	if policy := info.Configs["cleanup.policy"]; policy != nil {
		t.Compacted = strings.Contains(*policy, "compact")
	}
	return info.Topic, t
}

func number(info *kfake.TopicInfo, key string) (int64, bool) {
	text := info.Configs[key]
	if text == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(*text, 10, 64)
	return n, err == nil
}

// millis is ms as a duration, 0 (unlimited) where it is beyond one.
func millis(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
