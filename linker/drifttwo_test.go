package linker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDriftAnotherLink: what another link copies to the same partition is what others
// write there; each finds its own, through lost answers and restarts.
func TestDriftAnotherLink(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				one, other := rig(t, seed), rig(t, seed+100)
				other.src, other.dst = newMemLog(5), one.dst
				other.source.log, other.target.log = other.src, one.dst
				both := []*mirror{one, other}
				maps := []*memMaps{newMemMaps(), newMemMaps()}
				var mu sync.Mutex
				loss := rand.New(rand.NewPCG(seed, 8))
				lose := func() memLoss {
					mu.Lock()
					defer mu.Unlock()
					return [...]memLoss{deliver, deliver, deliver, loseReply, loseSend, replyTwice}[loss.IntN(6)]
				}
				for range 4 {
					for i, m := range both {
						m.target.lose = lose
						shapes(m.src, r, 5, false)
						m.startDrift(t, maps[i])
					}
					time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
					for _, m := range both {
						m.stop()
					}
				}
				for i, m := range both {
					m.target.lose = nil
					m.startDrift(t, maps[i])
				}
				for _, m := range both {
					m.mustDrift(t)
				}
				for _, m := range both {
					m.stop()
				}
			})
		})
	}
}

// memTurn is the turn of one of several processes.
type memTurn struct {
	holder *memHolder
	name   string
}

type memHolder struct {
	mu   sync.Mutex // guards name
	name string
}

func (h *memHolder) move(to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.name = to
}

func (t memTurn) Mine(context.Context, string, int32) (rival string, mine bool) {
	t.holder.mu.Lock()
	defer t.holder.mu.Unlock()
	return t.holder.name, t.holder.name == t.name
}

// TestDriftLeaseMoves: the target forgets the producers, and the lease goes from one
// process to another while an append of the first is still on its way. Whichever batch
// comes first makes the target remember, and the other's sequence is refused.
func TestDriftLeaseMoves(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 6))
				m, maps, holder := rig(t, seed), newMemMaps(), &memHolder{name: "one"}
				write := func(n int) {
					recs := records(m.src.end, n, "src")
					for i := range recs {
						recs[i].Timestamp = 1000 // so old that the target may forget at any time
					}
					m.src.write(recs, 0, 0)
				}
				write(10)
				m.turn = memTurn{holder, "one"}
				m.startDrift(t, maps)
				m.mustDrift(t)
				other := *m
				other.source = &memSource{log: m.src, rand: rand.New(rand.NewPCG(seed, 5))}
				other.target = &memTarget{log: m.dst}
				other.turn = memTurn{holder, "two"}
				other.startDrift(t, maps)
				var mu sync.Mutex
				delay := func() memLoss {
					mu.Lock()
					d := time.Duration(r.IntN(700)) * time.Millisecond
					mu.Unlock()
					time.Sleep(d)
					return deliver
				}
				m.target.lose, other.target.lose = delay, delay
				for i := range 8 {
					m.dst.mu.Lock()
					m.dst.producer = map[int64]memProducer{}
					m.dst.mu.Unlock()
					foreign(m.dst, rand.New(rand.NewPCG(seed, uint64(i))))
					write(1 + i)
					time.Sleep(time.Duration(i*97) * time.Millisecond) // it may be on its way now
					holder.move([]string{"two", "one"}[i%2])
					time.Sleep(30 * time.Second)
				}
				synctest.Wait()
				m.mustBeCopiedOnce(t)
				m.stop()
				other.stop()
			})
		})
	}
}

// mustBeCopiedOnce holds the copies to the source's records, whoever made them.
func (m *mirror) mustBeCopiedOnce(t *testing.T) {
	t.Helper()
	if err := sameLogs(unplaced(m.src.records()), unplaced(m.copiesOf())); err != nil {
		t.Fatal(err)
	}
}
