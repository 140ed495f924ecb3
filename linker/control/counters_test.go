package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"klink/linker/ledger"
)

// entry is a record of a control topic in memory.
type entry struct {
	key, value string // an empty value deletes
	cleaned    bool
}

// paperLog is a control topic without a cluster.
type paperLog struct{ entries []entry }

func (l *paperLog) append(k Key, v any) int64 {
	kb, _ := k.encode()
	e := entry{key: string(kb)}
	if v != nil {
		vb, _ := json.Marshal(v)
		e.value = string(vb)
	}
	l.entries = append(l.entries, e)
	return int64(len(l.entries) - 1)
}

// clean is the cleaner over the first n records, with a delete.retention.ms of
// nothing: of each key only the last stays, and a deletion does not.
func (l *paperLog) clean(n int) {
	last := make(map[string]int)
	for i := range n {
		last[l.entries[i].key] = i
	}
	for i := range n {
		if last[l.entries[i].key] != i || l.entries[i].value == "" {
			l.entries[i].cleaned = true
		}
	}
}

// rival is a process that reserves counters step by step.
type rival struct {
	name  string
	view  *View
	next  int
	own   *block // written, and not yet decided upon
	until int    // read to here before deciding
	given int32
}

func (r *rival) read(t *rapid.T, l *paperLog, to int) {
	for ; r.next < to; r.next++ {
		e := l.entries[r.next]
		if e.cleaned {
			continue
		}
		var value []byte
		if e.value != "" {
			value = []byte(e.value)
		}
		if err := r.view.apply(int64(r.next), time.Time{}, []byte(e.key), value); err != nil {
			t.Fatal(err)
		}
	}
	if r.own != nil && r.until < 0 && int64(r.next) > r.own.offset {
		r.until = len(l.entries)
	}
}

// C6, step by step: writers that know nothing of each other's last moves, lost
// answers, processes that end and come back under another name, and a cleaner
// that takes away all it may.
func TestNoCounterIsGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &paperLog{}
		var taken []block
		starts := 0
		start := func() *rival {
			starts++
			r := &rival{name: fmt.Sprintf("w%d", starts), view: newView(), until: -1}
			r.read(t, l, len(l.entries))
			return r
		}
		rivals := []*rival{start(), start(), start()}
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, len(rivals)-1).Draw(t, "who")
			r := rivals[i]
			switch rapid.SampledFrom([]string{"write", "write", "read", "read", "decide", "decide", "lose", "restart", "clean"}).Draw(t, "step") {
			case "write":
				if r.own != nil {
					continue
				}
				b, err := r.view.nextBlock(CounterRequest{Owner: r.name, Count: rapid.Int32Range(1, 2).Draw(t, "count"), Above: -1}, r.given)
				if err != nil {
					t.Fatal(err)
				}
				b.offset = l.append(encodeCounters(b))
				r.own, r.until = &b, -1
			case "read":
				r.read(t, l, rapid.IntRange(r.next, len(l.entries)).Draw(t, "to"))
			case "decide":
				if r.own == nil || r.until < 0 || r.next < r.until {
					continue
				}
				own := *r.own
				if r.own = nil; !r.view.undisputed(own) {
					continue
				}
				r.given, taken = own.end, append(taken, own)
				for _, b := range r.view.superseded(own) {
					if k, _ := encodeCounters(b); rapid.Bool().Draw(t, "sweep") {
						l.append(k, nil)
					}
				}
			case "lose": // the answer, not the record
				r.own = nil
			case "restart":
				rivals[i] = start()
			case "clean":
				l.clean(rapid.IntRange(0, len(l.entries)).Draw(t, "upto"))
			}
			checkTaken(t, l, taken)
		}
	})
}

func checkTaken(t *rapid.T, l *paperLog, taken []block) {
	slices.SortFunc(taken, func(a, b block) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(taken); i++ {
		if a, b := taken[i-1], taken[i]; b.first < a.end {
			t.Fatalf("%s has [%d,%d) and %s [%d,%d)", a.owner, a.first, a.end, b.owner, b.first, b.end)
		}
	}
	fresh := &rival{view: newView(), until: -1}
	fresh.read(t, l, len(l.entries))
	if n := len(taken); n > 0 && fresh.view.counterEnd(lineKey{}) < taken[n-1].end {
		t.Fatalf("%d is on record, %d was given", fresh.view.counterEnd(lineKey{}), taken[n-1].end)
	}
}

func request(owner string, count int32) CounterRequest {
	return CounterRequest{Link: "l", Topic: "t", SourceID: seqID(0), Partition: 1, Owner: owner, Count: count, Above: -1}
}

func TestCountersOfManyStoresAreDisjoint(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	var mu sync.Mutex
	var firsts []int32
	var wg sync.WaitGroup
	for i := range 3 {
		s, owner := open(t, newClient(t, c)), fmt.Sprintf("w%d", i)
		for range 8 {
			wg.Go(func() {
				first, err := s.ReserveCounters(ctx, request(owner, 100))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				firsts = append(firsts, first)
			})
		}
	}
	wg.Wait()
	slices.Sort(firsts)
	for i := 1; i < len(firsts); i++ {
		if firsts[i] < firsts[i-1]+100 {
			t.Fatalf("blocks overlap: %v", firsts)
		}
	}
	end := firsts[len(firsts)-1] + 100
	last := open(t, newClient(t, c))
	if got := last.CounterEnd("l", "t", seqID(0), 1); got < end {
		t.Errorf("%d on record, %d given", got, end)
	}
	// The next one leaves nothing but itself.
	first, err := last.ReserveCounters(ctx, request("w9", 7))
	must(t, err)
	if first < end {
		t.Errorf("%d was given before", first)
	}
	eventually(t, "one block on record", func() bool {
		last.mu.Lock()
		defer last.mu.Unlock()
		return len(last.view.counters[request("", 1).line()]) == 1
	})
}

func TestCountersLieAboveWhatTheTargetShows(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	r := request("w", 1<<16)
	for _, step := range []struct{ above, want int32 }{{-1, 0}, {-1, 1 << 16}, {1<<20 + 5, 1<<20 + 6}, {7, 1<<20 + 6 + 1<<16}} {
		r.Above = step.above
		first, err := s.ReserveCounters(ctx, r)
		must(t, err)
		if first != step.want {
			t.Errorf("above %d: %d, want %d", step.above, first, step.want)
		}
	}
	other := r
	other.Partition = 2
	if first, err := s.ReserveCounters(ctx, other); err != nil || first != 8 {
		t.Errorf("another partition: %d, %v", first, err)
	}

	r.Above = ledger.CounterLimit - 1<<16 - 1
	first, err := s.ReserveCounters(ctx, r)
	must(t, err)
	if first+r.Count != ledger.CounterLimit || s.CounterEnd("l", "t", seqID(0), 1) != ledger.CounterLimit {
		t.Errorf("the last block begins at %d", first)
	}
	r.Count = 1
	if _, err := s.ReserveCounters(ctx, r); !errors.Is(err, ErrCountersSpent) {
		t.Errorf("got %v", err)
	}
	r.Count = 0
	if _, err := s.ReserveCounters(ctx, r); err == nil || errors.Is(err, ErrCountersSpent) {
		t.Errorf("no counters: %v", err)
	}
}

// A reservation whose outcome is not known blocks nobody and burns little.
func TestCountersAfterALostAnswer(t *testing.T) {
	c := newCluster(t)
	s := open(t, newClient(t, c))
	held := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.ReserveCounters(short, request("w", 100)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	held.Remove()
	// The client fails what is queued behind a record that it gave up.
	var first int32
	eventually(t, "a block", func() bool {
		var err error
		first, err = s.ReserveCounters(testContext(t), request("w", 100))
		return err == nil
	})
	if first > 100 {
		t.Errorf("first is %d", first)
	}
}
