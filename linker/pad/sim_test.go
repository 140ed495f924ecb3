package pad

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// quick are settings in which a few pads go all the ways of many.
func quick() Settings {
	return Settings{PieceOffsets: 4, ChunkOffsets: 8, Checkpoints: 2 * time.Minute, SettleTime: 30 * time.Second, PollTime: time.Second}
}

// lateness is how long a broker may take to carry out what it took.
const lateness = 20 * time.Second

var (
	errCut    = errors.New("connection cut")
	errPolicy = errors.New("policy violation")
	errLease  = errors.New("no heartbeat")
)

// crash is what a port panics with where the process dies.
type crash struct{}

// fate is what happens to a call.
type fate int

const (
	well fate = iota
	// errBefore: an error, and nothing was done; errAfter: an error, and it was.
	errBefore
	errAfter
	// dieBefore and dieAfter: the process dies.
	dieBefore
	dieAfter
	// lateAfter: no answer, and it is done later; nextAfter: right before the next
	// append, and so after the look that follows (appends only).
	lateAfter
	nextAfter
	// undone: a broker dies and shows deleted records again (looks only).
	undone
	// lags: the followers are behind (looks only).
	lags
)

// sim is a target partition as dumb as can be, a control topic and a lease. pick
// chooses the fate of a call among several.
type sim struct {
	t    testing.TB
	pick func(call string, fates []fate) fate

	start, end int64
	lag        int64
	epoch      int32
	policy     string
	original   string
	late       []latePads
	trimmedAt  time.Time
	// floor is what the log start falls back to when a trim comes undone.
	floor int64

	rec      Record
	siblings Siblings
	until    time.Time
	asked    bool // Allowed was asked since the last change

	// data: mirrored records begin at dataFrom; -1 before.
	dataFrom int64
	most     int64 // untrimmed pads at any time
	pieces   int
	trims    int
	puts     int
	trace    []string
}

// latePads come at a time, or right before the next append.
type latePads struct {
	at    time.Time
	next  bool
	count int64
}

func newSim(t testing.TB, policy string) *sim {
	return &sim{t: t, pick: func(string, []fate) fate { return well }, policy: policy, original: policy,
		until: time.Now().Add(1000 * time.Hour), dataFrom: -1}
}

func (s *sim) note(format string, args ...any) {
	if len(s.trace) < 400 {
		s.trace = append(s.trace, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (s *sim) bad(format string, args ...any) {
	s.t.Helper()
	for _, l := range s.trace {
		s.t.Log(l)
	}
	s.t.Fatalf(format, args...)
}

// meet lets a call meet its fate: whether it is carried out, and its error.
func (s *sim) meet(call string, more ...fate) (f fate, do bool, err error) {
	f = s.pick(call, append([]fate{well, errBefore, errAfter, dieBefore, dieAfter}, more...))
	if f != well {
		s.note("%s meets %d", call, f)
	}
	switch f {
	case errBefore:
		return f, false, errCut
	case errAfter:
		return f, true, errCut
	case dieBefore:
		panic(crash{})
	default:
		return f, true, nil
	}
}

func (s *sim) finish(f fate) {
	if f == dieAfter {
		panic(crash{})
	}
}

// change is called by whatever changes something (P1, P6).
func (s *sim) change(ctx context.Context, what string) {
	if !s.asked || !time.Now().Before(s.until) {
		s.bad("%s without the lease", what)
	}
	if d, ok := ctx.Deadline(); !ok || d.After(s.until) {
		s.bad("%s may outlive the lease", what)
	}
	s.asked = false
}

func (s *sim) catchUp(appending bool) {
	rest := s.late[:0]
	for _, l := range s.late {
		if l.at.After(time.Now()) && !(l.next && appending) {
			rest = append(rest, l)
			continue
		}
		s.note("%d pads come late", l.count)
		s.land(l.count)
	}
	s.late = rest
}

// land appends pads.
func (s *sim) land(n int64) {
	s.end += n
	if s.end > s.rec.Goal || s.dataFrom >= 0 {
		s.bad("pads up to %d, the goal is %d, records from %d", s.end, s.rec.Goal, s.dataFrom)
	}
	s.most = max(s.most, s.end-max(s.start, s.rec.From))
	s.pieces++
}

func (s *sim) Ends(context.Context) (Ends, error) {
	s.catchUp(false)
	more := []fate{lags}
	if s.trimmedAt != (time.Time{}) && time.Since(s.trimmedAt) < quick().Checkpoints && s.floor < s.start {
		more = append(more, undone)
	}
	f, _, err := s.meet("ends", more...)
	if err != nil {
		return Ends{}, err
	}
	hw := s.end - s.lag
	switch f {
	case undone:
		s.note("log start %d becomes %d", s.start, s.floor)
		s.start = s.floor
		s.epoch++
	case lags:
		hw = max(s.start, hw-1)
	}
	s.finish(f)
	return Ends{Start: s.start, HighWatermark: max(s.start, hw), End: s.end, LeaderEpoch: s.epoch}, nil
}

func (s *sim) Append(ctx context.Context, p Piece) Appended {
	s.catchUp(true)
	s.change(ctx, "append")
	if s.rec.Stage != StagePad || p.Count < 1 || p.Count > quick().PieceOffsets && s.rec.Goal < 1000 || p.Timestamp < 1 || p.Timestamp > latestTimestamp {
		s.bad("piece %+v in stage %q", p, s.rec.Stage)
	}
	if compacts(s.policy) {
		return Appended{Outcome: Refused, Reason: state.TopicRefused, Err: errPolicy}
	}
	f, do, err := s.meet("append", lateAfter, nextAfter)
	s.note("append %+v at %d", p, s.end)
	base := s.end
	switch {
	case f == lateAfter, f == nextAfter:
		s.late = append(s.late, latePads{time.Now().Add(lateness), f == nextAfter, int64(p.Count)})
		return Appended{Outcome: Unknown, Err: errCut}
	case do:
		s.land(int64(p.Count))
	}
	s.finish(f)
	if err != nil {
		return Appended{Outcome: Unknown, Reason: state.Unreachable, Err: err}
	}
	return Appended{Outcome: Done, Base: base}
}

func (s *sim) Trim(ctx context.Context, to int64) error {
	s.catchUp(false)
	s.change(ctx, "trim")
	if to > s.rec.Goal {
		s.bad("trim to %d, the goal is %d", to, s.rec.Goal)
	}
	if compacts(s.policy) {
		return &Fault{Op: "trim", Reason: state.TopicRefused, Err: errPolicy}
	}
	if to > s.end-s.lag {
		s.bad("trim to %d beyond the high watermark", to)
	}
	f, do, err := s.meet("trim")
	if do {
		s.note("trim to %d", to)
		s.start, s.trimmedAt = max(s.start, to), time.Now()
		s.trims++
	}
	s.finish(f)
	return err
}

func (s *sim) Policy(context.Context) (string, error) {
	f, _, err := s.meet("policy")
	s.finish(f)
	return s.policy, err
}

func (s *sim) SetPolicy(ctx context.Context, policy string) error {
	s.change(ctx, "set policy")
	if policy == policyDelete && s.rec.RestorePolicy != s.original || policy != policyDelete && s.rec.NeedsPolicy() {
		s.bad("policy %q with record %+v", policy, s.rec)
	}
	f, do, err := s.meet("set policy")
	if do {
		s.note("policy %q", policy)
		s.policy = policy
	}
	s.finish(f)
	return err
}

func (s *sim) Siblings() Siblings { return s.siblings }

func (s *sim) Put(ctx context.Context, r Record) error {
	s.change(ctx, "put")
	f, do, err := s.meet("put")
	if do {
		s.note("put %+v", r)
		s.checkPut(r)
		s.rec = r
		s.puts++
	}
	s.finish(f)
	return err
}

// checkPut holds P4 and P5.
func (s *sim) checkPut(r Record) {
	if r.Stage == StageSettle && s.start < r.Goal && s.rec.Stage != StageSettle {
		s.bad("settling with a log start of %d, the goal is %d", s.start, r.Goal)
	}
	if r.Stage == StageRestore && (s.start < r.Goal || time.Since(s.trimmedAt) < quick().Checkpoints) {
		s.bad("trimmed %v ago, log start %d: %+v", time.Since(s.trimmedAt), s.start, r)
	}
	if r.Done && s.start < r.Goal {
		s.bad("done with a log start of %d", s.start)
	}
}

func (s *sim) Allowed() (time.Time, error) {
	if !time.Now().Before(s.until) {
		return time.Time{}, errLease
	}
	s.asked = true
	return s.until, nil
}

// lead is what a partition's loop does: it runs, runs again after faults and
// crashes, and mirrors records once that is allowed. It returns the last result.
func (s *sim) lead(want Goal, set Settings) Result {
	s.t.Helper()
	p := &Padder{Ports: s, Settings: set}
	for range 400 {
		res, died := s.runOnce(p, want)
		switch {
		case died:
			s.note("crash")
			p = &Padder{Ports: s, Settings: set}
		case res.Err != nil:
			s.note("%v", res.Err)
			if f := (*Fault)(nil); errors.As(res.Err, &f) && (f.Reason == "" || !f.Reason.About().Remote) {
				return res
			}
			time.Sleep(time.Second)
		case res.Record.Done || res.Again == 0:
			return res
		case !res.Record.Ready():
			s.bad("neither ready nor an error: %+v", res)
		default:
			s.mirror()
			time.Sleep(min(res.Again, 50*time.Second)) // some Recheck comes sooner
		}
	}
	s.bad("it never ends")
	return Result{}
}

// mirror appends a record.
func (s *sim) mirror() {
	s.catchUp(false)
	if len(s.late) > 0 {
		s.bad("ready with pads on their way")
	}
	if s.dataFrom < 0 {
		s.dataFrom = s.end
	}
	s.end++
}

func (s *sim) runOnce(p *Padder, want Goal) (res Result, died bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(crash); !ok {
				panic(e)
			}
			died = true
		}
	}()
	return p.Run(context.Background(), want, s.rec), false
}

// requireDone checks what must be true at the end.
func (s *sim) requireDone(res Result, goal int64, set Settings) {
	s.t.Helper()
	if res.Err != nil || !s.rec.Done || !res.Record.Done {
		s.bad("not done: %+v", res)
	}
	if s.start != goal || s.dataFrom != goal {
		s.bad("log start %d, records from %d, goal %d", s.start, s.dataFrom, goal)
	}
	if s.policy != s.original {
		s.bad("policy %q, was %q", s.policy, s.original)
	}
	// In doubt pieces may fill a chunk beyond its size.
	if most := set.ChunkOffsets + 2*int64(set.PieceOffsets); s.most > most {
		s.bad("%d pads untrimmed", s.most)
	}
}

func padded(offset int64) Goal { return Goal{Offset: offset, Reason: ledger.Padded} }
