package commits

import (
	"cmp"
	"slices"
)

// heldBytes bounds what the open transactions of one partition hold: some 4,000
// offsets. With the 50 partitions that a cluster has by default all of them
// together stay below 50 MiB at the very worst.
const heldBytes = 1 << 20

// commitBytes and transactionBytes are roughly what a held commit and an open
// transaction take beside their texts.
const (
	commitBytes      = 150
	transactionBytes = 200
)

// wholeMost bounds the producers that are remembered while a tracker is blind.
const wholeMost = 1000

// commit is one record about an offset.
type commit struct {
	key
	offset   int64 // or Deleted
	metadata string
	at       int64 // where the record stands in the log
}

func (c commit) bytes() int { return commitBytes + len(c.group) + len(c.topic) + len(c.metadata) }

// transaction holds the newest commit of each key until its end is known.
type transaction struct {
	commits map[key]commit
	// part: some of its commits were not read.
	part bool
	// full: its commits were let go for heldBytes.
	full bool
}

// tracker knows the open transactions of one partition and holds their commits
// back (O2). It takes what the log says in the order of the log. Transactions
// are told apart by their producer id alone, as the coordinator does: a producer
// has one open transaction at a time, and since KIP-890 the epoch of the marker
// is another one than that of the records.
//
// The coordinator keeps a commit of a transaction only where none of a later
// record counts already. Since counting later records are met here one by one,
// that is the same as letting go of what is held for a key when one counts, and
// no list of all committed offsets is needed.
type tracker struct {
	open map[int64]*transaction // by producer id
	held int                    // bytes of open

	// blind: transactions may be open of which the first records were not read.
	blind bool
	// whole are, while blind, producers that were seen to end a transaction: what
	// they begin after it is read from its start.
	whole map[int64]struct{}
}

func newTracker(blind bool) *tracker {
	t := &tracker{open: make(map[int64]*transaction)}
	if blind {
		t.becomeBlind()
	}
	return t
}

func (t *tracker) becomeBlind() {
	t.blind = true
	if t.whole == nil {
		t.whole = make(map[int64]struct{})
	}
}

// becomeSighted follows once every transaction that was open before the blind
// part of the log is known to have ended and its end was read.
func (t *tracker) becomeSighted() { t.blind, t.whole = false, nil }

// begin notes that a producer has a transaction open, also where none of its
// records are wanted: its marker is then no surprise. It reports false where
// there is no room to remember it.
func (t *tracker) begin(producer int64) bool {
	if t.open[producer] != nil {
		return true
	}
	if t.held+transactionBytes > heldBytes {
		t.becomeBlind()
		delete(t.whole, producer)
		return false
	}
	_, whole := t.whole[producer]
	t.open[producer] = &transaction{commits: make(map[key]commit), part: t.blind && !whole}
	t.held += transactionBytes
	return true
}

// hold keeps a commit until its transaction ends. A deletion is never part of
// one: the coordinator lets it count at once, whoever wrote it.
func (t *tracker) hold(producer int64, c commit) {
	x := t.open[producer]
	if x == nil || x.full {
		return
	}
	if old, ok := x.commits[c.key]; ok {
		t.held -= old.bytes()
	}
	x.commits[c.key] = c
	if t.held += c.bytes(); t.held > heldBytes {
		for _, old := range x.commits {
			t.held -= old.bytes()
		}
		x.commits, x.full = nil, true
	}
}

// count lets a plain commit or a deletion count: whatever a transaction holds for
// the same key stands before it in the log and has lost.
func (t *tracker) count(c commit) {
	for _, x := range t.open {
		if old, ok := x.commits[c.key]; ok && old.at < c.at {
			delete(x.commits, c.key)
			t.held -= old.bytes()
		}
	}
}

// end takes a marker and returns the commits that count from it on, in the order
// of their records. whole is false where there may be more that were not read
// or kept.
func (t *tracker) end(producer int64, committed bool) (counted []commit, whole bool) {
	x := t.open[producer]
	delete(t.open, producer)
	_, seen := t.whole[producer]
	if t.blind && len(t.whole) < wholeMost {
		t.whole[producer] = struct{}{}
	}
	if x == nil {
		return nil, !committed || !t.blind || seen
	}
	t.held -= transactionBytes
	for _, c := range x.commits {
		t.held -= c.bytes()
		if committed {
			counted = append(counted, c)
		}
	}
	slices.SortFunc(counted, func(a, b commit) int { return cmp.Compare(a.at, b.at) })
	for _, c := range counted {
		t.count(c)
	}
	return counted, !committed || !x.part && !x.full
}

// drop is end where nobody knows how the transaction ended, as the log cleaner
// leaves markers. It reports whether commits were held.
func (t *tracker) drop(producer int64) bool {
	x := t.open[producer]
	t.end(producer, false)
	return x != nil && (len(x.commits) > 0 || x.part || x.full)
}
