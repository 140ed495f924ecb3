package survey

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/remote"
	"klink/linker/state"
)

// DefaultMeasureFor is how long each rate is measured: long enough for some
// hundred requests on one broker, and short enough for the four of them to leave
// time for the facts within ten seconds.
const DefaultMeasureFor = time.Second

// tryTimeout bounds all that is tried, on a cluster that answers slowly.
const tryTimeout = 25 * time.Second

// Options of Probe; Admin, Target and Reader are required and about the same
// cluster.
type Options struct {
	Admin  *kgo.Client
	Target Target
	Reader Reader
	// Replicas of the scratch topic; 0 leaves it to the cluster.
	Replicas int16
	// MeasureFor is the time for each rate; 0 is DefaultMeasureFor.
	MeasureFor time.Duration
}

// ProbeResult is what a probe found out.
type ProbeResult struct {
	AsOf time.Time `json:"as_of"`
	Judgement
	ClusterID string `json:"cluster_id"`
	// BrokerVersion is a guess from the requests that the leader serves.
	BrokerVersion string `json:"broker_version"`
	Brokers       int    `json:"brokers"`
	// Topic is the scratch topic, Replicas its replication factor.
	Topic    string `json:"topic"`
	Replicas int    `json:"replicas"`
	// TopicRemoved is false where the scratch topic may still be there;
	// NotRemoved then says why.
	TopicRemoved bool   `json:"topic_removed"`
	NotRemoved   string `json:"not_removed"`
	// Leftovers are scratch topics of other probes, null where they could not be
	// listed.
	Leftovers []string `json:"leftovers"`
	// Trouble is why nothing, or not all, could be tried.
	Trouble string    `json:"trouble"`
	Facts   []Finding `json:"facts"`
	Rates   Rates     `json:"rates"`
}

// Probe tries all facts on a scratch topic, which it removes again (S1), and
// judges them. An error is the end of ctx, or a cluster that gives no answer at
// all; a right or a fact that is missing is part of the result. The result says
// in any case what became of the topic.
func Probe(ctx context.Context, o Options) (r ProbeResult, err error) {
	r = ProbeResult{AsOf: time.Now().UTC(), TopicRemoved: true, Judgement: Judge(nil), Facts: Complete(nil)}
	if o.Replicas == 0 {
		o.Replicas = -1
	}
	if o.MeasureFor == 0 {
		o.MeasureFor = DefaultMeasureFor
	}
	s, err := createScratch(ctx, o.Admin, o.Replicas)
	r.Topic = s.target.Topic
	var refused *kerr.Error
	if errors.As(err, &refused) { // an answer: nothing was made
		r.lack(err)
		return r, nil
	}
	defer func() {
		if rerr := s.remove(ctx); rerr != nil {
			r.TopicRemoved, r.NotRemoved = false, rerr.Error()
		}
	}()
	if err != nil {
		return r, err
	}
	p := &prober{o: o, s: s, guard: newStream(), bulk: newStream()}
	return r, p.probe(ctx, &r)
}

// lack notes what stood in the way, and the right that is missing for it.
func (r *ProbeResult) lack(err error) {
	r.Trouble = err.Error()
	var f *remote.Fault
	if errors.As(err, &f) && f.Right != "" {
		r.MissingRights = append(r.MissingRights, f.Right)
	}
}

// probe tries what there is to try and fills in the result.
func (p *prober) probe(ctx context.Context, r *ProbeResult) error {
	around, err := p.s.awaitReady(ctx, p.o.Target)
	r.ClusterID, r.Brokers, r.Replicas = around.clusterID, around.brokers, around.replicas
	if err != nil {
		if remote.ReasonOf(err) == state.NoPermission {
			r.lack(err)
			return nil
		}
		return err
	}
	if left, lerr := leftovers(ctx, p.o.Admin, r.Topic); lerr == nil {
		r.Leftovers = left
	}
	p.leader = p.o.Admin.Broker(int(around.leader))
	bounded, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	knows, answer, err := serves(bounded, p.leader)
	if err != nil {
		return remote.Classify("ask for the requests that the leader serves", "", err)
	}
	p.knows, r.BrokerVersion = knows, kversion.FromApiVersionsResponse(answer).VersionGuess()
	p.tryAll(bounded)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if bounded.Err() != nil {
		r.Trouble = "the target answers too slowly to try all within " + tryTimeout.String()
	}
	r.Facts, r.Judgement, r.Rates = Complete(p.found), Judge(p.found), p.rates
	return nil
}

// prober is one probe under way. One goroutine uses it.
type prober struct {
	o      Options
	s      *scratch
	leader *kgo.Broker
	knows  served
	// next is the log end as it must be.
	next int64
	// guard is the producer whose sequences, markers and fence are tried; bulk
	// the one that writes all else.
	guard, bulk *stream
	found       []Finding
	rates       Rates
}

// stream is a producer of the probe's.
type stream struct {
	pid   int64
	epoch int16
	// sequence and counter are those of the next record and marker.
	sequence, counter int32
}

// newStream takes an id from klink's range, far above those that brokers hand
// out.
func newStream() *stream {
	return &stream{pid: 1<<62 | rand.Int64N(1<<61), counter: 8}
}

// patched returns a copy of a batch as the stream's next one.
func (s *stream) patched(b []byte) ([]byte, error) {
	c := append([]byte(nil), b...)
	return c, batch.Patch(c, batch.Fields{Identity: batch.Identity{ProducerID: s.pid, ProducerEpoch: s.epoch}, BaseSequence: s.sequence})
}

// take returns the coordinator epochs of the next n markers.
func (s *stream) take(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = s.counter
		s.counter++
	}
	return out
}

func (p *prober) partition() (feed.Partition, feed.TopicID) {
	return feed.Partition{Topic: p.s.target.Topic, Partition: p.s.target.Partition}, feed.TopicID(p.s.target.ID)
}

// append sends a batch of n records as the stream's next one, and counts it where
// it was written.
func (p *prober) append(ctx context.Context, s *stream, b []byte, n int32) (appender.Result, []byte) {
	c, err := s.patched(b)
	if err != nil {
		return appender.Result{Outcome: appender.NotSent, Base: -1, Err: err}, nil
	}
	r := p.o.Target.Append(ctx, p.s.target, c, p.next)
	if r.Outcome == appender.Appended {
		s.sequence = appender.NextSequence(s.sequence, n)
		p.next += int64(n)
	}
	return r, c
}

// end reads the log end.
func (p *prober) end(ctx context.Context) (int64, error) {
	e := p.o.Target.LogEnds(ctx, []appender.Target{p.s.target})[p.s.target]
	return e.End, e.Err
}

// mark writes markers of the stream and returns how many offsets they took; the
// error is that of the request, unless the log end is not known.
func (p *prober) mark(ctx context.Context, s *stream, coordinatorEpochs []int32) (int64, error) {
	err := writeMarkers(ctx, p.leader, p.s.target, marks{pid: s.pid, epoch: s.epoch, coordinatorEpochs: coordinatorEpochs})
	before := p.next
	end, endErr := p.end(ctx)
	if endErr != nil {
		return 0, endErr
	}
	p.next = end
	return end - before, err
}
