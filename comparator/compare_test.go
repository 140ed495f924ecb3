package comparator

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is two embedded clusters, each on a network of pipes.
type world struct {
	t        testing.TB
	clusters [2]*kfake.Cluster
	clients  [2]*kgo.Client
}

// inWorld runs fn in virtual time, with a topic of so many partitions on both
// sides.
func inWorld(t *testing.T, partitions int32, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		for side := range w.clusters {
			net := &kfake.VirtualNetwork{}
			c, err := kfake.NewCluster(kfake.ListenFn(net.Listen), kfake.Ports(9000, 9001), kfake.NumBrokers(2), kfake.SeedTopics(partitions, "t"))
			if err != nil {
				t.Fatal(err)
			}
			w.clusters[side] = c
			if w.clients[side], err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(net.DialContext), kgo.DisableClientMetrics(),
				kgo.MetadataMinAge(10*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			for side := range w.clusters {
				w.clients[side].Close()
				w.clusters[side].Close()
			}
		}()
		fn(t, w)
	})
}

// write appends records with the numbers from up to to in batches of so many.
func (w *world) write(side Side, partition int32, from, to, perBatch int) {
	w.t.Helper()
	for from < to {
		var recs []*kgo.Record
		for range min(perBatch, to-from) {
			recs = append(recs, &kgo.Record{Topic: "t", Partition: partition, Key: fmt.Append(nil, from), Value: bytes.Repeat([]byte{'v'}, 1000), Timestamp: time.UnixMilli(int64(1_000_000 + from))})
			from++
		}
		if err := w.clients[side].ProduceSync(w.t.Context(), recs...).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) trim(side Side, at int64) {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "t", At: at})
	r, err := kadm.NewClient(w.clients[side]).DeleteRecords(context.Background(), offsets)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) compare(change func(*Options)) Result {
	w.t.Helper()
	o := Options{Source: w.clients[Source], Target: w.clients[Target], Topics: []Topic{{"t", "t"}}, FollowStart: true, MemoryBytes: 1}
	if change != nil {
		change(&o)
	}
	r, err := Compare(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// Other batches, and many answers, are no difference; a range can be compared
// again from any offset on.
func TestCompareEqual(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		for n := range int32(2) {
			w.write(Source, n, 0, 500, 40)
			w.write(Target, n, 0, 500, 7)
		}
		var last Progress
		r := w.compare(func(o *Options) { o.Progress = func(p Progress) { last = p } })
		if !r.Equal || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 2 || r.Bytes < 2*2*500*1000 {
			t.Fatalf("%+v", r)
		}
		if last.Done != 1000 || last.Total != 1000 || last.Partitions != 2 {
			t.Errorf("progress: %+v", last)
		}
		whole := r.Topics[0].Partitions[0]
		if whole.RecordsCompared != 500 || *whole.Digest != *whole.TargetDigest || whole.From != 0 || whole.To != 500 {
			t.Errorf("%+v", whole)
		}
		r = w.compare(func(o *Options) {
			o.Ranges = map[PartitionName]Range{{"t", 0}: {From: 123, To: 400}}
			o.Since = time.UnixMilli(1_000_000 + 200)
		})
		part := r.Topics[0].Partitions
		if !r.Equal || part[0].From != 200 || part[0].RecordsCompared != 200 || part[1].RecordsCompared != 300 || *part[0].Digest == *whole.Digest {
			t.Errorf("%+v", r)
		}
		if r = w.compare(func(o *Options) { o.NoDigest = true }); !r.Equal || r.Topics[0].Partitions[1].RecordsCompared != 500 || r.Topics[0].Partitions[1].Digest != nil {
			t.Errorf("%+v", r)
		}
	})
}

// What is read from the source keeps within its limit.
func TestCompareLimit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 500, 40)
		w.write(Target, 0, 0, 500, 40)
		r := w.compare(func(o *Options) { o.Limit = rate.NewLimiter(50_000, 10_000) })
		if !r.Equal || r.Seconds < 9 || r.Seconds > 12 {
			t.Errorf("half a megabyte took %.1f s at 50 kB/s: %+v", r.Seconds, r)
		}
	})
}

// Batches that are the same bytes are passed over, and one that is not is found
// among them.
func TestCompareSameBytes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, side := range []Side{Source, Target} {
			w.write(side, 0, 0, 200, 20)
			w.write(side, 0, 1000+int(side), 1001+int(side), 1)
			w.write(side, 0, 201, 400, 20)
		}
		r := w.compare(func(o *Options) { o.NoDigest = true })
		p := r.Topics[0].Partitions[0]
		if r.Equal || p.Counts[Changed] != 1 || p.Findings[0].Offset != 200 || p.Findings[0].Detail != "the records differ: timestamp 1001000, on the target 1001001; key of 4 bytes differs from byte 3 on" || p.RecordsCompared != 400 {
			t.Errorf("%+v", p)
		}
	})
}

// A leader that moves while both sides are read is asked for again.
func TestCompareLeaderMoves(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 500, 40)
		w.write(Target, 0, 0, 500, 40)
		asked := 0
		w.clusters[Target].ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.clusters[Target].KeepControl()
			if asked++; asked == 3 {
				leader := w.clusters[Target].LeaderFor("t", 0)
				if err := w.clusters[Target].MoveTopicPartition("t", 0, 1-leader); err != nil {
					t.Error(err)
				}
			}
			return nil, nil, false
		})
		if r := w.compare(nil); !r.Equal || r.Topics[0].Partitions[0].RecordsCompared != 500 || asked < 4 {
			t.Errorf("%d fetches: %+v", asked, r)
		}
	})
}

// What is trimmed on one side while it is read has expired.
func TestCompareTrimmedMeanwhile(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 2_000, 40)
		w.write(Target, 0, 0, 2_000, 40)
		var once sync.Once
		r := w.compare(func(o *Options) {
			o.Progress = func(Progress) { once.Do(func() { w.trim(Target, 1_900) }) }
		})
		p := r.Topics[0].Partitions[0]
		if !r.Equal || p.Expired == 0 || p.Expired+p.RecordsCompared != 2_000 {
			t.Errorf("%+v", p)
		}
	})
}

// A target that starts later than it may is a finding, one that starts later by
// right is none.
func TestCompareStarts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 100, 40)
		w.write(Target, 0, 0, 100, 40)
		w.trim(Target, 30)
		for _, tc := range []struct {
			change  func(*Options)
			start   int64
			expired int64
		}{
			{nil, 1, 30},
			{func(o *Options) { o.BeginsLater = true }, 0, 0},
			{func(o *Options) { o.FollowStart = false }, 0, 30},
		} {
			p := w.compare(tc.change).Topics[0].Partitions[0]
			if p.Counts[Start] != tc.start || p.Expired != tc.expired || p.RecordsCompared != 70 || p.From != 30 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// A mirror at work is compared up to where it is; one that stands still ends
// there.
func TestCompareLagging(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 300, 40)
		w.write(Target, 0, 0, 100, 40)
		p := w.compare(nil).Topics[0].Partitions[0]
		if p.Counts[End] != 1 || p.LagRecords != 0 || p.RecordsCompared != 100 || p.Findings[0].Detail != "the source ends at 300, the target 200 offsets before, at 100" {
			t.Errorf("%+v", p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			for n := 100; sleep(ctx, time.Second); n++ {
				w.write(Target, 0, n, n+1, 1)
			}
		})
		r := w.compare(nil)
		cancel()
		working.Wait()
		if p := r.Topics[0].Partitions[0]; !r.Equal || p.LagRecords < 150 || p.RecordsCompared < 125 {
			t.Errorf("%+v", p)
		}
	})
}

// C6: a partition that cannot be read fails alone.
func TestCompareFailsAlone(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		for n := range int32(2) {
			w.write(Source, n, 0, 50, 40)
			w.write(Target, n, 0, 50, 40)
		}
		w.clusters[Source].ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.clusters[Source].KeepControl()
			f := req.(*kmsg.FetchRequest)
			if f.Topics[0].Partitions[0].Partition != 1 {
				return nil, nil, false
			}
			resp := f.ResponseKind().(*kmsg.FetchResponse)
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = f.Topics[0].Topic, f.Topics[0].TopicID
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = 1, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
		r := w.compare(nil)
		parts := r.Topics[0].Partitions
		if r.Equal || r.Failed != 1 || r.Differences != 0 || parts[0].Error != "" || parts[0].RecordsCompared != 50 || parts[1].Error == "" {
			t.Errorf("%+v", r)
		}
	})
}
