package comparator

import (
	"sync"
	"time"
)

// Progress is how far a comparison has come.
type Progress struct {
	// Done and Total are offsets of all partitions; Total grows by what partitions
	// turn out to hold.
	Done, Total int64
	// Partitions are done of all.
	Partitions, AllPartitions int
	// Bytes were read from both sides.
	Bytes int64
	// Elapsed is since the beginning.
	Elapsed time.Duration
}

// Left estimates how long the rest takes; ok is false before there is anything
// to go by.
func (p Progress) Left() (d time.Duration, ok bool) {
	if p.Done <= 0 || p.Elapsed < time.Second {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) * float64(p.Total-p.Done) / float64(p.Done)), true
}

// tellEvery is the least time between two reports of progress.
const tellEvery = 100 * time.Millisecond

// progress gathers what partitions have done.
type progress struct {
	tell  func(Progress)
	began time.Time

	mu   sync.Mutex // guards all below; tell is called under it, one call at a time
	now  Progress
	at   map[*pair]Range // From is how far each partition has come
	last time.Time
}

func newProgress(tell func(Progress), partitions int, offsets int64) *progress {
	return &progress{tell: tell, began: time.Now(), now: Progress{AllPartitions: partitions, Total: offsets}, at: make(map[*pair]Range)}
}

// expect replaces what a partition was thought to hold.
func (g *progress) expect(p *pair, span Range) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.Total += span.To - span.From - p.guess
	g.at[p] = span
}

func (g *progress) read(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.Bytes += int64(bytes)
}

// done notes how far a partition has come. More passes over it do not count.
func (g *progress) done(p *pair, next int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.at[p]; next > r.From {
		g.now.Done += next - r.From
		r.From = next
		g.at[p] = r
	}
	g.tellLocked(false)
}

// finished notes that a partition is done with.
func (g *progress) finished(p *pair) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.at[p]; ok {
		g.now.Done += r.To - r.From
	} else {
		g.now.Total -= p.guess
	}
	delete(g.at, p)
	g.now.Partitions++
	g.tellLocked(g.now.Partitions == g.now.AllPartitions)
}

func (g *progress) tellLocked(always bool) {
	if g.tell == nil || !always && time.Since(g.last) < tellEvery {
		return
	}
	g.last = time.Now()
	g.now.Elapsed = time.Since(g.began)
	g.tell(g.now)
}
