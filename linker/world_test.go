package linker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

// world is a source, a target and a control topic in memory, one log for each
// partition number, behind all ports of a Link.
type world struct {
	mu         sync.Mutex // guards all below
	found      []Found
	targets    map[string][16]byte
	nextID     byte
	srcID      string
	dstID      string
	down       *Trouble
	refuse     map[string]*Trouble
	records    map[string]control.TopicRecord
	links      map[string]control.LinkRecord
	states     map[string]control.StateRecord
	stateErr   error
	sights     []control.SightRecord
	sightPuts  int
	unread     error // what DescribeProducers answers
	puts       int
	worker     control.WorkerRecord
	block      chan struct{} // Find waits for it
	lineage    map[feed.Partition]*memLineage
	padding    bool
	unfollowed []string // what no target topic follows

	src, dst map[feed.Partition]*memLog
	sources  sync.WaitGroup
	// fault and mended are the sources' (memSource).
	fault    func(p feed.Partition, next int64) *feed.Fault
	mended   chan struct{}
	prepared map[string]int // how often each topic was prepared
	hang     bool           // Prepare waits for the end of its context
	memRecords
	memOrders
	memAudits
}

func newWorld() *world {
	return &world{targets: map[string][16]byte{}, srcID: "SRC", dstID: "DST", refuse: map[string]*Trouble{}, nextID: 100,
		records: map[string]control.TopicRecord{}, links: map[string]control.LinkRecord{}, states: map[string]control.StateRecord{},
		prepared: map[string]int{}, lineage: map[feed.Partition]*memLineage{}, src: map[feed.Partition]*memLog{}, dst: map[feed.Partition]*memLog{}}
}

// add makes a source topic with n partitions of ten records each.
func (w *world) add(name string, id byte, n int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.found {
		if w.found[i].Topic == name {
			w.found = append(w.found[:i], w.found[i+1:]...)
			break
		}
	}
	w.found = append(w.found, Found{Topic: name, ID: feed.TopicID{id}, Partitions: n, Target: name})
	for p := range n {
		key := feed.Partition{Topic: name, Partition: p}
		if l := w.src[key]; l != nil && l.id == (feed.TopicID{id}) {
			continue
		}
		w.src[key] = newMemLog(id)
		w.src[key].write(records(0, 10, name), 0, batch.CodecNone)
	}
}

func (w *world) log(side map[feed.Partition]*memLog, p feed.Partition) *memLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	return side[p]
}

func (w *world) SourceID(context.Context) (string, *Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.srcID, w.down
}

func (w *world) TargetID(context.Context) (string, *Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dstID, nil
}

func (w *world) Find(_ context.Context, records []control.TopicRecord) ([]Found, *Trouble) {
	w.mu.Lock()
	block := w.block
	w.mu.Unlock()
	if block != nil {
		<-block
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	found := append([]Found(nil), w.found...)
	for _, name := range mirrored(records) {
		if !slices.ContainsFunc(found, func(f Found) bool { return f.Topic == name }) {
			found = append(found, Found{Topic: name, Target: name, Trouble: &Trouble{Reason: state.TopicMissing, Detail: "gone", OnSource: true}})
		}
	}
	return found, w.down
}

func (w *world) Existing(_ context.Context, targets []string) (map[string]bool, *Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]bool{}
	for _, t := range targets {
		_, out[t] = w.targets[t]
	}
	return out, nil
}

// prepares is how often a topic was prepared.
func (w *world) prepares(topic string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.prepared[topic]
}

func (w *world) Prepare(ctx context.Context, found []Found, _ func(string) topics.Recorded) (map[string]Prepared, *Trouble) {
	w.mu.Lock()
	hang := w.hang
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, &Trouble{Reason: state.Unreachable, Detail: ctx.Err().Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]Prepared{}
	for _, f := range found {
		w.prepared[f.Topic]++
		out[f.Topic] = w.prepareLocked(f)
	}
	return out, nil
}

func (w *world) prepareLocked(f Found) Prepared {
	if t := w.refuse[f.Topic]; t != nil {
		return Prepared{Trouble: t}
	}
	id, there := w.targets[f.Target]
	if !there {
		w.nextID++
		id = [16]byte{w.nextID}
		w.targets[f.Target] = id
	}
	for p := range f.Partitions {
		key := feed.Partition{Topic: f.Target, Partition: p}
		if l := w.dst[key]; l == nil || l.id != feed.TopicID(id) {
			w.dst[key] = newMemLog(id[0])
		}
	}
	return Prepared{ID: id, Created: !there, MaxBatchBytes: 1 << 20, Unfollowed: w.unfollowed}
}

func (w *world) ExpireProducers(context.Context) time.Duration { return 24 * time.Hour }

func (w *world) Open(s feed.Start) feed.Stream {
	src := &memSource{log: w.log(w.src, s.Partition), rand: rand.New(rand.NewPCG(1, 1)), fault: w.fault, mended: w.mended}
	w.sources.Add(1)
	st := src.Open(s)
	return feed.Stream{Events: st.Events, Close: sync.OnceFunc(func() { st.Close(); w.sources.Done() })}
}

type worldReader struct {
	w    *world
	side map[feed.Partition]*memLog
	// gone tells of a topic that was deleted; nil for the source.
	gone func(topic string) bool
}

func (w *world) targetGone(topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there := w.targets[topic]
	return !there
}

func (r worldReader) Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error) {
	if r.gone != nil && r.gone(p.Topic) {
		return feed.Bounds{}, feed.NewFault(feed.Gone, p, feed.Unknown, nil)
	}
	return memReader{r.w.log(r.side, p)}.Bounds(ctx, p, id)
}

func (r worldReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, n int32) (*feed.Chunk, error) {
	return memReader{r.w.log(r.side, p)}.Read(ctx, p, id, from, n)
}

func (w *world) target(t appender.Target) *memTarget {
	return &memTarget{log: w.log(w.dst, feed.Partition{Topic: t.Topic, Partition: t.Partition})}
}

func (w *world) Begin(ctx context.Context, t appender.Target, b appender.Batch) *appender.Pending {
	return w.target(t).Begin(ctx, t, b)
}

func (w *world) WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult {
	return w.target(t).WriteMarkers(ctx, t, m)
}

func (w *world) SettleMarkers(context.Context, appender.Target) error { return nil }

func (w *world) Ends(ctx context.Context, ts []appender.Target) map[appender.Target]appender.Ends {
	out := map[appender.Target]appender.Ends{}
	for _, t := range ts {
		out[t] = w.target(t).Ends(ctx, []appender.Target{t})[t]
	}
	return out
}

func (w *world) Trim(ctx context.Context, starts map[appender.Target]int64) map[appender.Target]appender.Trimmed {
	out := map[appender.Target]appender.Trimmed{}
	for t, start := range starts {
		out[t] = w.target(t).Trim(ctx, map[appender.Target]int64{t: start})[t]
	}
	return out
}

func (w *world) LogEnds(ctx context.Context, ts []appender.Target) map[appender.Target]appender.LogEnd {
	out := map[appender.Target]appender.LogEnd{}
	for _, t := range ts {
		if w.targetGone(t.Topic) {
			out[t] = appender.LogEnd{End: -1, Reason: state.TargetRecreated, Err: errors.New("unknown topic id")}
			continue
		}
		out[t] = w.target(t).LogEnds(ctx, []appender.Target{t})[t]
	}
	return out
}

func (w *world) ProducerState(ctx context.Context, t appender.Target, id int64) (appender.ProducerState, error) {
	w.mu.Lock()
	err := w.unread
	w.mu.Unlock()
	if err != nil {
		return appender.ProducerState{}, err
	}
	return w.target(t).ProducerState(ctx, t, id)
}

func (w *world) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (w *world) Close() {}

func (w *world) Link(name string) (control.LinkRecord, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.links[name]
	return r, ok
}

func (w *world) PutLink(_ context.Context, r control.LinkRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[r.Link] = r
	return nil
}

func (w *world) PutLinkState(context.Context, control.LinkStateRecord) error { return nil }

func (w *world) Topics(string) (all []control.TopicRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		all = append(all, r)
	}
	return all
}

func (w *world) Worker(string) (control.WorkerRecord, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worker, w.worker.Worker != ""
}

func (w *world) PutWorker(_ context.Context, r control.WorkerRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Replaced = w.worker.Worker
	w.worker = r
	return nil
}

func (w *world) DropWorker(_ context.Context, _, worker string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worker.Worker == worker {
		w.worker = control.WorkerRecord{}
	}
	return nil
}

func (w *world) Topic(_, topic string) (control.TopicRecord, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.records[topic]
	return r, ok
}

func (w *world) PutTopic(_ context.Context, r control.TopicRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records[r.SourceTopic] = r
	return nil
}

func (w *world) Padding(string, string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.padding
}

func (w *world) States(string) (out []control.StateRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		out = append(out, s)
	}
	return out
}

func (w *world) Recorded(link string) []control.StateRecord { return w.States(link) }

func (w *world) PutState(_ context.Context, r control.StateRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts++
	if w.stateErr == nil {
		w.states[r.Topic.SourceTopic] = r
	}
	return w.stateErr
}

func (w *world) Sights(string) []control.SightRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sights)
}

func (w *world) PutSights(_ context.Context, rs []control.SightRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		w.sightPuts++
		w.dropSightLocked(r)
		w.sights = append(w.sights, r)
	}
	return nil
}

func (w *world) DropSights(_ context.Context, rs []control.SightRecord) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		w.dropSightLocked(r)
	}
	return nil
}

func (w *world) dropSightLocked(r control.SightRecord) {
	w.sights = slices.DeleteFunc(w.sights, func(o control.SightRecord) bool { return o.Worker == r.Worker && o.Part == r.Part })
}

func (w *world) epochs(p feed.Partition) *memLineage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lineage[p] == nil {
		w.lineage[p] = &memLineage{}
	}
	return w.lineage[p]
}

func (w *world) Epochs(l, t string, p int32) []control.Epoch {
	return w.epochs(feed.Partition{Topic: t, Partition: p}).Epochs(l, t, p)
}

func (w *world) PutEpoch(ctx context.Context, r control.EpochRecord) error {
	return w.epochs(feed.Partition{Topic: r.Topic, Partition: r.Partition}).PutEpoch(ctx, r)
}

// run starts a link over the world; end stops and waits.
func (w *world) run(t *testing.T) (l *Link, end func()) {
	t.Helper()
	l = w.link(t, "w")
	return l, w.start(t, l)
}

// start runs a link over the world.
func (w *world) start(t *testing.T, l *Link) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run ended with %v", err)
		}
		w.sources.Wait()
	}
}

// link makes a link over the world, as the named process.
func (w *world) link(t *testing.T, worker string) *Link {
	t.Helper()
	l, err := New(Options{Name: "l", Source: w, SrcReader: worldReader{w, w.src, nil}, DstReader: worldReader{w, w.dst, w.targetGone}, Target: w,
		Clusters: w, Catalog: w, Lease: memLease{}, Policies: memPolicies{}, From: Earliest{}, PadLimit: 1 << 40, Gaps: plan.FillMarkers, Memory: memMemory{}, Limits: plan.DefaultLimits(), Worker: worker, Version: "v",
		OpenStore: func(context.Context) (Store, *Trouble) { return w, nil },
		Logger:    slog.New(slog.DiscardHandler), Meter: noop.NewMeterProvider().Meter("")})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// topicReport waits in virtual time and returns a topic's report.
func topicReport(t *testing.T, l *Link, name string) state.Topic {
	t.Helper()
	time.Sleep(2 * discoverEvery)
	synctest.Wait()
	for _, r := range l.Report().Topics {
		if r.SourceTopic == name {
			return r
		}
	}
	t.Fatalf("no topic %s in %+v", name, l.Report())
	return state.Topic{}
}

func mustBe(t *testing.T, got state.Topic, want state.State, why state.Reason) {
	t.Helper()
	if got.State != want || got.Reason != string(why) {
		t.Fatalf("%s is %s %s (%s), want %s %s", got.SourceTopic, got.State, got.Reason, got.Detail, want, why)
	}
	for _, p := range got.Partitions {
		if why != "" && p.State == state.Active {
			t.Errorf("partition %d is ACTIVE", p.Partition)
		}
	}
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
