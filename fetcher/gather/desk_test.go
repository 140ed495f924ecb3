package gather

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clerk answers questions with their double, each request after a while.
type clerk struct {
	mu    sync.Mutex // guards asked
	asked [][]int
	takes func(n int) time.Duration
}

func (c *clerk) ask(ctx context.Context, questions []int) map[int]int {
	c.mu.Lock()
	c.asked = append(c.asked, questions)
	n := len(c.asked)
	c.mu.Unlock()
	t := time.NewTimer(c.takes(n))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil
	}
	out := map[int]int{}
	for _, q := range questions {
		if q >= 0 {
			out[q] = 2 * q
		}
	}
	return out
}

func (c *clerk) sizes() (out []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asked {
		out = append(out, len(a))
	}
	return out
}

func newDesk(c *clerk) *Desk[int, int] {
	return New(Options[int, int]{Ask: c.ask, Most: 4, Timeout: 10 * time.Second})
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// TestQuestionsGoTogether: the first goes alone, what comes meanwhile goes in as few
// requests as may be (Q2, Q3), and everybody gets the answer to his own question.
func TestQuestionsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{takes: always(time.Second)}
		d := newDesk(c)
		first := d.Put(100)
		time.Sleep(time.Millisecond)
		var wg sync.WaitGroup
		for i := range 10 {
			for range 3 { // the same question of three is one
				wg.Go(func() {
					if v, err := d.Ask(t.Context(), i); v != 2*i || err != nil {
						t.Errorf("%d: %d, %v", i, v, err)
					}
				})
			}
		}
		if v, err := first.Wait(t.Context()); v != 200 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		wg.Wait()
		sum := 0
		for i, n := range c.sizes() {
			sum += n
			if i == 0 && n != 1 || n > 4 {
				t.Errorf("request %d has %d questions", i, n)
			}
		}
		// A question may be put again once the request it was in is full.
		if n := len(c.sizes()); n < 4 || n > 8 || sum < 11 {
			t.Errorf("requests of %v", c.sizes())
		}
		if d.next != nil || d.last != nil {
			t.Error("the desk keeps requests that are done")
		}
	})
}

// TestAnswersAreNewer: who asks while a request is on its way gets no answer of that
// one, though it has the same question (Q1).
func TestAnswersAreNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{takes: always(time.Second)}
		d := newDesk(c)
		one := d.Put(7)
		time.Sleep(500 * time.Millisecond)
		two := d.Put(7)
		began := time.Now()
		for _, of := range []Ticket[int, int]{one, two} {
			if v, err := of.Wait(t.Context()); v != 14 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		}
		if len(c.sizes()) != 2 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%v requests, the second answered after %v", c.sizes(), time.Since(began))
		}
	})
}

// TestHungRequest holds up others for two seconds each, not for its whole time, and
// ends by its own.
func TestHungRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{takes: func(n int) time.Duration {
			if n == 1 {
				return time.Hour
			}
			return time.Millisecond
		}}
		d := newDesk(c)
		hung := d.Put(1)
		time.Sleep(time.Millisecond)
		began := time.Now()
		if v, err := d.Ask(t.Context(), 2); v != 4 || err != nil || time.Since(began) > patience+10*time.Millisecond {
			t.Errorf("%d, %v after %v", v, err, time.Since(began))
		}
		if v, err := d.Ask(t.Context(), 3); v != 6 || err != nil || time.Since(began) > patience+20*time.Millisecond {
			t.Errorf("%d, %v after %v: nobody waits for the hung one twice", v, err, time.Since(began))
		}
		if _, err := hung.Wait(t.Context()); !errors.Is(err, ErrNoAnswer) || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestNoAnswer: what an answer leaves out is said to be, and who gives up waits no more.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{takes: always(time.Minute)}
		d := New(Options[int, int]{Ask: c.ask, Most: 4, Timeout: time.Hour})
		left := d.Put(-1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := left.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := left.Wait(t.Context()); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%v", err)
		}
	})
}
