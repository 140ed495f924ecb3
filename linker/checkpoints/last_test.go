package checkpoints

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/remote"
	"klink/linker/state"
	"klink/translate/exact"
)

// P7: what was committed when somebody asked is there when the answer comes, though
// the interval is long; what cannot be known yet, or not be done here, is an error.
func TestLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Interval = time.Hour
	r.restart()
	r.copied(exact.Run{Src: 0, Dst: 5, Count: 10})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.task.Run(ctx) }()
	orders := []string{"other", "orders"}
	last := func(want error) {
		t.Helper()
		if err := r.task.Last(ctx, orders); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	for at := range int64(3) {
		r.mu.Lock()
		r.commits = nil
		r.mu.Unlock()
		r.commit("g", at)
		last(nil)
		if got := r.checkpoints()["g"]; got != at+5 {
			t.Errorf("at %d, want %d", got, at+5)
		}
	}
	r.set(func() { r.known = false })
	last(errCommits)
	r.set(func() { r.known, r.held = true, false })
	last(errNotHere)
	if err := r.task.Last(ctx, []string{"other"}); err != nil {
		t.Errorf("no topic in checkpoint mode: %v", err)
	}
	stop()
	<-ended
	last(context.Canceled)
}

func (r *rig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Whoever asks waits for what passes, and not for what only an operator can mend.
func TestRestOfARound(t *testing.T) {
	denied := &remote.Fault{Reason: state.NoPermission, Err: kerr.TopicAuthorizationFailed}
	away := &remote.Fault{Reason: state.Unreachable, Err: errAway}
	for name, c := range map[string]struct {
		r    result
		want bool // something is left
	}{
		"all done":                  {result{known: true, errs: []error{nil, nil}}, false},
		"commits not known":         {result{}, true},
		"an end not known":          {result{known: true, unbounded: map[string]bool{"orders": true}}, true},
		"another topic's not known": {result{known: true, unbounded: map[string]bool{"x": true}}, false},
		"target away":               {result{known: true, errs: []error{away, nil}}, true},
		"syncs not written":         {result{known: true, errs: []error{nil, away}}, true},
		"a right is missing":        {result{known: true, errs: []error{denied, nil}}, false},
		"made wrongly":              {result{known: true, errs: []error{misfit("t", "x"), misfit("u", "x")}}, false},
		"one of each":               {result{known: true, errs: []error{denied, away}}, true},
	} {
		if err := c.r.rest(&ask{topics: []string{"orders"}}); (err != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
