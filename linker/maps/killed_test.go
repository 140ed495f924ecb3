package maps

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/drift"
	"klink/linker/ownlog"
	"klink/translate/exact"
)

// copiesTopic is where the copies of these tests go, among records of others.
const copiesTopic = "copies"

// world is a source of which some offsets are to be copied, and a cluster with the
// maps and the copies.
type world struct {
	cluster *kfake.Cluster
	cl      *kgo.Client // writes and reads copies
	rnd     *rand.Rand
	offsets []int64 // of the source, to be copied
	// left is how many writes to the topic of maps succeed while a Put is under way;
	// negative is all.
	left    atomic.Int64
	putting atomic.Bool
}

func newWorld(t *testing.T, seed uint64, records int) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, copiesTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{cluster: c, cl: newClient(t, c), rnd: rand.New(rand.NewPCG(seed, 1))}
	for at := int64(0); len(w.offsets) < records; at++ {
		if w.rnd.IntN(3) > 0 {
			w.offsets = append(w.offsets, at)
		}
	}
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !w.putting.Load() || w.left.Add(-1) != -1 {
			return nil, nil, false
		}
		w.left.Store(0) // and all after it
		return refused(req.(*kmsg.ProduceRequest)), nil, true
	})
	return w
}

func refused(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// copyAt is a copy that the log shows.
type copyAt struct {
	drift.OwnBatch
	src int64
}

// write appends copies to the log; those without a source offset are of others.
func (w *world) write(t *testing.T, copies ...copyAt) {
	t.Helper()
	var records []*kgo.Record
	for _, c := range copies {
		r := &kgo.Record{Topic: copiesTopic}
		if c.src >= 0 {
			r.Value = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(c.Seq)), uint64(c.src))
		}
		records = append(records, r)
	}
	if err := w.cl.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

var foreign = copyAt{src: -1}

// scan reads the log.
func (w *world) scan(t *testing.T) (own []copyAt, end int64) {
	t.Helper()
	log := ownlog.New(w.cl, copiesTopic)
	defer log.Close()
	if err := log.Locate(within(t)); err != nil {
		t.Fatal(err)
	}
	err := log.ReadToEnd(within(t), func(records []*kgo.Record) error {
		for _, r := range records {
			if len(r.Value) > 0 {
				own = append(own, copyAt{drift.OwnBatch{Base: r.Offset, Count: 1, Seq: int32(binary.BigEndian.Uint32(r.Value))},
					int64(binary.BigEndian.Uint64(r.Value[4:]))})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return own, log.Next()
}

// begin opens the store and finds the position as a new process does.
func (w *world) begin(t *testing.T) (*Store, *exact.Map, drift.Position) {
	t.Helper()
	s := open(t, w.cluster)
	recorded, c := load(t, s, here)
	all, end := w.scan(t)
	cursor := drift.Position{Src: c.Src, Dst: c.Dst, Seq: c.Seq}
	scan := drift.Scan{From: drift.ScanFrom(recorded, cursor, 0, end), End: end}
	for _, o := range all {
		if o.Base+o.Count > scan.From {
			scan.Own = append(scan.Own, o.OwnBatch)
		}
	}
	m, at, err := drift.Recover(recorded, cursor, scan)
	if err != nil {
		t.Fatal(err)
	}
	return s, m, at
}

// put puts a map and tells whether the process lived through it.
func (w *world) put(t *testing.T, s *Store, m *exact.Map, writes int64) bool {
	t.Helper()
	w.left.Store(writes)
	w.putting.Store(true)
	defer w.putting.Store(false)
	err := s.Put(within(t), here, m)
	if err != nil && writes < 0 {
		t.Fatal(err)
	}
	return err == nil
}

// live is one process: it puts what it is about to copy on record, copies it, and
// puts it on record anew where others came between. It dies wherever chance has it.
func (w *world) live(t *testing.T) (done bool) {
	t.Helper()
	s, m, at := w.begin(t)
	for {
		i, _ := slices.BinarySearch(w.offsets, at.Src)
		next := w.offsets[i:min(len(w.offsets), i+1+w.rnd.IntN(400))]
		if len(next) == 0 {
			return w.put(t, s, m, -1)
		}
		planned, copies := at, []copyAt(nil)
		for _, src := range next {
			mustAdd(t, m, exact.Run{Src: src, Dst: planned.Dst, Count: 1, Seq: planned.Seq})
			copies = append(copies, copyAt{drift.OwnBatch{Seq: planned.Seq}, src})
			planned = drift.Position{Src: src + 1, Dst: planned.Dst + 1, Seq: planned.Seq + 1}
		}
		if !w.put(t, s, m, int64(w.rnd.IntN(5)-1)) {
			return false
		}
		if w.rnd.IntN(3) == 0 { // others came between, and the process may die before it knows
			w.write(t, foreign)
		}
		if n := w.rnd.IntN(2 * len(copies)); n < len(copies) {
			if n > 0 {
				w.write(t, copies[:n]...)
			}
			return false
		}
		w.write(t, copies...)
		if w.rnd.IntN(4) == 0 {
			return false
		}
		// What became of it is known now; a process would have it from the answers.
		if s, m, at = w.begin(t); w.rnd.IntN(8) == 0 {
			if !w.put(t, s, m, int64(w.rnd.IntN(4)-1)) {
				return false
			}
			if err := s.PutCursor(within(t), here, Cursor{Src: at.Src, Dst: at.Dst, Seq: at.Seq, At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestKilled: whenever a process dies, before a Put, in the middle of one, between it
// and the copies, in the middle of those, or before the cursor, each record is copied
// once and in order, and the map on record tells where.
func TestKilled(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, 6000)
			for lives := 1; !w.live(t); lives++ {
				if lives > 1000 {
					t.Fatal("never done")
				}
			}
			own, _ := w.scan(t)
			v, err := Read(within(t), w.cl)
			if err != nil {
				t.Fatal(err)
			}
			m, _, err := v.Map(here)
			if err != nil {
				t.Fatal(err)
			}
			if len(own) != len(w.offsets) {
				t.Fatalf("%d copies of %d records", len(own), len(w.offsets))
			}
			for i, o := range own {
				if o.src != w.offsets[i] {
					t.Fatalf("copy %d is of source offset %d, want %d", i, o.src, w.offsets[i])
				}
				if a := m.ToTarget(o.src); a.Kind != exact.Exact || a.Offset != o.Base {
					t.Fatalf("source offset %d lies at %d, the map says %s %d", o.src, o.Base, a.Kind, a.Offset)
				}
			}
		})
	}
}
