package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/proxy"
	"klink/fetcher/batch"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	gapfill "klink/linker/fill"
	"klink/linker/ledger"
)

// fillTopic has a partition for each lane.
const fillTopic = "filled"

// fillCut is what happens to the nth request of a kind since a gap was begun.
type fillCut struct {
	role     string // of the client: what its id ends with
	key      kmsg.Key
	nth      int // from 1 on
	action   proxy.Action
	answered bool // it happens when the broker has answered
	move     move
}

// move is what the partition's leadership does at a cut.
type move int8

const (
	stays  move = iota
	before      // it has moved when the request or answer goes on
	beside      // it moves while the broker carries the request out
)

// doubtful tells whether a fill cannot know at once what became of the request.
func (c fillCut) doubtful() bool {
	switch {
	case c.key != kmsg.WriteTxnMarkers || c.action == proxy.CutAfter:
		return false
	case c.action == proxy.Forward:
		return c.move == before && !c.answered // NOT_LEADER
	}
	return true
}

// fillLane fills one gap after the other on a partition of its own, each between
// data, and hits the same requests in each.
type fillLane struct {
	name      string // also the link's
	partition int32
	gaps      []int64
	cuts      []fillCut
	// permit is how long a write may take: the rest of the lease.
	permit time.Duration

	c *lab.Kafka

	mu    sync.Mutex // guards all below
	armed bool
	seen  []int // by cut
	made  int
	doubt int // of those made that leave a doubt
	moves sync.WaitGroup
	err   error // of moves
}

// cutActions are the steps at which a connection ends, or stays and is mute.
var cutActions = []struct {
	name   string
	action proxy.Action
}{
	{"sent", proxy.CutSent}, {"answer", proxy.DropAnswer}, {"before", proxy.CutBefore},
	{"mute", proxy.Mute}, {"swallow", proxy.Swallow}, {"after", proxy.CutAfter},
}

const (
	markersRole = "markers"
	adminRole   = "target-admin"
)

// cutRows are the requests that are hit at each step: those that write markers,
// and those that a doubt about one leads to.
var cutRows = []struct {
	name  string
	role  string
	key   kmsg.Key
	nths  []int
	doubt bool // the answer to the first marker request is lost as well
}{
	{"first", markersRole, kmsg.WriteTxnMarkers, []int{1}, false},
	{"both", markersRole, kmsg.WriteTxnMarkers, []int{1, 2}, false},
	{"second", markersRole, kmsg.WriteTxnMarkers, []int{2}, false},
	{"settle", markersRole, kmsg.Metadata, []int{1, 2}, true},
	{"ends", adminRole, kmsg.OffsetForLeaderEpoch, []int{1}, true},
	{"offsets", adminRole, kmsg.ListOffsets, []int{1, 2}, true},
	{"ids", adminRole, kmsg.Metadata, []int{1}, true},
	{"greet", markersRole, kmsg.ApiVersions, []int{1}, true},
	{"three", markersRole, kmsg.WriteTxnMarkers, []int{1, 2, 3}, false},
}

// cutLanes makes the first n lanes of all rows. All of them fill narrow gaps,
// the first wide ones a gap of 4,100 offsets as well.
func cutLanes(n, wide int) (all []*fillLane) {
	for _, r := range cutRows {
		for _, a := range cutActions {
			if len(all) == n {
				return all
			}
			l := &fillLane{name: r.name + "-" + a.name, gaps: []int64{1, 2, 5, 50}, permit: 10 * time.Second}
			for _, nth := range r.nths {
				l.cuts = append(l.cuts, fillCut{role: r.role, key: r.key, nth: nth, action: a.action})
			}
			if r.doubt {
				l.cuts = append(l.cuts, fillCut{role: markersRole, key: kmsg.WriteTxnMarkers, nth: 1, action: proxy.DropAnswer})
			}
			if a.action == proxy.Mute || a.action == proxy.Swallow {
				l.permit = 2 * time.Second // only its end ends the wait
				if r.doubt {
					l.gaps = []int64{5} // each takes several deadlines
				}
			}
			if len(all) < wide {
				l.gaps = append(l.gaps, wideGap)
			}
			all = append(all, l)
		}
	}
	return all
}

// wideGap takes three bulks and a single marker.
const wideGap = 4_100

// moveLanes have the leader move in the middle of fills.
func moveLanes() (all []*fillLane) {
	markers := func(nth int, a proxy.Action, m move, answered bool) fillCut {
		return fillCut{role: markersRole, key: kmsg.WriteTxnMarkers, nth: nth, action: a, move: m, answered: answered}
	}
	for name, cuts := range map[string][]fillCut{
		"request-held":         {markers(1, proxy.Forward, before, false)},
		"second-held":          {markers(2, proxy.Forward, before, false)},
		"answer-held":          {markers(1, proxy.Forward, before, true)},
		"answer-lost":          {markers(1, proxy.DropAnswer, before, true)},
		"answer-lost-and-held": {markers(1, proxy.DropAnswer, before, true), markers(2, proxy.Forward, before, false)},
		"cut-and-moves":        {markers(1, proxy.CutSent, beside, false)},
	} {
		all = append(all, &fillLane{name: name, gaps: []int64{1, 2, 5, 50}, cuts: cuts, permit: patience})
	}
	return append(all, &fillLane{name: "moves-beside", gaps: []int64{wideGap, wideGap}, permit: patience,
		cuts: []fillCut{markers(1, proxy.Forward, beside, false), markers(2, proxy.Forward, beside, false)}})
}

// TestG1_FillsUnderCuts holds what broker.md 15.0 says of filling gaps: whatever
// request of a fill is cut at whatever step, and when the leader moves meanwhile,
// the log is never one offset short or long, its data stay where they are, and
// each marker carries the reason of its offset and a higher counter than those
// before.
func TestG1_FillsUnderCuts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		o     lab.KafkaOptions
		lanes []*fillLane
	}{
		{"one broker", lab.KafkaOptions{}, cutLanes(FillLanes.N(), FillLanes.N()/8)},
		{"one broker, oldest", lab.KafkaOptions{Version: install.Oldest}, cutLanes(FillLanes.N()/4, FillLanes.N()/16)},
		{"three brokers", threeBrokers, append(cutLanes(FillLanes.N()*3/8, FillLanes.N()/16), moveLanes()...)},
	}
	var options []lab.KafkaOptions
	for _, c := range cases {
		c.o.Proxy = true
		options = append(options, c.o)
	}
	var all sync.WaitGroup
	for i, k := range startAll(t, options...) {
		c := cases[i]
		all.Go(func() {
			began := time.Now()
			doubts, err := fillAll(t, k, c.lanes)
			t.Logf("%s: %d lanes, %d doubts, %v", c.name, len(c.lanes), doubts, time.Since(began).Round(time.Millisecond))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	all.Wait()
}

// fillAll runs the lanes side by side and sums up their doubts.
func fillAll(t testing.TB, k *lab.Kafka, lanes []*fillLane) (doubts int64, err error) {
	byClient := map[string]*fillLane{}
	for i, l := range lanes {
		l.partition, l.c = int32(i), k
		for _, role := range []string{markersRole, markersRole + "-bulk", adminRole} {
			byClient[l.name+"-"+role] = l
		}
	}
	for _, b := range k.Brokers() {
		hook := func(answered bool) proxy.Hook {
			return func(f proxy.Frame) proxy.Action {
				if l := byClient[f.ClientID]; l != nil {
					return l.decide(f, answered)
				}
				return proxy.Forward
			}
		}
		b.Proxy().On(proxy.AnyKey, hook(false))
		b.Proxy().OnAnswer(int16(kmsg.WriteTxnMarkers), hook(true))
	}
	spec := lab.TopicSpec{Name: fillTopic, Partitions: int32(len(lanes)), Replicas: int16(len(k.Brokers()))}
	ctx := within(t, 4*patience)
	if err := lab.CreateTopics(ctx, k, spec); err != nil {
		return 0, err
	}
	var g errgroup.Group
	errs, found := make([]error, len(lanes)), make([]int64, len(lanes))
	for i, l := range lanes {
		g.Go(func() error {
			found[i], errs[i] = l.run(ctx, newFillTarget(t, k, l))
			if errs[i] != nil {
				errs[i] = fmt.Errorf("lane %s: %w", l.name, errs[i])
			}
			return nil
		})
	}
	_ = g.Wait() // each lane has its own error
	for _, n := range found {
		doubts += n
	}
	return doubts, errors.Join(errs...)
}

// decide is what happens to a request of the lane.
func (l *fillLane) decide(f proxy.Frame, answered bool) proxy.Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.cuts {
		if !l.armed || c.answered != answered || int16(c.key) != f.Key || !strings.HasPrefix(f.ClientID, l.name+"-"+c.role) {
			continue
		}
		if l.seen[i]++; l.seen[i] != c.nth {
			continue
		}
		l.made++
		if c.doubtful() {
			l.doubt++
		}
		if c.move != stays {
			l.moves.Go(l.moveLeader)
		}
		if c.move == before {
			l.mu.Unlock()
			l.moves.Wait()
			l.mu.Lock()
		}
		return c.action
	}
	return proxy.Forward
}

// arm makes the cuts possible once more.
func (l *fillLane) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.seen, l.made, l.doubt = true, make([]int, len(l.cuts)), 0, 0
}

// disarm ends that and tells how many cuts were made, and how many of those must
// have left a doubt.
func (l *fillLane) disarm() (made, doubtful int, err error) {
	l.moves.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	return l.made, l.doubt, l.err
}

// moveLeader makes the next replica lead.
func (l *fillLane) moveLeader() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := lab.Partition{Topic: fillTopic, Number: l.partition}
	leader, replicas, err := lab.Leader(ctx, l.c, p)
	if err == nil {
		i := slices.Index(replicas, leader)
		err = lab.MoveLeader(ctx, l.c, p, replicas[(i+1)%len(replicas)])
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = errors.Join(l.err, err)
	}
}

// fillTarget is a partition as a fill sees it. The lease and the record of the
// counters are variables.
type fillTarget struct {
	*appenderRig
	target   appender.Target
	permit   time.Duration
	reserved int32
}

// newFillTarget makes clients as klink run does; a silent broker is given up
// sooner.
func newFillTarget(t testing.TB, k *lab.Kafka, l *fillLane) *fillTarget {
	link := config.DefaultLink()
	link.Name, link.Target.Brokers = l.name, k.Bootstrap()
	dst, err := kafka.OpenTarget(kafka.Options{Link: link})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(dst.Close)
	m := leaders.New(dst.Admin)
	t.Cleanup(m.Close)
	a := appender.New(appender.Options{Lanes: dst.Lanes, Slow: dst.Slow, Admin: dst.Admin, Leaders: m,
		Markers: dst.Markers, MarkerBulks: dst.MarkerBulks, RequestTimeout: 2 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("appender: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return &fillTarget{appenderRig: &appenderRig{t: t, a: a, leaders: m}, permit: l.permit,
		target: appender.Target{Topic: fillTopic, Partition: l.partition}}
}

func (f *fillTarget) Ends(ctx context.Context) (gapfill.Ends, error) {
	e := f.a.Ends(ctx, []appender.Target{f.target})[f.target]
	return gapfill.Ends{LogEnd: e.LogEnd, HighWatermark: e.HighWatermark, LeaderEpoch: e.LeaderEpoch, Reason: e.Reason}, e.Err
}

var fillOutcomes = map[appender.MarkerOutcome]gapfill.Outcome{
	appender.MarkersNotSent: gapfill.NotSent, appender.MarkersDone: gapfill.Done, appender.MarkersRefused: gapfill.Refused,
	appender.MarkersCoordinatorFenced: gapfill.CoordinatorFenced, appender.MarkersProducerFenced: gapfill.ProducerFenced,
	appender.MarkersUnknown: gapfill.Unknown,
}

func (f *fillTarget) Write(ctx context.Context, leaderEpoch int32, epochs []int32) gapfill.Written {
	r := f.a.WriteMarkers(ctx, f.target, appender.Markers{Identity: batch.Identity{ProducerID: appenderPID},
		CoordinatorEpochs: epochs, LeaderEpoch: leaderEpoch})
	return gapfill.Written{Outcome: fillOutcomes[r.Outcome], LeaderEpoch: r.Leader.Epoch, Reason: r.Reason, Err: r.Err}
}

func (f *fillTarget) Settle(ctx context.Context) error { return f.a.SettleMarkers(ctx, f.target) }

func (f *fillTarget) Reserve(ctx context.Context, n int32) (int32, error) {
	s, err := f.a.ProducerState(ctx, f.target, appenderPID)
	if err != nil {
		return 0, err
	}
	if counter, _ := ledger.SplitEpoch(max(0, s.CoordinatorEpoch)); counter >= f.reserved && f.reserved > 0 {
		return 0, fmt.Errorf("counter %d stands in the log, %d are reserved", counter, f.reserved)
	}
	first := f.reserved
	f.reserved += n
	return first, nil
}

func (f *fillTarget) Allowed() (time.Time, error) { return time.Now().Add(f.permit), nil }

// run fills the gaps and returns how many doubts there were.
func (l *fillLane) run(ctx context.Context, f *fillTarget) (doubts int64, err error) {
	if f == nil {
		return 0, errors.New("no clients")
	}
	if err := f.leaders.Refresh(ctx, fillTopic); err != nil {
		return 0, err
	}
	s, _ := f.leaders.Look(fillTopic, l.partition)
	f.target.ID = s.ID
	w := &fillWriter{fillTarget: f}
	for _, n := range l.gaps {
		if err := w.data(ctx, 10); err != nil {
			return doubts, err
		}
		l.arm()
		found, err := w.gap(ctx, n)
		made, doubtful, moveErr := l.disarm()
		doubts += found
		switch {
		case errors.Join(err, moveErr) != nil:
			return doubts, fmt.Errorf("gap of %d offsets: %w", n, errors.Join(err, moveErr))
		case found < int64(doubtful):
			return doubts, fmt.Errorf("gap of %d offsets: %d doubts of %d cuts", n, found, doubtful)
		case made == 0 && n > 1:
			return doubts, fmt.Errorf("gap of %d offsets: no cut was made", n)
		}
	}
	if err := w.data(ctx, 10); err != nil {
		return doubts, err
	}
	got, err := readStored(ctx, l.c, f.target, int64(len(w.want)))
	if err != nil {
		return doubts, err
	}
	return doubts, requireStored(got, w.want)
}
