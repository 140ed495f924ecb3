package linker

import (
	"context"
	"slices"
	"sync"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// life is one run of a partition's loop.
type life struct {
	cancel context.CancelFunc
	// told: it is to end; guarded by the topic's lock.
	told bool
	// done is closed when the loop has ended and nothing of it is under way.
	done chan struct{}
}

// end tells the loop to end.
func (l *life) end() {
	l.told = true
	l.cancel()
}

// spent reports whether the loop ended because it was told to, so that another may
// begin. One that ended by itself has found what does not end by itself.
func (l *life) spent() bool { return l == nil || l.told && l.over() }

// over reports whether the loop has ended.
func (l *life) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// grow makes room for partitions that are new. New partitions begin at offset 0
// like all others.
func (t *topic) grow(guard time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.partitions {
		p.watch(t.found)
	}
	for n := int32(len(t.partitions)); n < t.found.Partitions; n++ {
		t.partitions, t.lives = append(t.partitions, t.newPartition(n, guard)), append(t.lives, nil)
	}
}

// start runs the loops of partitions that have none and are mirrored here, where
// the topic is to be mirrored. A loop that ended for a reason about data has had its
// run.
func (t *topic) start(ctx context.Context, wg *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out != nil || t.want.Want != intent.Mirror {
		return
	}
	here := t.link.mirrorsHere()
	for n, p := range t.partitions {
		if t.lives[n].spent() && here(p) {
			t.lives[n] = t.live(ctx, p, wg)
		}
	}
}

// live runs a partition's loop until ctx ends, and for as long after that as an
// append under way may take.
func (t *topic) live(ctx context.Context, p *partition, wg *sync.WaitGroup) *life {
	ctx, end := context.WithCancel(ctx)
	l := &life{cancel: end, done: make(chan struct{})}
	if !p.here {
		p.arrive(t.link)
	}
	p.here = true
	p.wrote = false
	p.shown.move(state.ToMirror, "", "") // from wherever an order had left it
	wg.Go(func() {
		defer close(l.done)
		hard, cut := outlive(ctx, drainTime)
		defer cut()
		defer end()
		p.run(ctx, hard)
		t.ended(p)
	})
	return l
}

// obey takes in what operators want from now on, and ends the loops where that is
// not to mirror. It returns what was wanted before.
func (t *topic) obey(i intent.Intent) (was intent.Intent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, t.want = t.want, i
	if i.Want == intent.Mirror {
		return was
	}
	t.trouble = t.out
	for _, l := range t.lives {
		if l != nil {
			l.end()
		}
	}
	return was
}

// answered is the number of the last command that this process acknowledged for
// the topic, 0 for none.
func (t *topic) answered() int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastAnswer
}

func (t *topic) answer(number int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastAnswer = number
}

// drained waits until the loops that were told to end have ended, for a while.
func (t *topic) drained(ctx context.Context, d time.Duration) {
	t.mu.Lock()
	lives := slices.Clone(t.lives)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, l := range lives {
		if l != nil {
			select {
			case <-l.done:
			case <-ctx.Done():
				return
			}
		}
	}
}

// sawEnds shows the log ends that were read after the last loop ended.
func (t *topic) sawEnds(acked map[int32]control.Acked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, p := range t.partitions {
		if a, ok := acked[int32(n)]; ok {
			p.shown.endedAt(a.End)
		}
	}
}

// endedAt notes the target's end where nothing is mirrored any more.
func (s *shown) endedAt(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dstEnd = end
}

// expectNew says that the target topic that is on record now is to be another one, as
// a command ordered. While it is there the topic waits.
func (t *topic) expectNew(c intent.Command, now feed.TopicID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recreate, t.old = c, now
}

// recreated reports by which command a target topic still has to be deleted; ok is
// false where none has. there says that the target topic exists, onRecord is its id:
// another process may have made the new one already.
func (t *topic) recreated(there bool, onRecord feed.TopicID) (c intent.Command, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !there || onRecord != t.old {
		t.recreate = intent.Command{}
	}
	return t.recreate, t.recreate.Number > 0
}

// finished is a partition whose loop ended by an order.
type finished struct {
	n int32
	// dst is its target, known where ok.
	dst appender.Target
	// wrote tells what its last loop left; see partition.settled.
	wrote bool
}

// finish shows the order that is in force on partitions whose loops have ended, and
// returns those; all is false while others are still draining.
func (t *topic) finish() (ended []finished, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = true
	for n, p := range t.partitions {
		if l := t.lives[n]; l != nil && !l.over() {
			all = false
			continue
		}
		t.lives[n] = nil
		if !p.here {
			continue
		}
		was := p.shown.position()
		reason := orderReason(t.want, was.Reason)
		if was.State != control.OrderedState(t.want.Want) || was.Detail != t.want.Detail() {
			p.shown.moveHinted(orderEvents[t.want.Want], reason, t.want.Detail(), t.want.Hint())
		}
		ended = append(ended, finished{n: int32(n), dst: p.dst, wrote: p.settled(time.Now())})
	}
	return ended, all
}

// revive ends the loops of halted partitions that pick selects, and lets start
// begin them anew. Such a loop has nothing under way.
func (t *topic) revive(pick func(n int32) bool) (revived int) {
	for n, l := range t.endLives(func(n int32, p *partition) bool {
		return pick(n) && p.shown.position().State == state.Halted
	}) {
		<-l.done
		t.mu.Lock()
		if int(n) < len(t.lives) && t.lives[n] == l {
			t.lives[n] = nil
			revived++
		}
		t.mu.Unlock()
	}
	return revived
}

// forget ends all loops, waits for them, and leaves nothing of the partitions: they
// are begun anew with another target topic, or at another epoch.
func (t *topic) forget() {
	for _, l := range t.endLives(func(int32, *partition) bool { return true }) {
		<-l.done
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partitions, t.lives, t.trouble, t.out = nil, nil, nil, nil
}

// endLives tells loops to end and returns their runs by partition. Nobody may hold
// the topic's lock while waiting for those: a loop takes it as it ends.
func (t *topic) endLives(pick func(n int32, p *partition) bool) map[int32]*life {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := make(map[int32]*life)
	for n, p := range t.partitions {
		if l := t.lives[n]; l != nil && pick(int32(n), p) {
			l.end()
			ended[int32(n)] = l
		}
	}
	return ended
}

// settled tells, of a partition whose loop has ended, that this process appended
// there in its last run, that nothing of what it sent is in doubt, and that the
// broker refuses by its sequence what others may have sent before.
func (p *partition) settled(now time.Time) bool {
	_, held := p.lease.Held(p.dst.Topic, p.dst.Partition)
	return p.wrote && !p.gaps.doubt && !p.unguarded(now) && held
}

// noted keeps for settled what became of an append.
func (p *partition) noted(o appender.Outcome) {
	switch o {
	case appender.Appended:
		p.wrote = true
	case appender.NotSent, appender.Refused:
	default:
		p.wrote = false
	}
}
