package fill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// settleTime and lateness are those of the simulated cluster: it carries out
// what it took within lateness, and a fill waits longer than that.
const (
	settleTime = 4 * time.Second
	lateness   = 1500 * time.Millisecond
)

var (
	errCut   = errors.New("connection cut")
	errLost  = errors.New("lost")
	errLease = errors.New("no heartbeat")
)

// crash is what a port panics with where the process dies.
type crash struct{}

// late is a part of a request that a broker carries out later.
type late struct {
	at     time.Time
	broker int
	epochs []int32
	// ambush: right before the next write where that comes earlier, when nobody
	// can see it in the look before.
	ambush bool
}

// cluster is one partition as dumb as can be: a log of coordinator epochs, a
// high watermark, two brokers that take turns to lead, and requests that arrive
// late. pick chooses one of n things that may happen at a step, 0 for nothing
// special.
type cluster struct {
	t    testing.TB
	pick func(step string, n int) int

	base     int64
	log      []int32
	replicas int // how many entries are replicated: high watermark less base
	lagsTill time.Time
	leader   int
	epoch    int32
	fenced   bool // the producer's epoch was raised
	expired  int  // entries below are of a forgotten producer
	late     []late
	// beheaded: an election took away the first part of a request of which more
	// came later, the limit of M5.
	beheaded bool

	reserved int32 // counters below are recorded as taken
	owned    map[int32]int32
	used     map[int32]bool
	trace    []string
	quiet    int // looks since something happened; faults of the first few suffice
	looks    int
	requests []int
	lastLook time.Time
}

func newCluster(t testing.TB, pick func(string, int) int) *cluster {
	return &cluster{t: t, pick: pick, base: 100, epoch: 5, owned: map[int32]int32{}, used: map[int32]bool{}}
}

func (c *cluster) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("05.000")}, args...)...))
}

func (c *cluster) end() int64 { return c.base + int64(len(c.log)) }

// highest is the coordinator epoch that the producer's entry holds.
func (c *cluster) highest() int32 {
	h := int32(-1)
	for _, e := range c.log[min(c.expired, len(c.log)):] {
		h = max(h, e)
	}
	return h
}

// catchUp does what was due before now.
func (c *cluster) catchUp() { c.carryOutLate(false) }

func (c *cluster) carryOutLate(writing bool) {
	now := time.Now()
	rest := c.late[:0]
	for _, l := range c.late {
		if l.at.After(now) && !(writing && l.ambush) {
			rest = append(rest, l)
			continue
		}
		c.note("late: broker %d carries out %v", l.broker, l.epochs)
		for _, e := range l.epochs {
			c.add(l.broker, e)
		}
	}
	c.late = rest
	c.replicate()
}

func (c *cluster) replicate() {
	if !time.Now().Before(c.lagsTill) {
		c.replicas = len(c.log)
	}
}

// add appends one marker as a broker would, or refuses it.
func (c *cluster) add(broker int, epoch int32) Outcome {
	switch {
	case broker != c.leader:
		return Unknown // NOT_LEADER
	case c.fenced:
		return ProducerFenced
	case epoch < c.highest():
		return CoordinatorFenced
	}
	c.log = append(c.log, epoch)
	c.replicate()
	return Done
}

// elect makes the other broker lead; it has all that is replicated and more of
// the rest.
func (c *cluster) elect(more int) {
	if len(c.log) > c.replicas+more && slices.ContainsFunc(c.late, func(l late) bool { return l.broker == c.leader }) {
		c.beheaded = true
	}
	c.log = c.log[:min(len(c.log), c.replicas+more)]
	c.replicas, c.lagsTill = len(c.log), time.Time{}
	c.leader, c.epoch = 1-c.leader, c.epoch+1
	c.note("broker %d leads epoch %d from %d", c.leader, c.epoch, c.end())
}

// owner is one process's view of the cluster: its Ports.
type owner struct {
	*cluster
	until time.Time // its lease
	// frozen, where set, is called at the beginning of each step, and by writes
	// once more when the request is on its way.
	frozen func()
}

func (c owner) step() {
	if c.frozen != nil {
		c.frozen()
	}
	c.catchUp()
}

func (c owner) Ends(context.Context) (Ends, error) {
	c.step()
	c.looks++
	n := 1
	if c.quiet < 3 {
		n = 4
	}
	c.quiet++
	switch c.pick("ends", n) {
	case 1:
		c.note("ends: lost")
		return Ends{Reason: state.Unreachable}, errLost
	case 2:
		c.elect(0)
	case 3:
		c.note("crash at ends")
		panic(crash{})
	}
	c.lastLook = time.Now()
	e := Ends{LogEnd: c.end(), HighWatermark: c.base + int64(c.replicas), LeaderEpoch: c.epoch}
	c.note("ends: %d, %d in epoch %d", e.LogEnd, e.HighWatermark, e.LeaderEpoch)
	return e, nil
}

func (c owner) Settle(context.Context) error {
	c.step()
	c.note("settle")
	switch c.pick("settle", 3) {
	case 1:
		return errLost
	case 2:
		panic(crash{})
	}
	return nil
}

func (c owner) Reserve(_ context.Context, n int32) (int32, error) {
	c.step()
	first := max(c.reserved, c.highest()>>ledger.ReasonBits+1)
	c.reserved = first + n
	c.owned[first] = n
	c.note("reserve %d from %d", n, first)
	switch c.pick("reserve", 3) {
	case 1:
		return 0, errLost
	case 2:
		panic(crash{})
	}
	return first, nil
}

func (c owner) Allowed() (time.Time, error) {
	c.step()
	if c.pick("allowed", 2) == 1 {
		return time.Time{}, errLease
	}
	return c.until, nil
}

// check is what holds for every request, whatever becomes of it.
func (c owner) check(ctx context.Context, epochs []int32) {
	if d, ok := ctx.Deadline(); !ok || d.After(c.until) || !time.Now().Before(c.until) {
		c.t.Fatalf("M4: write until %v with a lease until %v", d, c.until)
	}
	for _, e := range epochs {
		counter, _ := ledger.SplitEpoch(e)
		if c.used[counter] {
			c.t.Fatalf("M2: counter %d is used twice", counter)
		}
		c.used[counter] = true
		ok := false
		for first, n := range c.owned {
			ok = ok || counter >= first && counter < first+n
		}
		if !ok {
			c.t.Fatalf("M2: counter %d was never reserved", counter)
		}
	}
}

// Fates of a request that depend on no number.
const (
	fine = iota
	notSent
	crashBefore
	crashAfter
	vanished // cut before it arrived
	unanswered
	electedWith // before the request, which follows the leader
	electedAndTold
	fates
)

// Fates that cut a request after some of its markers.
const (
	restLater = iota
	restLaterAndCrash
	restAmbushes
	restAmbushesAndCrash
	restLaterElsewhere // the leader moves away before the rest, and back after it
	restRefused
	restLost // carried out as a whole by a leader that the rest never left
	cuts
)

func (c owner) Write(ctx context.Context, leaderEpoch int32, epochs []int32) Written {
	c.step()
	if ctx.Err() != nil {
		return Written{Outcome: NotSent, LeaderEpoch: -1, Err: ctx.Err()}
	}
	c.check(ctx, epochs)
	if c.frozen != nil {
		c.frozen()
	}
	c.carryOutLate(true)
	c.quiet = 0
	c.requests = append(c.requests, len(epochs))
	n := len(epochs)
	if c.pick("followers", 2) == 1 { // they are slow from here on
		c.lagsTill = time.Now().Add(settleTime + 2*time.Second)
	}
	fate := c.pick("write", fates+cuts*n)
	c.note("write %v at %d: fate %d of %d", epochs, c.end(), fate, fates+cuts*n)
	if fate >= fates {
		return c.cut((fate-fates)/n, (fate-fates)%n, epochs)
	}
	switch fate {
	case notSent:
		return Written{Outcome: NotSent, LeaderEpoch: -1, Reason: state.Unreachable, Err: errCut}
	case crashBefore:
		panic(crash{})
	case vanished:
		return Written{Outcome: Unknown, LeaderEpoch: c.epoch, Reason: state.Unreachable, Err: errCut}
	case electedAndTold:
		c.elect(0)
		return Written{Outcome: NotSent, LeaderEpoch: -1, Reason: state.NoLeader, Err: errCut}
	case electedWith:
		c.elect(0)
	}
	w := c.carryOut(epochs)
	switch fate {
	case crashAfter:
		panic(crash{})
	case unanswered:
		w = Written{Outcome: Unknown, LeaderEpoch: c.epoch, Err: errCut}
	}
	return w
}

// carryOut appends a whole request and answers it. As brokers do, it shows the
// last marker's answer as that of all.
func (c *cluster) carryOut(epochs []int32) Written {
	w := Written{LeaderEpoch: c.epoch}
	for _, e := range epochs {
		if w.Outcome = c.add(c.leader, e); w.Outcome != Done {
			w.Err = errLost
		}
	}
	if len(epochs) == 1 && w.Outcome == Done && c.replicas < len(c.log) {
		w.Outcome, w.Err = Unknown, errLost // REQUEST_TIMED_OUT, which a bulk hides
	}
	return w
}

// cut carries a part of a request out now.
func (c *cluster) cut(how, now int, epochs []int32) Written {
	broker := c.leader
	unknown := Written{Outcome: Unknown, LeaderEpoch: c.epoch, Err: errCut}
	before := len(c.log)
	if how == restLost {
		c.lagsTill = time.Now().Add(time.Hour)
		c.carryOut(epochs)
		c.elect(max(0, now-max(0, c.replicas-before)))
		return unknown
	}
	c.carryOut(epochs[:now])
	switch how {
	case restRefused:
		if len(epochs) == 1 {
			return Written{Outcome: Refused, LeaderEpoch: c.epoch, Reason: state.NotEnoughReplicas, Err: errLost}
		}
		return Written{Outcome: Done, LeaderEpoch: c.epoch} // a hidden error
	case restLaterElsewhere:
		c.late = append(c.late, late{at: time.Now().Add(lateness), broker: broker, epochs: epochs[now:]})
		c.elect(0)
		return unknown
	}
	c.late = append(c.late, late{time.Now().Add(lateness), broker, epochs[now:], how == restAmbushes || how == restAmbushesAndCrash})
	if how == restLaterAndCrash || how == restAmbushesAndCrash {
		panic(crash{})
	}
	return unknown
}

// mirror is the caller of fills: it fills one gap through all that happens, as
// new processes where one dies.
type mirror struct {
	*cluster
	gap  []ledger.Run
	set  Settings
	end  int64
	last Result
	// gone is how long it takes until the next process begins.
	gone time.Duration
}

func newMirror(c *cluster, runs []ledger.Run) *mirror {
	m := &mirror{cluster: c, gap: runs, end: c.base, gone: 500 * time.Millisecond,
		set: Settings{SettleTime: settleTime, PollTime: time.Second, BlockCounters: 64}}
	for _, r := range runs {
		m.end += r.Count
	}
	return m
}

// rest returns the runs from an offset on.
func rest(runs []ledger.Run, n int64) []ledger.Run {
	w := walk{runs: runs}
	w.forward(n)
	out := append([]ledger.Run(nil), runs[w.i:]...)
	if w.used > 0 {
		out[0].Count -= w.used
	}
	return out
}

// fill runs one fill; died is true where the process did not survive it.
func (m *mirror) fill(g Gap, c Counters) (r Result, died bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			died = true
		}
	}()
	f := Filler{Ports: owner{cluster: m.cluster, until: time.Now().Add(time.Hour)}, Settings: m.set}
	return f.Fill(context.Background(), context.Background(), g, c), false
}

// run fills the gap and checks what is left behind.
func (m *mirror) run() {
	g := Gap{Expect: m.base, Runs: m.gap, Trust: Trust{Known: true, LeaderEpoch: m.epoch}}
	var counters Counters
	for try := 0; ; try++ {
		if try > 100 {
			m.fatal("the gap is still not filled: %+v", m.last)
		}
		r, died := m.fill(g, counters)
		g.Trust = Trust{}
		if died {
			counters, g.Doubt = Counters{}, true
			time.Sleep(m.gone)
			if m.pick("gone", 2) == 1 {
				time.Sleep(48 * time.Hour)
				m.catchUp()
				m.expired = len(m.log) // producer.id.expiration.ms has passed
			}
		} else {
			m.judge(g, r)
			m.last = r
			if r.Err == nil {
				break
			}
			counters, g.Doubt = r.Counters, r.InDoubt
			time.Sleep(time.Second)
		}
		m.catchUp()
		if m.cluster.end() >= m.end {
			break
		}
		g.Expect = m.cluster.end()
		g.Runs = rest(m.gap, g.Expect-m.base)
	}
	time.Sleep(time.Minute)
	m.verify()
}

func (m *mirror) fatal(format string, args ...any) {
	m.t.Helper()
	for _, l := range m.trace {
		m.t.Log(l)
	}
	m.t.Fatalf(format, args...)
}

// judge checks one result.
func (m *mirror) judge(g Gap, r Result) {
	m.note("result: %+v", r)
	var n int64
	for _, f := range r.Filled {
		n += f.Count
	}
	switch {
	case n != r.End-g.Expect:
		m.fatal("%d offsets are said to be filled from %d to %d", n, g.Expect, r.End)
	case errors.Is(r.Err, ErrOvershot), errors.Is(r.Err, ErrFenced), errors.Is(r.Err, ErrPorts):
		m.fatal("fill ended with %v", r.Err)
	case r.Err == nil && (r.End != m.end || r.InDoubt || !r.Trust.Known):
		m.fatal("a fill without an error gave %+v, the gap ends at %d", r, m.end)
	case r.Err == nil && m.base+int64(m.replicas) < m.end:
		m.fatal("done, and only %d of %d are replicated", m.replicas, m.end-m.base)
	case r.Err != nil && r.Trust.Known:
		m.fatal("trust beside an error: %+v", r)
	}
}

// verify checks the log once nothing can happen to it any more.
func (m *mirror) verify() {
	m.catchUp()
	if got := m.cluster.end(); got != m.end || m.replicas != len(m.log) {
		m.fatal("the log ends at %d (%d replicated), the gap at %d", got, m.replicas, m.end)
	}
	w := walk{runs: m.gap}
	last := int32(-1)
	for i, e := range m.log {
		counter, reason := ledger.SplitEpoch(e)
		if reason != w.reason() && !m.beheaded {
			m.fatal("M5: offset %d has reason %s, want %s", m.base+int64(i), reason, w.reason())
		}
		if counter <= last {
			m.fatal("M2: counter %d after %d", counter, last)
		}
		last = counter
		w.forward(1)
	}
}
