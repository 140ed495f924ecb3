package maps

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/linker/ownlog"
	"klink/translate/exact"
)

// TestReader: one who only reads sees nothing before the topic is there, and then
// what was put by each Refresh.
func TestReader(t *testing.T) {
	c := newCluster(t)
	r := NewReader(newClient(t, c))
	t.Cleanup(r.Close)
	look := func(want ...exact.Run) {
		t.Helper()
		if err := r.Refresh(within(t)); err != nil {
			t.Fatal(err)
		}
		m, at, err := r.Map(here)
		if err != nil {
			t.Fatal(err)
		}
		requireRuns(t, m, want...)
		if (len(r.Places("l")) > 0) != (len(want) > 0) || at.At.IsZero() != (len(want) == 0) {
			t.Errorf("places %v, cursor %+v", r.Places("l"), at)
		}
	}
	look()
	s := open(t, c)
	for _, run := range []exact.Run{{Dst: 5, Count: 10}, {Dst: 5, Count: 20}} {
		m, _ := load(t, s, here)
		mustAdd(t, m, run)
		if err := s.Put(within(t), here, m); err != nil {
			t.Fatal(err)
		}
		if err := s.PutCursor(within(t), here, Cursor{Src: run.SrcEnd(), Dst: run.DstEnd(), At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		look(run)
	}
}

// TestReaderForgetsALostTopic: what was read of a topic that was deleted is no answer,
// and another one in its place is read anew.
func TestReaderForgetsALostTopic(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c)
	r := NewReader(cl)
	t.Cleanup(r.Close)
	fill := func(count int64) {
		t.Helper()
		s := open(t, c)
		m, _ := load(t, s, here)
		mustAdd(t, m, exact.Run{Count: count})
		if err := s.Put(within(t), here, m); err != nil {
			t.Fatal(err)
		}
	}
	fill(10)
	if err := r.Refresh(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(cl).DeleteTopics(within(t), TopicName); err != nil {
		t.Fatal(err)
	}
	fill(20)
	for lost := false; !lost; {
		lost = errors.Is(r.Refresh(within(t)), ownlog.ErrLost)
	}
	if len(r.Places("l")) > 0 {
		t.Error("a lost topic's maps are known still")
	}
	if err := r.Refresh(within(t)); err != nil {
		t.Fatal(err)
	}
	m, _, err := r.Map(here)
	if err != nil {
		t.Fatal(err)
	}
	requireRuns(t, m, exact.Run{Count: 20})
}
