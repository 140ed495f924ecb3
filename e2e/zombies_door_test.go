package e2e

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab/process"
	"klink/cmd/lab/proxy"
)

// doorman stands before a cluster and knows which process each connection is of.
// What a process whose door is shut sends is held, as a network may hold it, and
// goes on when the door is opened.
type doorman struct {
	wire *proxy.Proxy

	mu     sync.Mutex                  // guards all below
	owners map[uint64]*process.Process // by connection; nil is none of them
	doors  map[*process.Process]*door  // of all processes that are known
	done   map[verdict]int             // answers to their appends and markers by what they say
}

// door is that of one process.
type door struct {
	shut []func(proxy.Frame) bool // what is held
	open chan struct{}            // closed to let everything go on
	held map[int16]int            // requests that have come and waited
	late map[int16]int            // of those, how many the broker has answered
	conn map[uint64]int32         // the correlation id of what waits, or last waited, by connection
	// step decides on each request; it is not called from two goroutines at a time.
	step func(proxy.Frame) proxy.Action
}

// What may be held.
func everything(proxy.Frame) bool     { return true }
func markerWrites(f proxy.Frame) bool { return f.Key == markersKey }
func appends(f proxy.Frame) bool {
	return f.Key == produceKey && !strings.HasSuffix(f.ClientID, "-control")
}
func controlWrites(f proxy.Frame) bool {
	return f.Key == produceKey && strings.HasSuffix(f.ClientID, "-control")
}

// verdict is an answer for one partition.
type verdict struct{ key, code int16 }

func (v verdict) String() string {
	what := "OK"
	if err := kerr.TypedErrorForCode(v.code); err != nil {
		what = err.Message
	}
	return fmt.Sprintf("%s %s", kmsg.NameForKey(v.key), what)
}

// newDoorman stands before all connections that come through a proxy.
func newDoorman(t testing.TB, wire *proxy.Proxy) *doorman {
	t.Helper()
	d := &doorman{wire: wire, owners: map[uint64]*process.Process{}, doors: map[*process.Process]*door{}, done: map[verdict]int{}}
	wire.On(proxy.AnyKey, func(f proxy.Frame) proxy.Action { return d.request(t, f) })
	for _, key := range []int16{produceKey, markersKey} {
		wire.OnAnswer(key, func(f proxy.Frame) proxy.Action { d.answer(t, f); return proxy.Forward })
	}
	t.Cleanup(d.openAll)
	return d
}

// know adds a process, with its door open.
func (d *doorman) know(p *process.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doorLocked(p)
}

func (d *doorman) doorLocked(p *process.Process) *door {
	o := d.doors[p]
	if o == nil {
		o = newDoor()
		d.doors[p] = o
		// It may have connected already.
		maps.DeleteFunc(d.owners, func(_ uint64, owner *process.Process) bool { return owner == nil })
	}
	return o
}

func newDoor() *door {
	return &door{open: make(chan struct{}), held: map[int16]int{}, late: map[int16]int{}, conn: map[uint64]int32{}}
}

// command starts klink in the background, its door as prepare leaves it: nothing
// that it sends is looked at before.
func (d *doorman) command(t testing.TB, prepare func(*running, *door), args ...string) *running {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	r, o := startCommand(t, args...), newDoor()
	d.doors[r.proc] = o
	prepare(r, o)
	return r
}

// shut holds more of what a process sends from now on.
func (d *doorman) shut(p *process.Process, what func(proxy.Frame) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.doorLocked(p)
	o.shut = append(o.shut, what)
}

// open lets everything of a process go on, and holds nothing more.
func (d *doorman) open(p *process.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doors[p].letGo()
}

func (o *door) letGo() {
	if len(o.shut) > 0 {
		o.shut = nil
		close(o.open)
		o.open = make(chan struct{})
	}
}

func (d *doorman) openAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.doors {
		o.letGo()
	}
}

// held is how many requests of a kind have waited at a process's door.
func (d *doorman) held(p *process.Process, key int16) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doors[p].held[key]
}

// late is how many of those the broker has answered.
func (d *doorman) late(p *process.Process, key int16) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doors[p].late[key]
}

// request waits where a door is shut.
func (d *doorman) request(t testing.TB, f proxy.Frame) proxy.Action {
	wait, action := d.comes(t, f)
	if wait != nil {
		<-wait
	}
	return action
}

// comes notes a request and says what it has to wait for, and its fate.
func (d *doorman) comes(t testing.TB, f proxy.Frame) (<-chan struct{}, proxy.Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.doors[d.ownerLocked(t, f)]
	if o == nil {
		return nil, proxy.Forward
	}
	action := proxy.Forward
	if o.step != nil {
		action = o.step(f)
	}
	for _, is := range o.shut {
		if is(f) {
			o.held[f.Key]++
			o.conn[f.Conn] = f.CorrelationID
			return o.open, action
		}
	}
	return nil, action
}

// ownerLocked asks the system whose a connection is, once; nil is nobody's.
func (d *doorman) ownerLocked(t testing.TB, f proxy.Frame) *process.Process {
	if owner, known := d.owners[f.Conn]; known {
		return owner
	}
	var owner *process.Process
	for p := range d.doors {
		if !p.Running() {
			continue
		}
		holds, err := p.Holds(f.Client, d.wire.Addr())
		if err != nil {
			t.Errorf("whose is %s: %v", f.Client, err)
		}
		if holds {
			owner = p
		}
	}
	d.owners[f.Conn] = owner
	return owner
}

// answer counts what the broker says to appends and markers.
func (d *doorman) answer(t testing.TB, f proxy.Frame) {
	codes, err := codesOf(f)
	if err != nil {
		t.Errorf("an answer to %s: %v", kmsg.NameForKey(f.Key), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.doors[d.owners[f.Conn]]
	if o == nil {
		return
	}
	if !controlWrites(f) {
		for _, code := range codes {
			d.done[verdict{f.Key, code}]++
		}
	}
	if id, was := o.conn[f.Conn]; was && id == f.CorrelationID {
		delete(o.conn, f.Conn)
		o.late[f.Key]++
	}
}

// codesOf are the error codes of an answer, one per partition.
func codesOf(f proxy.Frame) (codes []int16, err error) {
	resp, err := f.Answer()
	if err != nil {
		return nil, err
	}
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
	case *kmsg.WriteTxnMarkersResponse:
		for _, m := range r.Markers {
			for _, t := range m.Topics {
				for _, p := range t.Partitions {
					codes = append(codes, p.ErrorCode)
				}
			}
		}
	}
	return codes, nil
}

// verdicts are all answers until now.
func (d *doorman) verdicts() map[verdict]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.done)
}

// since subtracts what was counted before.
func since(now, before map[verdict]int) map[string]int {
	out := map[string]int{}
	for v, n := range now {
		if n > before[v] {
			out[v.String()] = n - before[v]
		}
	}
	return out
}
