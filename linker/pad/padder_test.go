package pad

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/ledger"
	"klink/linker/state"
)

// Boundaries of goals against the sizes of pieces and chunks (4 and 8).
func TestGoals(t *testing.T) {
	for _, policy := range []string{"delete", "compact", "compact,delete", ""} {
		for _, goal := range []int64{1, 3, 4, 5, 7, 8, 9, 16, 17, 40} {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, policy)
				begin := time.Now()
				res := s.lead(padded(goal), quick())
				s.requireDone(res, goal, quick())
				if want := (goal + 3) / 4; s.pieces != int(want) {
					t.Errorf("goal %d: %d pieces, want %d", goal, s.pieces, want)
				}
				if want := (goal + 7) / 8; s.trims != int(want) {
					t.Errorf("goal %d: %d trims, want %d", goal, s.trims, want)
				}
				if took := time.Since(begin); took < quick().Checkpoints || took > quick().Checkpoints+time.Second {
					t.Errorf("goal %d: done after %v", goal, took)
				}
			})
		}
	}
}

func TestNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "compact")
		if res := s.lead(padded(0), quick()); res.Err != nil || res.Record != (Record{}) || s.puts > 0 {
			t.Errorf("goal 0: %+v", res)
		}
		s.start, s.end = 7, 12
		if res := s.lead(Goal{Offset: 5, Reason: ledger.Retention}, quick()); res.Err != nil || s.puts > 0 {
			t.Errorf("goal behind: %+v", res)
		}
	})
}

// A billion offsets with the default sizes: little is untrimmed at any time, and
// each chunk begins a segment.
func TestABillion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goal = 1_000_000_000
		s := newSim(t, "compact")
		var told int64
		times := map[int64]bool{}
		p := &Padder{Ports: segments{s, times}, Observe: func(p Progress) { told = p.End }}
		begin := time.Now()
		res, _ := s.runOnce(p, padded(goal))
		if took := time.Since(begin); took > 0 {
			t.Errorf("%v were waited for nothing", took)
		}
		if res.Err != nil || !res.Record.Ready() || s.end != goal || s.start != goal || told != goal {
			t.Fatalf("%+v, log %d to %d, told %d", res, s.start, s.end, told)
		}
		if s.most != 10_000_000 || s.pieces != 5000 || s.trims != 100 {
			t.Errorf("%d untrimmed, %d pieces, %d trims", s.most, s.pieces, s.trims)
		}
		week := 7 * 24 * time.Hour.Milliseconds()
		for ts := range times {
			if len(times) != 100 || (ts-1)%(week+1) != 0 {
				t.Fatalf("%d different times, one is %d", len(times), ts)
			}
		}
	})
}

// segments notes the pads' timestamps.
type segments struct {
	*sim
	times map[int64]bool
}

func (s segments) Append(ctx context.Context, p Piece) Appended {
	s.times[p.Timestamp] = true
	return s.sim.Append(ctx, p)
}

// The source's retention overtakes the mirror: pads from the log's end on, and
// what was mirrored goes with them.
func TestOverRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.start, s.end, s.floor = 100, 1000, 100
		res := s.lead(Goal{Offset: 1030, Reason: ledger.Retention}, quick())
		s.requireDone(res, 1030, quick())
		if s.rec.From != 1000 || s.rec.Reason != ledger.Retention {
			t.Errorf("record %+v", s.rec)
		}
		// Once more, over a record that is done, and once before it is.
		s.end, s.dataFrom = 1031, -1
		s.requireDone(s.lead(Goal{Offset: 1040, Reason: ledger.Retention}, quick()), 1040, quick())
		if s.rec.From != 1031 {
			t.Errorf("record %+v", s.rec)
		}
	})
}

func TestOvertakenWhileItSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "compact")
		p := &Padder{Ports: s, Settings: quick()}
		if res, _ := s.runOnce(p, padded(10)); !res.Record.Ready() || s.policy != "delete" {
			t.Fatalf("%+v, policy %q", res, s.policy)
		}
		s.end = 13 // records
		res := s.lead(Goal{Offset: 30, Reason: ledger.Retention}, quick())
		s.requireDone(res, 30, quick())
		if s.rec.From != 13 || s.rec.RestorePolicy != "compact" {
			t.Errorf("record %+v", s.rec)
		}
	})
}

func TestTheGoalRisesWhilePaddingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.rec = Record{Goal: 10, Reason: ledger.Padded, Stage: StagePad}
		s.end = 4
		s.requireDone(s.lead(padded(25), quick()), 25, quick())
	})
	synctest.Test(t, func(t *testing.T) { // and never falls
		s := newSim(t, "delete")
		s.rec = Record{Goal: 10, Reason: ledger.Padded, Stage: StagePad}
		s.requireDone(s.lead(padded(5), quick()), 10, quick())
	})
}

func TestHalts(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(s *sim)
		reason state.Reason
	}{
		"records are there": {func(s *sim) { s.end = 3 }, state.TargetNotEmpty},
		"beyond the goal":   {func(s *sim) { s.start, s.end, s.rec = 0, 21, Record{Goal: 20, Stage: StagePad} }, state.Overshot},
		"unknown stage":     {func(s *sim) { s.rec = Record{Goal: 20, Stage: "later"} }, state.ControlUnwritable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "delete")
				c.edit(s)
				res, _ := s.runOnce(&Padder{Ports: s, Settings: quick()}, padded(20))
				var f *Fault
				if !errors.As(res.Err, &f) || f.Reason != c.reason || !errors.Is(f, ErrHalted) || s.pieces+s.trims+s.puts > 0 {
					t.Errorf("got %v, reason %v", res.Err, f)
				}
			})
		})
	}
}

// P6: the lease ends in the middle. Nothing more is done, and another owner goes
// on.
func TestTheLeaseEnds(t *testing.T) {
	for _, calls := range []int{0, 1, 2, 5, 9} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, "compact")
			n := 0
			s.pick = func(string, []fate) fate {
				if n++; n > calls {
					s.until = time.Now()
				}
				return well
			}
			res, _ := s.runOnce(&Padder{Ports: s, Settings: quick()}, padded(20))
			var f *Fault
			if !errors.As(res.Err, &f) || !errors.Is(f, ErrNotAllowed) || f.Reason != "" {
				t.Fatalf("got %v", res.Err)
			}
			s.pick = func(string, []fate) fate { return well }
			s.until = time.Now().Add(1000 * time.Hour)
			s.requireDone(s.lead(padded(20), quick()), 20, quick())
		})
	}
}

// P2: a piece in doubt near the goal is waited for, far from it is not.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		n := 0
		s.pick = func(call string, _ []fate) fate {
			if call == "append" {
				switch n++; n {
				case 2, 4, 6: // not in a row
					return lateAfter
				}
			}
			return well
		}
		begin := time.Now()
		awaited := false
		p := &Padder{Ports: s, Settings: quick(), Observe: func(p Progress) { awaited = awaited || p.Await == AwaitDoubt }}
		if res, _ := s.runOnce(p, padded(20)); res.Err != nil || s.end != 20 {
			t.Fatalf("%+v, log end %d", res, s.end)
		}
		if took := time.Since(begin); !awaited || took < lateness {
			t.Errorf("ready after %v", took)
		}
		s.requireDone(s.lead(padded(20), quick()), 20, quick())
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.pick = func(call string, _ []fate) fate {
			if call == "append" {
				return errBefore
			}
			return well
		}
		res, _ := s.runOnce(&Padder{Ports: s, Settings: quick()}, padded(100))
		if !errors.Is(res.Err, ErrNoProgress) || !errors.Is(res.Err, errCut) {
			t.Errorf("got %v", res.Err)
		}
	})
}

// A doubt that ends with the next look delays nothing.
func TestADoubtThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.pick = func(call string, _ []fate) fate {
			if call == "append" {
				return errAfter
			}
			return well
		}
		begin := time.Now()
		res, _ := s.runOnce(&Padder{Ports: s, Settings: quick()}, padded(8))
		if !res.Record.Ready() || time.Since(begin) > 0 {
			t.Errorf("%+v after %v", res, time.Since(begin))
		}
	})
}

// inNeed is the sim with a sibling that needs the policy until this partition has
// recorded that it does not.
type inNeed struct{ *sim }

func (s inNeed) Siblings() Siblings { return Siblings{NeedPolicy: s.rec.NeedsPolicy()} }

func TestSiblingsAreAskedAfterTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "compact")
		s.rec = Record{Goal: 8, Stage: StageSettle, RestorePolicy: "compact", TrimmedAt: time.Now().Add(-time.Hour)}
		s.start, s.end, s.policy = 8, 8, "delete"
		res, _ := s.runOnce(&Padder{Ports: inNeed{s}, Settings: quick()}, padded(8))
		if !res.Record.Done || s.policy != "compact" {
			t.Errorf("%+v, policy %q", res, s.policy)
		}
	})
}

// Another process's piece may be on its way when this one starts from a record.
func TestAResumedGoalCountsAsADoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.rec = Record{Goal: batch.MaxPadCount + 1, Reason: ledger.Padded, Stage: StagePad}
		begin := time.Now()
		set := Settings{SettleTime: 30 * time.Second}
		s.late = append(s.late, latePads{begin.Add(lateness), false, batch.MaxPadCount})
		res, _ := s.runOnce(&Padder{Ports: s, Settings: set}, padded(batch.MaxPadCount+1))
		if res.Err != nil || s.end != batch.MaxPadCount+1 || time.Since(begin) < lateness {
			t.Errorf("%+v after %v, log end %d", res, time.Since(begin), s.end)
		}
	})
}

// answers replaces what appends are answered.
type answers struct {
	*sim
	next []Appended
}

func (a *answers) Append(ctx context.Context, p Piece) Appended {
	if len(a.next) == 0 {
		return a.sim.Append(ctx, p)
	}
	r := a.next[0]
	a.next = a.next[1:]
	return r
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		a      Appended
		reason state.Reason
	}{
		"fenced":         {Appended{Outcome: Fenced, Err: errCut}, state.Fenced},
		"refused":        {Appended{Outcome: Refused, Reason: state.NotEnoughReplicas, Err: errCut}, state.NotEnoughReplicas},
		"not sent":       {Appended{Outcome: NotSent, Reason: state.NoLeader, Err: errCut}, state.NoLeader},
		"without a word": {Appended{Outcome: Refused}, state.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "delete")
				p := &Padder{Ports: &answers{s, []Appended{c.a}}, Settings: quick()}
				res, _ := s.runOnce(p, padded(8))
				var f *Fault
				if !errors.As(res.Err, &f) || f.Reason != c.reason || f.Error() == "" {
					t.Errorf("got %v, reason %v", res.Err, f)
				}
			})
		})
	}
}

func TestFollowersStayBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.lag = 1
		var await Kind
		p := &Padder{Ports: s, Settings: quick(), Observe: func(p Progress) { await = p.Await }}
		res, _ := s.runOnce(p, padded(8))
		var f *Fault
		if !errors.As(res.Err, &f) || f.Reason != state.NotEnoughReplicas || !errors.Is(f, ErrBehind) || await != AwaitReplicas {
			t.Fatalf("got %v, awaiting %v", res.Err, await)
		}
		s.lag = 0
		s.requireDone(s.lead(padded(8), quick()), 8, quick())
	})
}

// stubborn never shows a new policy.
type stubborn struct{ *sim }

func (stubborn) Policy(context.Context) (string, error) { return "compact", nil }

func TestThePolicyDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "compact")
		res, _ := s.runOnce(&Padder{Ports: stubborn{s}, Settings: quick()}, padded(8))
		if !errors.Is(res.Err, ErrPolicy) || s.pieces > 0 {
			t.Errorf("got %v", res.Err)
		}
	})
}

func TestAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(context.Background())
		s.lag = 1
		time.AfterFunc(500*time.Millisecond, func() { cancel(stop) })
		if res := (&Padder{Ports: s, Settings: quick()}).Run(ctx, padded(8), Record{}); !errors.Is(res.Err, stop) || res.Record.Stage != StagePad {
			t.Errorf("got %+v", res)
		}
	})
}

// An unclean election of the target takes pads away after all was done.
func TestTheTargetLosesItsTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "compact")
		p := &Padder{Ports: s, Settings: quick()}
		if res, _ := s.runOnce(p, padded(20)); !res.Record.Ready() {
			t.Fatalf("%+v", res)
		}
		s.start, s.end = 5, 5
		begin := time.Now()
		s.requireDone(s.lead(padded(20), quick()), 20, quick())
		if took := time.Since(begin); took < quick().Checkpoints+quick().SettleTime {
			t.Errorf("done after %v: what was mirrored may have been on its way", took)
		}
	})
}

func TestRecheck(t *testing.T) {
	if !Recheck(4, 5) || Recheck(5, 5) || Recheck(6, 5) {
		t.Error("a log start below the goal, and no other, is to be trimmed again")
	}
}

// Another machine's clock is ahead.
func TestATimeInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "delete")
		s.start, s.end, s.dataFrom = 8, 8, 8
		s.rec = Record{Goal: 8, Stage: StageSettle, TrimmedAt: time.Now().Add(time.Hour)}
		begin := time.Now()
		s.requireDone(s.lead(padded(8), quick()), 8, quick())
		if took := time.Since(begin); took < quick().Checkpoints || took > 2*quick().Checkpoints {
			t.Errorf("done after %v", took)
		}
	})
}
