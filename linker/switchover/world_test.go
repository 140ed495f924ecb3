package switchover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
	"klink/linker/topics"
)

var (
	errCut   = errors.New("connection cut")
	errTaken = errors.New("followers are away")
)

// crash is what a port panics with where the process dies.
type crash struct{}

const (
	theLink = "east-west"
	// tick is how often whoever waits for the record looks, and lag how long
	// workers take to hear of a command.
	tick = 20 * time.Millisecond
	lag  = 100 * time.Millisecond
	// late is when a command in doubt gets on record after all.
	late = 1700 * time.Millisecond
	// session is how long a worker that is cut off goes on.
	session = 10 * time.Second
)

// entry is one offset of a target log.
type entry struct {
	epoch   int16
	marker  bool
	counter int32
}

// piece is one partition on both sides.
type piece struct {
	topic string
	n     int32
	src   int64 // end of the source
	log   []entry
	epoch int16 // of the broker's entry
	coord int32
	// answered is what the source last said of its end, and when.
	answered   int64
	answeredAt time.Time
	ackedAt    time.Time
}

// add appends as a broker would, or refuses.
func (p *piece) add(e entry) error {
	if e.epoch < p.epoch {
		return errFencedOut
	}
	p.epoch = e.epoch
	p.log = append(p.log, e)
	return nil
}

var errFencedOut = errors.New("epoch is fenced")

// placed is a command that is on record from a time on.
type placed struct {
	intent.Command
	at time.Time
}

// world is a link as dumb as can be: two clusters, the record, one worker and
// other operators. pick chooses one of n things that may happen at a step, 0 for
// nothing special. Nothing in it runs by itself: it catches up at each step.
type world struct {
	t    testing.TB
	mu   sync.Mutex // held by ports; tests look when none is called
	pick func(step string, n int) int

	pieces []*piece
	log    []placed // sorted by time; of one number the first counts
	acks   map[string][]control.AckRecord
	groups bool // the worker confirms group offsets
	// wantsGroups: a promotion waits for that.
	wantsGroups bool
	cuts        map[string]control.CutRecord
	forced      map[string]int
	taken       map[feed.Partition]int32 // counters reserved

	worker worker
	trace  []string
	// rivals are what another operator may do right before a command.
	rivals []intent.Verb
	// deaf: the control topic takes no writes until then.
	deaf time.Time
	// behind is how many of the last offsets only the target's leaders have.
	behind int64
	// mayMark is false where the right for markers is missing.
	mayMark bool
	began   time.Time
	// quiet is Times.Quiet: short, so that there are not too many courses.
	quiet time.Duration
}

func newWorld(t testing.TB, pick func(string, int) int, parts ...string) *world {
	w := &world{t: t, pick: pick, acks: map[string][]control.AckRecord{}, cuts: map[string]control.CutRecord{}, forced: map[string]int{},
		taken: map[feed.Partition]int32{}, mayMark: true, began: time.Now(), quiet: tick,
		worker: worker{alive: true, reads: true, acked: map[string]int32{}, seen: map[int32]time.Time{}}}
	n := map[string]int32{}
	for _, topic := range parts {
		p := &piece{topic: topic, n: n[topic], src: 3, coord: -1}
		p.log = []entry{{}, {}, {}}
		n[topic]++
		w.pieces = append(w.pieces, p)
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("05.000")}, args...)...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.trace {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}

// names are the topics, sorted.
func (w *world) names() []string {
	var out []string
	for _, p := range w.pieces {
		out = append(out, p.topic)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// winners are the commands that count of those on record at a time.
func (w *world) winners(at time.Time) []intent.Command {
	var out []intent.Command
	seen := map[int32]bool{}
	for _, c := range w.log {
		if !c.at.After(at) && !seen[c.Number] {
			seen[c.Number] = true
			out = append(out, c.Command)
		}
	}
	return out
}

func (w *world) wants(topic string) intent.Intent { return w.wanted().Of(topic) }

func (w *world) wanted() intent.Intents { return intent.Fold(w.winners(time.Now())) }

// lock takes the world for one port; what it returns gives it back.
func (w *world) lock() func() {
	w.mu.Lock()
	return w.mu.Unlock
}

// put places a command.
func (w *world) put(c intent.Command, at time.Time) {
	w.note("on record at %s: %d %s %v", at.Format("05.000"), c.Number, c.Verb, c.Topics)
	i := 0
	for i < len(w.log) && !w.log[i].at.After(at) {
		i++
	}
	w.log = slices.Insert(w.log, i, placed{c, at})
}

func (w *world) of(topic string) []*piece {
	return slices.DeleteFunc(slices.Clone(w.pieces), func(p *piece) bool { return p.topic != topic })
}

// pass lets time go by, with the worker at work now and then.
func (w *world) pass(d time.Duration) {
	const steps = 30
	for range steps {
		time.Sleep(d / steps)
		func() {
			defer w.lock()()
			w.step()
		}()
	}
}

// die ends the process where pick says so.
func (w *world) die(what string) {
	w.note("crash at %s", what)
	panic(crash{})
}

// ports.

func (w *world) CatchUp(context.Context) error {
	defer w.lock()()
	w.step()
	switch w.pick("catch up", 3) {
	case 1:
		w.note("catch up fails")
		return errCut
	case 2:
		w.die("catch up")
	}
	return nil
}

// Changed fires at the next tick: whoever waits looks often.
func (w *world) Changed() <-chan struct{} {
	defer w.lock()()
	w.step()
	ch := make(chan struct{})
	time.AfterFunc(tick, func() { close(ch) })
	return ch
}

func (w *world) Link(string) (control.LinkRecord, bool) {
	return control.LinkRecord{Link: theLink, SourceClusterID: "src"}, true
}

func topicID(name string) (id feed.TopicID) { copy(id[:], name); return id }

func (w *world) Topics(string) []control.TopicRecord {
	var out []control.TopicRecord
	for _, t := range w.names() {
		out = append(out, control.TopicRecord{Link: theLink, SourceTopic: t, TargetTopic: t, SourceID: topicID("s" + t), TargetID: topicID("t" + t),
			Partitions:    int32(len(w.of(t))),
			SourceConfigs: control.NewConfigs(map[string]control.Config{"retention.ms": {Value: "1000"}})})
	}
	return out
}

func (w *world) States(string) []control.StateRecord {
	defer w.lock()()
	var out []control.StateRecord
	for _, t := range w.names() {
		r := control.StateRecord{Link: theLink, Topic: state.Topic{SourceTopic: t, TargetTopic: t}}
		for _, p := range w.of(t) {
			end, dst := p.src, int64(len(p.log))
			r.Topic.Partitions = append(r.Topic.Partitions, state.Partition{Partition: p.n, State: state.Active, SourceEnd: &end,
				SourceHighWatermark: &end, TargetEnd: &dst, Worker: "w1", AsOf: state.Seen{Time: w.began}})
		}
		out = append(out, r)
	}
	return out
}

func (w *world) Pad(string, string, int32) (r control.PadRecord, ok bool) { return r, false }

func (w *world) Ledger(string, string, int32) (r control.LedgerRecord, ok bool) { return r, false }

func (w *world) Groups(string) []control.GroupRecord { return nil }

func (w *world) Commands(string) []intent.Command {
	defer w.lock()()
	return w.winners(time.Now())
}

func (w *world) Intents(string) intent.Intents {
	defer w.lock()()
	return intent.Fold(w.winners(time.Now()))
}

func (w *world) Acks(_, topic string) []control.AckRecord {
	defer w.lock()()
	return w.acks[topic]
}

func (w *world) PutCommand(ctx context.Context, c intent.Command) error {
	defer w.lock()()
	w.step()
	now := time.Now()
	if err := c.Check(); err != nil {
		w.fatal("a command that is none: %v", err)
	}
	w.rival()
	if now.Before(w.deaf) {
		return errCut
	}
	if err := w.decided(c); err != errOpen {
		return err
	}
	if now := w.wanted(); now.Next() != c.Number || now.Admits(c) != nil {
		w.note("%s %d is refused: next is %d, %v", c.Verb, c.Number, now.Next(), now.Admits(c))
		if err := now.Admits(c); err != nil {
			return err
		}
		return errCut
	}
	w.note("putting %d %s", c.Number, c.Verb)
	if c.Verb == intent.Promote {
		w.checkPromotion(c)
	}
	switch w.pick("command "+string(c.Verb), 6) {
	case 1:
		w.note("not written")
		return errCut
	case 2:
		w.put(c, now)
		return errCut
	case 3:
		w.put(c, now.Add(late))
		return errCut
	case 4:
		w.die("command, before")
	case 5:
		w.put(c, now)
		w.die("command, after")
	}
	w.put(c, now)
	return w.decided(c)
}

var errOpen = errors.New("nobody has the number")

func (w *world) decided(c intent.Command) error {
	for _, o := range w.winners(time.Now()) {
		switch {
		case o.Number != c.Number:
		case o.ID == c.ID:
			return nil
		default:
			return &control.LostError{Winner: o}
		}
	}
	return errOpen
}

// rival lets another operator be quicker.
func (w *world) rival() {
	if len(w.rivals) == 0 {
		return
	}
	i := w.pick("rival", len(w.rivals)+1)
	if i == 0 {
		return
	}
	now := w.wanted()
	c := intent.Command{Link: theLink, Number: now.Next(), ID: newID(), Verb: w.rivals[i-1], Topics: w.names(), At: time.Now(), By: "rival"}
	if c.Verb == intent.Failover {
		c.Fence, c.Switch = 1, "rival's"
	}
	if now.Admits(c) == nil {
		w.put(c, time.Now())
	}
}

// checkPromotion is X1, for a Promote that may count from now on.
func (w *world) checkPromotion(c intent.Command) {
	for _, topic := range c.Topics {
		r, ok := w.cuts[topic+"/"+c.Switch]
		if !ok {
			w.fatal("X1: promoted without a cut of %s", topic)
		}
		for _, p := range w.of(topic) {
			got := r.Partitions[p.n]
			if got.TargetEnd != int64(len(p.log)) || got.TargetEnd != p.answered || !p.answeredAt.After(p.ackedAt) && !p.answeredAt.Equal(p.ackedAt) {
				w.fatal("X1: %s/%d is cut at %d, ends at %d, the source said %d at %v, the worker stopped at %v",
					topic, p.n, got.TargetEnd, len(p.log), p.answered, p.answeredAt, p.ackedAt)
			}
		}
	}
}

func (w *world) Cuts(_, id string) []control.CutRecord {
	defer w.lock()()
	var out []control.CutRecord
	for _, t := range w.names() {
		if r, ok := w.cuts[t+"/"+id]; ok {
			out = append(out, r)
		}
	}
	return out
}

func (w *world) PutCuts(_ context.Context, rs []control.CutRecord) error {
	defer w.lock()()
	w.step()
	if time.Now().Before(w.deaf) {
		return errCut
	}
	f := w.pick("cuts", 5)
	if f == 1 {
		return errCut
	}
	if f == 2 {
		w.die("cuts, before")
	}
	for _, r := range rs {
		w.note("cut %s of %s, unsettled %t: %+v", r.Topic, r.Switch, r.Unsettled, r.Partitions)
		if !r.Unsettled && w.forced[r.Topic] == 0 {
			w.fatal("X9: the cut of %s is settled without its settings", r.Topic)
		}
		w.cuts[r.Topic+"/"+r.Switch] = r
	}
	switch f {
	case 3:
		return errCut
	case 4:
		w.die("cuts, after")
	}
	return nil
}

func (w *world) ReserveCounters(_ context.Context, r control.CounterRequest) (int32, error) {
	defer w.lock()()
	w.step()
	if time.Now().Before(w.deaf) {
		return 0, errCut
	}
	k := feed.Partition{Topic: r.Topic, Partition: r.Partition}
	switch w.pick("reserve", 3) {
	case 1:
		return 0, errCut
	case 2:
		w.die("reserve")
	}
	first := max(w.taken[k], r.Above+1)
	w.taken[k] = first + r.Count
	return first, nil
}

func (w *world) CounterEnd(_, topic string, _ feed.TopicID, n int32) int32 {
	defer w.lock()()
	return w.taken[feed.Partition{Topic: topic, Partition: n}]
}

func (w *world) piece(t appender.Target) *piece { return w.of(t.Topic)[t.Partition] }

func (w *world) Ends(_ context.Context, ts []appender.Target) map[appender.Target]appender.Ends {
	defer w.lock()()
	w.step()
	out := map[appender.Target]appender.Ends{}
	f := w.pick("ends", 3)
	if f == 2 {
		w.die("ends")
	}
	for i, t := range ts {
		n := int64(len(w.piece(t).log))
		out[t] = appender.Ends{LogEnd: n, HighWatermark: n - w.behind}
		if f == 1 && i == 0 {
			out[t] = appender.Ends{LogStart: -1, HighWatermark: -1, LogEnd: -1, Reason: state.NoLeader, Err: errCut}
		}
	}
	return out
}

// WriteMarkers checks that what is written is a fence.
func (w *world) WriteMarkers(_ context.Context, t appender.Target, m appender.Markers) appender.MarkerResult {
	defer w.lock()()
	w.step()
	p := w.piece(t)
	_, reason := ledger.SplitEpoch(m.CoordinatorEpochs[0])
	if len(m.CoordinatorEpochs) != 1 || reason != ledger.None || m.Identity.ProducerEpoch < 1 {
		w.fatal("no fence: %+v", m)
	}
	if !w.mayMark {
		return appender.MarkerResult{Outcome: appender.MarkersRefused, Reason: state.NoPermission, Err: errTaken}
	}
	f := w.pick("fence", 7)
	switch f {
	case 1:
		return appender.MarkerResult{Outcome: appender.MarkersNotSent, Reason: state.NoLeader, Err: errCut}
	case 2:
		return appender.MarkerResult{Outcome: appender.MarkersRefused, Reason: state.NotEnoughReplicas, Err: errTaken}
	case 3:
		return appender.MarkerResult{Outcome: appender.MarkersUnknown, Reason: state.Unreachable, Err: errCut}
	case 4:
		w.die("fence, before")
	}
	switch {
	case m.Identity.ProducerEpoch < p.epoch:
		return appender.MarkerResult{Outcome: appender.MarkersProducerFenced, Reason: state.Fenced, Err: errTaken}
	case m.CoordinatorEpochs[0] < p.coord:
		return appender.MarkerResult{Outcome: appender.MarkersCoordinatorFenced, Err: errTaken}
	}
	_ = p.add(entry{epoch: m.Identity.ProducerEpoch, marker: true, counter: m.CoordinatorEpochs[0]})
	p.coord = m.CoordinatorEpochs[0]
	w.note("fence of %s/%d at %d, epoch %d", p.topic, p.n, len(p.log)-1, p.epoch)
	switch f {
	case 5:
		return appender.MarkerResult{Outcome: appender.MarkersUnknown, Reason: state.Unreachable, Err: errCut}
	case 6:
		w.die("fence, after")
	}
	return appender.MarkerResult{Outcome: appender.MarkersDone}
}

func (w *world) ProducerStates(_ context.Context, ids map[appender.Target]int64) map[appender.Target]appender.AskedState {
	defer w.lock()()
	w.step()
	fault := w.pick("producers", 2)
	out := map[appender.Target]appender.AskedState{}
	for t := range ids {
		p := w.piece(t)
		out[t] = appender.AskedState{ProducerState: appender.ProducerState{Known: true, Epoch: p.epoch, CoordinatorEpoch: p.coord}}
		if fault == 1 {
			out[t] = appender.AskedState{Err: errCut}
		}
	}
	return out
}

// Restore implements Settings.
func (w *world) Restore(_ context.Context, rs []topics.Restoration) []topics.Restored {
	defer w.lock()()
	w.step()
	out := make([]topics.Restored, len(rs))
	f := w.pick("settings", 4)
	if f == 2 {
		w.die("settings, before")
	}
	for i, r := range rs {
		if r.Source["retention.ms"].Value != "1000" {
			w.fatal("%s is to get the settings %v", r.Target, r.Source)
		}
		out[i] = topics.Restored{Target: r.Target}
		if f == 1 && i == 0 {
			out[i].Err = errCut
			continue
		}
		w.forced[r.Target]++
	}
	if f == 3 {
		w.die("settings, after")
	}
	return out
}

// SourceEnds implements the port. The source may take in a record just before it
// answers, or just after.
func (w *world) SourceEnds(_ context.Context, ps []feed.Partition) (map[feed.Partition]SourceEnd, error) {
	defer w.lock()()
	w.step()
	f := w.pick("source", 5)
	switch f {
	case 1:
		return nil, errCut
	case 2:
		w.pieces[0].src++
	case 4:
		w.die("source")
	}
	out := map[feed.Partition]SourceEnd{}
	for _, q := range ps {
		p := w.of(q.Topic)[q.Partition]
		p.answered, p.answeredAt = p.src, time.Now()
		out[q] = SourceEnd{ID: topicID("s" + q.Topic), Stable: p.src, End: p.src}
	}
	if f == 3 {
		w.note("the source takes in a record of %s", w.pieces[0].topic)
		w.pieces[0].src++
	}
	return out, nil
}

// firstFence is where the first fence stands, feed.Unknown for none.
func (p *piece) firstFence() int64 {
	for i, e := range p.log {
		if e.marker {
			return int64(i)
		}
	}
	return feed.Unknown
}
