package e2e

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/fetcher/batch"
	"klink/linker/appender"
)

// BenchmarkMarkers compares markers through the appender with the barest loop of
// requests of the same size on the same broker. An iteration is one marker.
func BenchmarkMarkers(b *testing.B) {
	k := startOne(b, lab.KafkaOptions{})
	create(b, k, lab.TopicSpec{Name: "rate", Partitions: 8})
	r := newMarkerRig(b, k, "rate")
	bare := &bareMarkers{b: b}
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.DisableClientMetrics())...)
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	leader, _ := r.leaders.Leader("rate", 0)
	bare.to = cl.Broker(int(leader.Broker))
	var next atomic.Int32 // coordinator epochs, rising over all runs
	for _, shape := range []struct {
		name       string
		partitions int32
		count      int
	}{{"bulk=2000", 1, appender.MaxMarkers}, {"bulk=100/partitions=8", 8, 100}, {"single", 1, 1}, {"single/partitions=8", 8, 1}} {
		for name, write := range map[string]func(appender.Target, appender.Markers){
			"appender": func(t appender.Target, m appender.Markers) {
				if res := r.a.WriteMarkers(context.Background(), t, m); res.Outcome != appender.MarkersDone {
					b.Error(res.Outcome, res.Err)
				}
			},
			"bare": bare.write,
		} {
			b.Run(shape.name+"/"+name, func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for p := range shape.partitions {
					target := r.target("rate")
					target.Partition = p
					wg.Go(func() {
						for left.Add(-int64(shape.count)) > -int64(shape.count) {
							write(target, risingFrom(p, next.Add(int32(shape.count)), shape.count))
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "markers/s")
			})
		}
	}
}

// risingFrom makes markers that end below end.
func risingFrom(partition, end int32, count int) appender.Markers {
	m := appender.Markers{Identity: batch.Identity{ProducerID: appenderPID + int64(partition)}, LeaderEpoch: appender.AnyLeader}
	for i := range int32(count) {
		m.CoordinatorEpochs = append(m.CoordinatorEpochs, end-int32(count)+i)
	}
	return m
}

// bareMarkers sends one request after the other on one connection.
type bareMarkers struct {
	b  *testing.B
	mu sync.Mutex // one request at a time
	to *kgo.Broker
}

func (w *bareMarkers) write(t appender.Target, m appender.Markers) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, e := range m.CoordinatorEpochs {
		rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		rt.Topic, rt.Partitions = t.Topic, []int32{t.Partition}
		rm := kmsg.NewWriteTxnMarkersRequestMarker()
		rm.ProducerID, rm.Committed, rm.CoordinatorEpoch = m.Identity.ProducerID, true, e
		rm.Topics = append(rm.Topics, rt)
		req.Markers = append(req.Markers, rm)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.to.Request(context.Background(), req); err != nil {
		w.b.Error(err)
	}
}
