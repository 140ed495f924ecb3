package translate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadMirrorMaker(t *testing.T) {
	_, cl := fake(t)
	write(t, cl, "a.checkpoints.internal",
		checkpointRecord(t, "g", "a.orders", 100, 200),
		&kgo.Record{Key: []byte("no"), Value: []byte("checkpoint"), Timestamp: at(1)},
		&kgo.Record{Key: nil, Value: []byte("x"), Timestamp: at(1)},
		checkpointRecord(t, "h", "a.orders", 1, 2),
		checkpointRecord(t, "g", "a.orders", 150, 230))
	o := MirrorMakerOptions{Target: cl, Policy: policy}
	m, err := ReadMirrorMaker(within(t, 10*time.Second), o)
	if err != nil || m.Syncs != nil || m.SyncsTrouble != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	want := Read{Topic: "a.checkpoints.internal", Records: 5, Undecodable: 2, UndecodableAt: 2, Next: 5, End: 5, Newest: at(150), Complete: true}
	if got := m.Checkpoints.Read; !got.Newest.Equal(want.Newest) {
		t.Errorf("newest %v", got.Newest)
	} else if got.Newest = want.Newest; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if g := m.Groups(); len(g) != 2 || g[0] != "g" || m.Checkpoints.Of("g")[copies].Down != 230 {
		t.Errorf("%v, %+v", g, m.Checkpoints.Of("g"))
	}
	a := m.ToTarget(Asked{Group: "g", Bounds: map[Partition]Bounds{copies: {Start: 0, End: 500}}})
	if len(a) != 1 || a[0].Offset != 230 || a[0].Asked.Origin != Checkpointed || !a[0].Asked.At.Equal(at(150)) {
		t.Errorf("%+v", a)
	}
	if a := m.ToTarget(Asked{Group: "nobody"}); len(a) != 0 {
		t.Errorf("%+v", a)
	}
}

// Offset syncs are looked for on the target first, and then where they are by
// default.
func TestWhereOffsetSyncsLie(t *testing.T) {
	_, dst := fake(t)
	_, src := fake(t)
	if _, err := ReadMirrorMaker(within(t, 10*time.Second), MirrorMakerOptions{Target: dst, Source: src, Policy: policy}); !errors.Is(err, ErrNoTopic) {
		t.Fatalf("%v", err)
	}
	write(t, src, "mm2-offset-syncs.b.internal", syncRecord(t, "orders", 0, 100, 200))
	m, err := ReadMirrorMaker(within(t, 10*time.Second), MirrorMakerOptions{Target: dst, Source: src, Policy: policy})
	if err != nil || m.Checkpoints != nil || m.Syncs.Topic != "mm2-offset-syncs.b.internal" || m.Groups() != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	write(t, dst, "mm2-offset-syncs.a.internal", syncRecord(t, "orders", 0, 100, 300), &kgo.Record{Key: []byte{0}})
	m, err = ReadMirrorMaker(within(t, 10*time.Second), MirrorMakerOptions{Target: dst, Source: src, Policy: policy})
	if err != nil || m.Syncs.Topic != "mm2-offset-syncs.a.internal" || m.Syncs.Undecodable != 1 || m.Syncs.Translate(orders, 100).Offset != 300 {
		t.Fatalf("%+v, %v", m, err)
	}
}

// A log that does not begin at 0 is read from where it begins; an empty one is
// complete.
func TestReadFromTheLogsStart(t *testing.T) {
	_, cl := fake(t)
	write(t, cl, "empty")
	if c, err := ReadCheckpoints(within(t, 10*time.Second), cl, "empty"); err != nil || !c.Complete || c.End != 0 || !c.Newest.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	write(t, cl, "cut", syncRecord(t, "orders", 0, 1, 1), syncRecord(t, "orders", 0, 2, 2), syncRecord(t, "orders", 0, 3, 3))
	var upTo kadm.Offsets
	upTo.AddOffset("cut", 0, 2, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(within(t, 10*time.Second), upTo); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadSyncs(within(t, 10*time.Second), cl, "cut"); err != nil || s.Records != 1 || !s.Complete || s.Next != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// expiring is a context whose deadline passes when done is closed.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestTimedOut holds T1: a deadline that passes is told, and neither an error nor
// an end; a caller who leaves gets an error.
func TestTimedOut(t *testing.T) {
	for _, left := range []bool{false, true} {
		c, cl := fake(t)
		write(t, cl, "a.checkpoints.internal", checkpointRecord(t, "g", "a.orders", 100, 200))
		leaving, leave := context.WithCancel(context.Background())
		t.Cleanup(leave)
		over, release := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(release) })
		c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			close(over)
			leave()
			c.SleepControl(func() { <-release })
			return nil, nil, false
		})
		ctx := context.Context(expiring{context.Background(), over})
		if left {
			ctx = leaving
		}
		r, err := ReadCheckpoints(ctx, cl, "a.checkpoints.internal")
		switch {
		case left && !errors.Is(err, context.Canceled):
			t.Errorf("%+v, %v", r, err)
		case !left && (err != nil || !r.TimedOut || r.Complete || r.End != 1 || r.Next != 0):
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// What passes by itself is waited for, and a broker that refuses is not.
func TestObstacles(t *testing.T) {
	c, cl := fake(t)
	write(t, cl, "t", syncRecord(t, "orders", 0, 1, 1))
	refuse := func(code int16) {
		c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			f := req.(*kmsg.FetchRequest)
			resp := f.ResponseKind().(*kmsg.FetchResponse)
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = f.Topics[0].Topic, f.Topics[0].TopicID
			p := kmsg.NewFetchResponseTopicPartition()
			p.ErrorCode = code
			rt.Partitions = append(rt.Partitions, p)
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
	}
	const notLeader, outOfRange, unauthorized = 6, 1, 29
	refuse(notLeader)
	refuse(notLeader)
	if s, err := ReadSyncs(within(t, 10*time.Second), cl, "t"); err != nil || !s.Complete || s.Records != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	refuse(outOfRange)
	if s, err := ReadSyncs(within(t, 10*time.Second), cl, "t"); err != nil || !s.Complete || s.Records != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	refuse(unauthorized)
	if s, err := ReadSyncs(within(t, 10*time.Second), cl, "t"); err == nil || s != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
