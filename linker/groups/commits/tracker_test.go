package commits

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// coordinator is the dumb oracle: all committed offsets with the place of their
// records, as OffsetMetadataManager keeps them.
type coordinator struct {
	offsets map[key]commit
	pending map[int64]map[key]commit
}

func (o *coordinator) plain(c commit) {
	if c.offset != Deleted {
		o.offsets[c.key] = c
		return
	}
	delete(o.offsets, c.key)
	for _, p := range o.pending {
		delete(p, c.key)
	}
}

func (o *coordinator) hold(producer int64, c commit) {
	if o.pending[producer] == nil {
		o.pending[producer] = make(map[key]commit)
	}
	o.pending[producer][c.key] = c
}

func (o *coordinator) end(producer int64, committed bool) {
	for k, c := range o.pending[producer] {
		if have, ok := o.offsets[k]; committed && (!ok || c.at > have.at) {
			o.offsets[k] = c
		}
	}
	delete(o.pending, producer)
}

// O2: what the tracker lets count is what the coordinator has, after each record.
func TestTrackerAgreesWithTheCoordinator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := newTracker(false)
		oracle := &coordinator{offsets: make(map[key]commit), pending: make(map[int64]map[key]commit)}
		told := make(map[key]commit)
		tell := func(c commit) {
			if c.offset == Deleted {
				delete(told, c.key)
				return
			}
			told[c.key] = c
		}
		for at := range rapid.Int64Range(1, 60).Draw(t, "records") {
			producer := rapid.Int64Range(1, 3).Draw(t, "producer")
			c := commit{key: key{"g", "t", rapid.Int32Range(0, 2).Draw(t, "partition")}, at: at, offset: at}
			switch rapid.IntRange(0, 4).Draw(t, "record") {
			case 0:
				tr.count(c)
				tell(c)
				oracle.plain(c)
			case 1:
				c.offset = Deleted
				tr.count(c)
				tell(c)
				oracle.plain(c)
			case 2, 3:
				if !tr.begin(producer) {
					t.Fatal("no room")
				}
				tr.hold(producer, c)
				oracle.hold(producer, c)
			default:
				committed := rapid.Bool().Draw(t, "committed")
				counted, whole := tr.end(producer, committed)
				if !whole {
					t.Fatal("a gap where all was read")
				}
				for _, c := range counted {
					tell(c)
				}
				oracle.end(producer, committed)
			}
			if !maps.Equal(told, oracle.offsets) {
				t.Fatalf("after record %d: %s", at, cmp.Diff(oracle.offsets, told, cmp.AllowUnexported(commit{}, key{})))
			}
		}
		for producer := range int64(4) {
			tr.end(producer, false)
		}
		if tr.held != 0 {
			t.Fatalf("%d bytes held of nothing", tr.held)
		}
	})
}

// O3, O5: a transaction that is too large is let go, said when it commits, and
// costs no other one anything.
func TestTrackerIsBounded(t *testing.T) {
	tr := newTracker(false)
	tr.begin(1)
	tr.hold(1, commit{key: key{"small", "t", 0}, offset: 1})
	tr.begin(2)
	for i := range 10_000 {
		tr.hold(2, commit{key: key{"large", strings.Repeat("t", 200), int32(i)}, at: int64(i)})
		if tr.held > heldBytes {
			t.Fatalf("%d bytes held", tr.held)
		}
	}
	if counted, whole := tr.end(2, true); len(counted) > 0 || whole {
		t.Errorf("%d commits of one that was let go, whole %v", len(counted), whole)
	}
	if counted, whole := tr.end(1, true); len(counted) != 1 || !whole {
		t.Errorf("%d commits of the other one, whole %v", len(counted), whole)
	}
	if tr.held != 0 {
		t.Errorf("%d bytes held of nothing", tr.held)
	}
}

// O3: producers that there is no room for make the tracker blind, not silent.
func TestTrackerOfTooManyProducers(t *testing.T) {
	tr := newTracker(false)
	last := int64(0)
	for tr.begin(last) {
		last++
	}
	if !tr.blind || tr.held > heldBytes {
		t.Errorf("blind %v with %d bytes", tr.blind, tr.held)
	}
	tr.hold(last, commit{key: key{"g", "t", 0}})
	if counted, whole := tr.end(last, true); len(counted) > 0 || whole {
		t.Errorf("%d commits, whole %v", len(counted), whole)
	}
	if _, whole := tr.end(0, true); !whole {
		t.Error("one that began before is not whole")
	}
	for producer := range last + 5*wholeMost {
		tr.end(producer, true)
	}
	if len(tr.whole) > wholeMost || tr.held != 0 {
		t.Errorf("%d producers remembered, %d bytes held", len(tr.whole), tr.held)
	}
}
