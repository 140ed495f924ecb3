package maps

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/fetcher/feed"
	"klink/linker/ownlog"
	"klink/linker/state"
	"klink/translate/exact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var here = Place{Link: "l", Topic: "orders", Partition: 3, SourceID: feed.TopicID{1}, TargetID: feed.TopicID{2}}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newCluster(t testing.TB) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t testing.TB, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func open(t testing.TB, c *kfake.Cluster) *Store {
	t.Helper()
	s, err := Open(within(t), Options{Client: newClient(t, c), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func load(t testing.TB, s *Store, p Place) (*exact.Map, Cursor) {
	t.Helper()
	m, c, err := s.Load(within(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return m, c
}

func mapOf(t testing.TB, runs ...exact.Run) *exact.Map {
	t.Helper()
	m, err := exact.FromRuns(runs, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func requireRuns(t testing.TB, m *exact.Map, want ...exact.Run) {
	t.Helper()
	if got := slices.Collect(m.Runs()); !slices.Equal(got, want) {
		t.Fatalf("runs %+v, want %+v", got, want)
	}
}

// TestStore: what one process puts, another one loads, also one that was open
// before; and other places, topics and incarnations stay apart (M3, M4).
func TestStore(t *testing.T) {
	c := newCluster(t)
	a, b := open(t, c), open(t, c)
	runs := []exact.Run{{Src: 0, Dst: 100, Count: 10}, {Src: 11, Dst: 110, Count: 5, Seq: 10}}
	m, _ := load(t, a, here)
	if m.Len() != 0 {
		t.Fatal("something is on record")
	}
	if err := a.Put(within(t), here, mapOf(t, runs...)); err != nil {
		t.Fatal(err)
	}
	cursor := Cursor{Src: 20, Dst: 115, Seq: 15, At: time.UnixMilli(1_700_000_000_000).UTC()}
	if err := a.PutCursor(within(t), here, cursor); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{a, b, open(t, c)} {
		m, got := load(t, s, here)
		requireRuns(t, m, runs...)
		if got != cursor {
			t.Fatalf("cursor %+v", got)
		}
	}
	for _, p := range []Place{
		{"l", "orders", 2, here.SourceID, here.TargetID}, {"m", "orders", 3, here.SourceID, here.TargetID},
		{"l", "orders", 3, here.TargetID, here.TargetID}, {"l", "orders", 3, here.SourceID, here.SourceID},
	} {
		if m, got := load(t, b, p); m.Len() != 0 || got != (Cursor{}) {
			t.Errorf("%+v has %d runs and cursor %+v", p, m.Len(), got)
		}
	}

	// Another process goes on with it.
	longer := append(slices.Clone(runs), exact.Run{Src: 30, Dst: 200, Count: 1, Seq: 15})
	if err := b.Put(within(t), here, mapOf(t, longer...)); err != nil {
		t.Fatal(err)
	}
	m, _ = load(t, a, here)
	requireRuns(t, m, longer...)
	if err := a.Put(within(t), here, &exact.Map{}); err != nil {
		t.Fatal(err)
	}
	m, _ = load(t, b, here)
	requireRuns(t, m)
	if err := b.Drop(within(t), "l", "orders"); err != nil {
		t.Fatal(err)
	}
	if _, got := load(t, a, here); got != (Cursor{}) {
		t.Errorf("dropped, but the cursor is %+v", got)
	}
}

func TestRead(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c)
	var f *ownlog.Fault
	if _, err := Read(within(t), cl); !errors.As(err, &f) || f.Reason != state.TopicMissing {
		t.Fatalf("without the topic: %v", err)
	}
	s := open(t, c)
	other := here
	other.Partition = 1
	for _, p := range []Place{here, other} {
		if err := s.Put(within(t), p, mapOf(t, exact.Run{Src: 5, Dst: 7, Count: 300})); err != nil {
			t.Fatal(err)
		}
	}
	v, err := Read(within(t), cl)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Places("l"); !slices.Equal(got, []Place{other, here}) {
		t.Fatalf("places %+v", got)
	}
	m, _, err := v.Map(here)
	if err != nil {
		t.Fatal(err)
	}
	requireRuns(t, m, exact.Run{Src: 5, Dst: 7, Count: 300})
}

// TestBytes pins what is stored, and that what cannot be read is an error of its
// own partition (M5).
func TestBytes(t *testing.T) {
	k, err := here.key(kindRuns, 4).encode()
	const wantKey = `{"kind":"runs","link":"l","topic":"orders","partition":3,` +
		`"source_id":"01000000000000000000000000000000","target_id":"02000000000000000000000000000000","chunk":4}`
	if err != nil || string(k) != wantKey {
		t.Fatalf("%s, %v", k, err)
	}
	cursor, err := encodeCursor(Cursor{Src: 20, Dst: 115, Seq: 15, At: time.UnixMilli(1_700_000_000_000)})
	const wantCursor = `{"version":1,"source_offset":20,"target_offset":115,"sequence":15,"at":"2023-11-14T22:13:20Z"}`
	if err != nil || string(cursor) != wantCursor {
		t.Fatalf("%s, %v", cursor, err)
	}
	runs := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cursorKey, err := here.key(kindCursor, 0).encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key, value []byte
		want       error
	}{
		"runs of a later version":   {k, runs("0200"), ErrNewer},
		"no runs":                   {k, runs("01"), ErrCorrupt},
		"an empty chunk":            {k, runs("0100"), ErrCorrupt},
		"a cursor of a later klink": {cursorKey, []byte(`{"version":2}`), ErrNewer},
		"no cursor":                 {cursorKey, []byte(`{}`), ErrCorrupt},
		"a cursor that is none":     {cursorKey, []byte(`7`), ErrCorrupt},
	} {
		v := newView()
		v.apply(c.key, c.value)
		if _, _, err := v.Map(here); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		other := here
		other.Partition++
		if _, _, err := v.Map(other); err != nil {
			t.Errorf("%s: another partition: %v", name, err)
		}
	}
	v := newView()
	v.apply([]byte("x"), nil)
	v.apply([]byte(`{"kind":"runs","source_id":"1"}`), nil)
	v.apply([]byte(`{"kind":"?","source_id":"01000000000000000000000000000000","target_id":"01000000000000000000000000000000"}`), nil)
	if v.Malformed() != 3 {
		t.Errorf("%d records are malformed", v.Malformed())
	}
}

// TestLost: a topic made anew is not read in the place of the one that was opened.
func TestLost(t *testing.T) {
	c := newCluster(t)
	s := open(t, c)
	adm := kadm.NewClient(newClient(t, c))
	if _, err := adm.DeleteTopics(within(t), TopicName); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(within(t), 1, 1, nil, TopicName); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(within(t), here); err == nil {
		t.Error("loaded from another topic")
	}
}
