package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/state"
)

var wantSights = []SightRecord{
	{Link: "east-west", Worker: "host-1-00ff", At: wantAt, Topics: map[string]Covered{
		"orders": {Ends: "9f86d081884c7d65", Except: []int32{3, 11}}, "payments": {Ends: "00000000000000ff"}}},
	{Link: "east-west", Worker: "host-1-00ff", Part: 1, At: wantAt.Add(time.Second), Topics: map[string]Covered{"zones": {Ends: "cbf29ce484222325"}}},
}

// Sights that were written by version 1 decode for ever, and are written so.
func TestVersion1OfSights(t *testing.T) {
	fixtures := fixturesOf(t, "testdata/v1-sight.tsv")
	v := viewOf(t, fixtures...)
	if d := cmp.Diff(wantSights, v.Sights("east-west")); d != "" || v.Problems().Malformed != 0 {
		t.Errorf("(-want +got):\n%s%+v", d, v.Problems())
	}
	var b batch
	for _, r := range wantSights {
		b.add(encodeSight(r))
	}
	if d := cmp.Diff(fixtures, storedOf(t, b), cmp.AllowUnexported(stored{})); d != "" {
		t.Errorf("(-stored +written):\n%s", d)
	}
}

func TestMalformedSights(t *testing.T) {
	for name, r := range map[string]stored{
		"nobody's":   {`{"kind":"sight","link":"l"}`, `{"version":1,"at":"2026-01-02T03:04:05Z"}`},
		"of no time": {`{"kind":"sight","link":"l","worker":"w"}`, `{"version":1,"topics":{}}`},
	} {
		if v := viewOf(t, r); v.Problems().Malformed != 1 {
			t.Errorf("%s is taken for a sight", name)
		}
	}
}

// scene is a topic that two workers share, as recorded at wantAt, and what "one" saw
// of it since.
type scene struct {
	id       feed.TopicID // on record
	recorded StateRecord
	seen     map[int32]Sighting
	since    time.Time
}

// idle is a scene in which nothing changed since: partitions 0 and 1 are one's, 2 is
// two's, and of 3, which is one's, nothing was ever seen.
func idle() *scene {
	saw := func(end int64, at time.Duration) Sighting {
		return Sighting{SourceID: seqID(0), End: end, High: end + 1, At: wantAt.Add(at)}
	}
	p := func(n int32, worker string, end int64) state.Partition {
		return state.Partition{Partition: n, State: state.Active, Worker: worker, SourceEnd: &end, SourceHighWatermark: ptr(end + 1), AsOf: state.Seen{Time: wantAt}}
	}
	return &scene{id: seqID(0), since: wantAt.Add(time.Hour - 15*time.Second),
		recorded: StateRecord{Link: "l", AsOf: wantAt, Topic: state.Topic{SourceTopic: "orders", State: state.Active, Partitions: []state.Partition{
			p(0, "one", 100), p(1, "one", 50), p(2, "two", 7), {Partition: 3, State: state.Pending, Worker: "one"}}}},
		seen: map[int32]Sighting{0: saw(100, time.Hour), 1: saw(50, time.Hour-5*time.Second), 2: saw(7, time.Hour)}}
}

func (s *scene) partition(n int32) *state.Partition { return &s.recorded.Topic.Partitions[n] }

func (s *scene) witness(worker string) Witness {
	return Witness{Link: "l", Worker: worker, Recorded: []StateRecord{s.recorded}, Since: s.since,
		SourceID: func(string) feed.TopicID { return s.id },
		Seen: func(p feed.Partition) (Sighting, bool) {
			got, ok := s.seen[p.Partition]
			return got, ok && p.Topic == "orders"
		}}
}

// ages are by how much later than recorded each partition is known to have been seen.
func ages(r StateRecord) (out [4]time.Duration) {
	for i, p := range r.Topic.Partitions {
		if p.SourceEnd != nil {
			out[i] = p.AsOf.Sub(wantAt)
		}
	}
	return out
}

// What a worker does not vouch for when it writes (saw), and what is not believed of
// what it wrote, since the record is another one by then (then).
func TestWhatASightCovers(t *testing.T) {
	all := time.Hour - 5*time.Second // of the oldest sighting
	for name, c := range map[string]struct {
		saw, then func(*scene)
		want      [4]time.Duration
	}{
		"idle":                           {nil, nil, [4]time.Duration{all, all, 0, 0}},
		"not seen of late":               {func(s *scene) { s.since = wantAt.Add(all + 1) }, nil, [4]time.Duration{time.Hour, 0, 0, 0}},
		"source away for all":            {func(s *scene) { s.since = wantAt.Add(time.Hour + 1) }, nil, [4]time.Duration{}},
		"record behind the worker":       {func(s *scene) { s.seen[0] = Sighting{seqID(0), 101, 102, wantAt.Add(time.Hour)} }, nil, [4]time.Duration{0, all, 0, 0}},
		"high watermark behind":          {func(s *scene) { s.seen[0] = Sighting{seqID(0), 100, 102, wantAt.Add(time.Hour)} }, nil, [4]time.Duration{0, all, 0, 0}},
		"not mirrored here any more":     {func(s *scene) { delete(s.seen, 1) }, nil, [4]time.Duration{time.Hour, 0, 0, 0}},
		"mirrors the incarnation before": {func(s *scene) { s.id = seqID(1) }, nil, [4]time.Duration{}},
		"never saw":                      {func(s *scene) { s.seen[0] = Sighting{SourceID: seqID(0), End: 100, High: 101} }, nil, [4]time.Duration{0, all, 0, 0}},

		"recorded again, the same":                 {nil, func(s *scene) { s.partition(0).State = state.Halted }, [4]time.Duration{all, all, 0, 0}},
		"another's partition grew":                 {nil, func(s *scene) { s.partition(2).SourceEnd = ptr[int64](8) }, [4]time.Duration{all, all, 0, 0}},
		"an older end came back":                   {nil, func(s *scene) { s.partition(0).SourceEnd = ptr[int64](99) }, [4]time.Duration{}},
		"grew since":                               {nil, func(s *scene) { s.partition(1).SourceEnd = ptr[int64](51) }, [4]time.Duration{}},
		"changed hands":                            {nil, func(s *scene) { s.partition(0).Worker = "two" }, [4]time.Duration{}},
		"an older record with one more of its own": {nil, func(s *scene) { s.partition(2).Worker = "one" }, [4]time.Duration{}},
		"source made anew":                         {nil, func(s *scene) { s.id = seqID(1) }, [4]time.Duration{}},
		"except what grew": {func(s *scene) { s.seen[0] = Sighting{seqID(0), 101, 102, wantAt.Add(time.Hour)} },
			func(s *scene) { s.partition(0).SourceEnd = ptr[int64](101) }, [4]time.Duration{0, all, 0, 0}},
		"recorded later": {nil, func(s *scene) { s.partition(0).AsOf.Time = wantAt.Add(2 * time.Hour) }, [4]time.Duration{2 * time.Hour, all, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := idle()
			if c.saw != nil {
				c.saw(s)
			}
			words := s.witness("one").Sights()
			if c.then != nil {
				c.then(s)
			}
			before := ages(s.recorded)
			if got := ages(sighted(s.recorded, s.id, words)); got != c.want {
				t.Errorf("got %v, want %v of %+v", got, c.want, words)
			}
			if before != ages(s.recorded) {
				t.Error("the record itself was changed")
			}
		})
	}
}

func TestSightsOfSeveralWorkers(t *testing.T) {
	s := idle()
	words := slices.Concat(s.witness("one").Sights(), s.witness("two").Sights(), s.witness("three").Sights())
	if got, all := ages(sighted(s.recorded, s.id, words)), time.Hour-5*time.Second; got != [4]time.Duration{all, all, time.Hour, 0} || len(words) != 2 {
		t.Errorf("%v by %+v", got, words)
	}
	s.partition(2).Worker = "three" // two is gone
	got := Unneeded(words, []StateRecord{s.recorded}, "one")
	if d := cmp.Diff(words[1:], got); d != "" {
		t.Error(d)
	}
	if got := Unneeded(words, nil, "one"); !cmp.Equal(got, words[1:]) {
		t.Errorf("%+v", got)
	}
}

// Many topics go in several records, each as of its own oldest sighting.
func TestManyTopicsInSights(t *testing.T) {
	s := idle()
	w := s.witness("one")
	w.Recorded = nil
	for i := range topicsPerSight + 3 {
		r := s.recorded
		r.Topic.SourceTopic = fmt.Sprintf("%s-%06d", strings.Repeat("x", 240), i)
		w.Recorded = append(w.Recorded, r)
	}
	w.Seen = func(p feed.Partition) (Sighting, bool) { got, ok := s.seen[p.Partition]; return got, ok }
	words := w.Sights()
	if len(words) != 2 || len(words[1].Topics) != 3 || words[1].Part != 1 {
		t.Fatalf("%d records", len(words))
	}
	var b batch
	for _, r := range words {
		b.add(encodeSight(r))
	}
	for _, r := range storedOf(t, b) {
		if len(r.value) > maxRecordBytes/2 {
			t.Errorf("%d bytes", len(r.value))
		}
	}
	for _, r := range w.Recorded {
		if got := ages(sighted(r, s.id, words)); got[0] != time.Hour-5*time.Second {
			t.Fatalf("%s: %v", r.Topic.SourceTopic, got)
		}
	}
}

// Many exceptions take the room of topics.
func TestManyExceptionsInSights(t *testing.T) {
	w := idle().witness("one")
	w.Recorded = nil
	for i := range 3 {
		r := StateRecord{Link: "l", Topic: state.Topic{SourceTopic: fmt.Sprint("orders-", i)}}
		for n := range int32(30_000) {
			r.Topic.Partitions = append(r.Topic.Partitions, state.Partition{Partition: n, Worker: "one", SourceEnd: ptr[int64](100), SourceHighWatermark: ptr[int64](101)})
		}
		w.Recorded = append(w.Recorded, r)
	}
	w.Seen = func(p feed.Partition) (Sighting, bool) {
		return Sighting{SourceID: seqID(0), End: 100, High: 101, At: wantAt.Add(time.Hour)}, p.Partition == 0
	}
	words := w.Sights()
	if len(words) != 3 || len(words[2].Topics["orders-2"].Except) != 29_999 {
		t.Errorf("%d records", len(words))
	}
}

// The report without a klink is as of what was seen last.
func TestReportIsAsOfSights(t *testing.T) {
	s := idle()
	var b batch
	b.add(encodeTopic(TopicRecord{Link: "l", SourceTopic: "orders", SourceID: s.id, TargetTopic: "orders", Partitions: 4}, nil))
	keys, values := encodeState(s.recorded)
	b.add(keys[0], values[0])
	for _, r := range s.witness("one").Sights() {
		b.add(encodeSight(r))
	}
	all := storedOf(t, b)
	at := wantAt.Add(time.Hour - 5*time.Second)
	rep, ok := viewOf(t, all...).LinkReport("l")
	if !ok || !rep.AsOf.Equal(at) || !rep.Links[0].Topics[0].Partitions[0].AsOf.Equal(at) || !rep.Links[0].Topics[0].Partitions[2].AsOf.Equal(wantAt) {
		t.Errorf("%+v", rep)
	}
	v := viewOf(t, append(all, stored{key: all[2].key})...)
	if rep, _ := v.LinkReport("l"); !rep.AsOf.Equal(wantAt) || len(v.Sights("l")) != 0 {
		t.Errorf("after the sight was taken off: %+v", rep)
	}
}

// TestASightIsNeverTooOptimistic lets two workers, which share a topic and write each
// other's partitions as they last read them, do what they like in any order: whatever
// is on record, no partition's source had more at the time that States gives than the
// end that stands with it.
func TestASightIsNeverTooOptimistic(t *testing.T) {
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(tb)
		t.Repeat(map[string]func(*rapid.T){
			"append":   func(t *rapid.T) { m.ends[rapid.IntRange(0, 2).Draw(t, "partition")]++ },
			"recreate": func(*rapid.T) { m.id, m.ends = m.id+1, [3]int64{1, 1, 1} },
			"one":      func(t *rapid.T) { m.turn(t, m.workers[0]) },
			"two":      func(t *rapid.T) { m.turn(t, m.workers[1]) },
			"hand over": func(t *rapid.T) {
				m.owner[rapid.IntRange(0, 2).Draw(t, "partition")] = rapid.IntRange(0, 1).Draw(t, "worker")
			},
			"": func(t *rapid.T) { m.check(t) },
		})
	})
}

// model is one topic of three partitions, with its past.
type model struct {
	tb      testing.TB
	now     time.Time
	id      byte
	ends    [3]int64
	past    [][3]int64 // by the second since wantAt
	owner   [3]int
	workers [2]*modelWorker
	log     []stored
}

type modelWorker struct {
	name string
	seen map[int32]Sighting
	read []stored // what it has read of the log
}

func newModel(tb testing.TB) *model {
	return &model{tb: tb, now: wantAt, workers: [2]*modelWorker{{name: "one", seen: map[int32]Sighting{}}, {name: "two", seen: map[int32]Sighting{}}}}
}

// turn has a worker do some of what it does in turn.
func (m *model) turn(t *rapid.T, w *modelWorker) {
	if rapid.Bool().Draw(t, "read") {
		w.read = m.log
	}
	for n := range 3 {
		if rapid.Bool().Draw(t, "look") {
			m.look(w, n)
		}
	}
	if rapid.Bool().Draw(t, "record") {
		m.record(w)
	}
	if rapid.Bool().Draw(t, "sight") {
		m.sight(w, time.Duration(rapid.IntRange(1, 20).Draw(t, "since"))*time.Second)
	}
}

func (m *model) look(w *modelWorker, n int) {
	w.seen[int32(n)] = Sighting{SourceID: feed.TopicID{m.id}, End: m.ends[n], High: m.ends[n], At: m.now}
}

// put appends to the log; who writes has read what it wrote.
func (m *model) put(w *modelWorker, rs []stored) {
	m.log = slices.Concat(m.log, rs)
	w.read = slices.Concat(w.read, rs)
}

// fold gives the states by what was read, of which the last of a key counts.
func (m *model) fold(rs []stored) *View {
	v := newView()
	for i, r := range rs {
		_ = v.apply(int64(i), m.now, []byte(r.key), []byte(r.value))
	}
	return v
}

func (m *model) record(w *modelWorker) {
	was := m.fold(w.read).States("l")
	s := StateRecord{Link: "l", AsOf: m.now, Topic: state.Topic{SourceTopic: "orders"}}
	id := feed.TopicID{}
	for n := range int32(3) {
		p := state.Partition{Partition: n}
		if len(was) > 0 {
			p = was[0].Topic.Partitions[n]
		}
		if got, ok := w.seen[n]; m.workers[m.owner[n]] == w {
			p = state.Partition{Partition: n, Worker: w.name}
			if ok {
				id = got.SourceID
				p.SourceEnd, p.SourceHighWatermark, p.AsOf.Time = &got.End, &got.High, got.At
			}
		}
		s.Topic.Partitions = append(s.Topic.Partitions, p)
	}
	var b batch
	b.add(encodeTopic(TopicRecord{Link: "l", SourceTopic: "orders", SourceID: id, TargetTopic: "orders"}, nil))
	keys, values := encodeState(s)
	b.add(keys[0], values[0])
	m.put(w, storedOf(m.tb, b))
}

func (m *model) sight(w *modelWorker, since time.Duration) {
	v := m.fold(w.read)
	words := Witness{Link: "l", Worker: w.name, Recorded: v.States("l"), Since: m.now.Add(-since),
		SourceID: func(topic string) feed.TopicID { r, _ := v.Topic("l", topic); return r.SourceID },
		Seen: func(p feed.Partition) (Sighting, bool) {
			s, ok := w.seen[p.Partition]
			return s, ok && m.workers[m.owner[p.Partition]] == w
		}}.Sights()
	var b batch
	for _, r := range words {
		b.add(encodeSight(r))
	}
	m.put(w, storedOf(m.tb, b))
}

// check lets a second pass and looks at what is on record.
func (m *model) check(t *rapid.T) {
	m.past = append(m.past, m.ends)
	m.now = m.now.Add(time.Second)
	for _, s := range m.fold(m.log).States("l") {
		for _, p := range s.Topic.Partitions {
			if p.SourceEnd == nil {
				continue
			}
			if was := m.past[int(p.AsOf.Sub(wantAt)/time.Second)][p.Partition]; was > *p.SourceEnd {
				t.Fatalf("partition %d of %s: %d as of %s, and the source had %d", p.Partition, p.Worker, *p.SourceEnd, p.AsOf, was)
			}
		}
	}
}
