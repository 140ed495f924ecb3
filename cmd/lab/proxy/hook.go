package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Action is the fate of one request and its connection.
type Action int

const (
	// Forward is no fault.
	Forward Action = iota
	// CutBefore resets the connection; the broker does not get the request.
	CutBefore
	// CutSent resets the client's connection as soon as the broker has been sent
	// the request; the broker carries it out.
	CutSent
	// DropAnswer is CutSent at the moment when the broker has answered: the
	// request's effects are there when the client sees the reset.
	DropAnswer
	// CutAfter delivers the answer and resets the connection then.
	CutAfter
	// Mute lets the request pass, but neither its answer nor any later one; the
	// connection stays open.
	Mute
	// Swallow takes the request, and all later ones of the connection, from the
	// client and gives the broker none of them; the connection stays open.
	Swallow
)

// AnyKey stands for all API keys.
const AnyKey int16 = -1

// Hook decides on a request. It may block, which delays that connection only,
// and it may be called for several connections at the same time.
type Hook func(Frame) Action

// Frame is a request as its header describes it.
type Frame struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	Bytes         int    // size on the wire without the length
	Conn          uint64 // the connection's number, from 1 on
	Client        string // the client's end of the connection, as host:port
	Nth           int    // how many requests with this key came before, and this one

	body   []byte // the whole frame; nil in hooks on answers
	answer []byte // the whole frame of the answer; nil in hooks on requests
}

// Request decodes the request, for hooks that look at topics or partitions. It
// is not to be had in hooks on answers.
func (f Frame) Request() (kmsg.Request, error) {
	req := kmsg.RequestForKey(f.Key)
	if req == nil || f.body == nil {
		return nil, fmt.Errorf("proxy: no request to decode for key %d", f.Key)
	}
	req.SetVersion(f.Version)
	r := kbin.Reader{Src: f.body}
	r.Int16()
	r.Int16()
	r.Int32()
	r.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := r.Complete(); err != nil && len(r.Src) == 0 {
		return nil, fmt.Errorf("proxy: request header: %w", err)
	}
	return req, req.ReadFrom(r.Src)
}

// Answer decodes the answer, for hooks on answers that look at error codes or
// offsets.
func (f Frame) Answer() (kmsg.Response, error) {
	req := kmsg.RequestForKey(f.Key)
	if req == nil || f.answer == nil {
		return nil, fmt.Errorf("proxy: no answer to decode for key %d", f.Key)
	}
	resp := req.ResponseKind()
	resp.SetVersion(f.Version)
	r := kbin.Reader{Src: f.answer}
	r.Int32()
	// An answer to ApiVersions has the old header, which every client reads (KIP-511).
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		kmsg.SkipTags(&r)
	}
	if err := r.Complete(); err != nil && len(r.Src) == 0 {
		return nil, fmt.Errorf("proxy: answer header: %w", err)
	}
	return resp, resp.ReadFrom(r.Src)
}

// Once gives a hook that takes action at its first call only.
func Once(action Action) Hook { return Nth(1, action) }

// Nth gives a hook that takes action at its nth call only, from 1 on.
func Nth(n int64, action Action) Hook {
	var calls atomic.Int64
	return func(Frame) Action {
		if calls.Add(1) == n {
			return action
		}
		return Forward
	}
}

type hookEntry struct {
	key  int16
	hook Hook
}

// hookTable holds hooks and counts. The zero value is ready.
type hookTable struct {
	mu      sync.Mutex // guards what is below
	request []*hookEntry
	answer  []*hookEntry
	counts  map[int16]int
	total   int
	changed chan struct{} // closed and replaced at each count, when somebody waits
}

// On calls hook for every request with this API key (AnyKey for all) before any
// of it is forwarded, until remove is called. Of several hooks the first that
// says anything but Forward decides.
func (p *Proxy) On(key int16, hook Hook) (remove func()) {
	return p.hooks.add(&p.hooks.request, &hookEntry{key, hook})
}

// OnAnswer calls hook when the broker has answered a request with this key,
// before any of the answer is forwarded. Forward, CutAfter and Mute mean what
// they say; every other action is DropAnswer.
func (p *Proxy) OnAnswer(key int16, hook Hook) (remove func()) {
	return p.hooks.add(&p.hooks.answer, &hookEntry{key, hook})
}

func (t *hookTable) add(list *[]*hookEntry, e *hookEntry) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(slices.Clone(*list), e)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		*list = slices.DeleteFunc(slices.Clone(*list), func(other *hookEntry) bool { return other == e })
	}
}

// matching gives the hooks of a list for key.
func (t *hookTable) matching(list *[]*hookEntry, key int16) []Hook {
	t.mu.Lock()
	defer t.mu.Unlock()
	var hooks []Hook
	for _, e := range *list {
		if e.key == key || e.key == AnyKey {
			hooks = append(hooks, e.hook)
		}
	}
	return hooks
}

// decide asks the hooks in order. All of them see the frame.
func decide(hooks []Hook, f Frame) Action {
	action := Forward
	for _, hook := range hooks {
		if a := hook(f); action == Forward {
			action = a
		}
	}
	return action
}

// count notes a request and gives its number.
func (t *hookTable) count(key int16) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[int16]int{}
	}
	t.counts[key]++
	t.total++
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	return t.counts[key]
}

func (t *hookTable) read(key int16) (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	if key == AnyKey {
		return t.total, t.changed
	}
	return t.counts[key], t.changed
}

// Count is how many requests with this key clients have sent, whatever became
// of them.
func (p *Proxy) Count(key int16) int {
	n, _ := p.hooks.read(key)
	return n
}

// Await returns when Count(key) is at least n, or when ctx ends.
func (p *Proxy) Await(ctx context.Context, key int16, n int) error {
	for {
		have, changed := p.hooks.read(key)
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("proxy: %d of %d requests with key %d: %w", have, n, key, ctx.Err())
		}
	}
}
