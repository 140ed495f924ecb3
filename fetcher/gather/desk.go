package gather

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is how long a request waits for the one before it. One that went to a
// place that hangs is not to hold up those that come later for as long as it hangs
// itself.
const patience = 2 * time.Second

// ErrNoAnswer is the answer to a question that the request's answer left out.
var ErrNoAnswer = errors.New("no answer")

// Options of New; all are required.
type Options[K comparable, V any] struct {
	// Ask puts the questions of one request, and returns when they are answered or
	// ctx ends. It may be called again before it has returned.
	Ask func(ctx context.Context, questions []K) map[K]V
	// Most is how many questions one request may have.
	Most int
	// Timeout bounds one call of Ask.
	Timeout time.Duration
}

// Desk is safe for concurrent use.
type Desk[K comparable, V any] struct {
	opts Options[K, V]

	mu   sync.Mutex     // guards next and last
	next *request[K, V] // collects questions, not yet sent; nil where there is none
	last *request[K, V] // the latest of all, sent or not
}

// request is one call of Ask, shared by all who asked before it was sent.
type request[K comparable, V any] struct {
	questions map[K]struct{}
	done      chan struct{}
	answers   map[K]V // set before done is closed
}

// New returns a desk.
func New[K comparable, V any](o Options[K, V]) *Desk[K, V] { return &Desk[K, V]{opts: o} }

// Ticket stands for a question that was put.
type Ticket[K comparable, V any] struct {
	of       *request[K, V]
	question K
}

// Put puts a question, and returns without waiting for the answer.
func (d *Desk[K, V]) Put(question K) Ticket[K, V] {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.next
	if r == nil || len(r.questions) >= d.opts.Most {
		r = &request[K, V]{questions: make(map[K]struct{}), done: make(chan struct{})}
		go d.send(r, d.last)
		d.next, d.last = r, r
	}
	r.questions[question] = struct{}{}
	return Ticket[K, V]{r, question}
}

// Wait returns the answer, ErrNoAnswer where there is none, or the error of ctx.
func (t Ticket[K, V]) Wait(ctx context.Context) (v V, err error) {
	select {
	case <-t.of.done:
	case <-ctx.Done():
		return v, ctx.Err()
	}
	v, ok := t.of.answers[t.question]
	if !ok {
		return v, ErrNoAnswer
	}
	return v, nil
}

// Ask is Put and Wait.
func (d *Desk[K, V]) Ask(ctx context.Context, question K) (V, error) {
	return d.Put(question).Wait(ctx)
}

// send waits for the request before (Q2), and takes this one on its way.
func (d *Desk[K, V]) send(r, before *request[K, V]) {
	defer close(r.done)
	if before != nil {
		timer := time.NewTimer(patience)
		select {
		case <-before.done:
		case <-timer.C:
		}
		timer.Stop()
	}
	d.mu.Lock()
	if d.next == r {
		d.next = nil
	}
	all := make([]K, 0, len(r.questions))
	for k := range r.questions {
		all = append(all, k)
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
	defer cancel()
	r.answers = d.opts.Ask(ctx, all)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == r {
		d.last = nil // nobody comes after it who had to wait
	}
}
