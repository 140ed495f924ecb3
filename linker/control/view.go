package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/intent"
)

// View is what the records of the control topic say, taken together. It is a
// pure fold over the log: no I/O, no clock. It is not safe for concurrent use.
type View struct {
	links      map[string]LinkRecord
	linkStates map[string]LinkStateRecord
	workers    map[string]WorkerRecord
	topics     map[topicKey]claim
	epochs     map[lineKey]map[int32]int64
	states     map[topicKey]map[int]stateValue
	// joined are the states put together, as far as somebody asked since they changed.
	joined map[topicKey]StateRecord
	// claims lists, per target topic, who named it.
	claims map[string]map[topicKey]struct{}
	// counters holds, per partition, the blocks that are on record still.
	counters map[lineKey]map[blockKey]block
	pads     map[lineKey]PadRecord
	ledgers  map[lineKey]LedgerRecord
	// orders holds, per link, its commands.
	orders map[string]*orders
	acks   map[topicKey]map[ackKey]AckRecord
	cuts   map[cutKey]map[int]cutPart
	groups map[groupKey]map[int]groupPart
	adopts map[topicKey]AdoptRecord
	audits map[lineKey]AuditRecord
	// sights holds, per link, what its workers last saw.
	sights map[string]map[sightKey]SightRecord
	// applied holds, per key, the record that its value came from.
	applied map[string]applied
	// changes counts the records that were folded in.
	changes int64

	lastAt   time.Time
	problems Problems
}

// applied is the last record of a key.
type applied struct {
	offset int64
	// live is false for a deletion.
	live bool
}

type topicKey struct{ link, topic string }

// lineKey is one partition of one incarnation of a source topic.
type lineKey struct {
	topicKey
	id        feed.TopicID
	partition int32
}

type claim struct {
	TopicRecord
	since int64
}

// Problems counts what could not be read.
type Problems struct {
	// Malformed is the number of records that were ignored for their form.
	Malformed int64
	// LastOffset and LastErr are of the newest of them.
	LastOffset int64
	LastErr    error
}

func newView() *View {
	return &View{links: make(map[string]LinkRecord), linkStates: make(map[string]LinkStateRecord),
		topics: make(map[topicKey]claim), epochs: make(map[lineKey]map[int32]int64),
		states: make(map[topicKey]map[int]stateValue), joined: make(map[topicKey]StateRecord), claims: make(map[string]map[topicKey]struct{}),
		workers: make(map[string]WorkerRecord), applied: make(map[string]applied),
		counters: make(map[lineKey]map[blockKey]block), pads: make(map[lineKey]PadRecord),
		ledgers: make(map[lineKey]LedgerRecord), orders: make(map[string]*orders),
		acks: make(map[topicKey]map[ackKey]AckRecord), cuts: make(map[cutKey]map[int]cutPart),
		groups: make(map[groupKey]map[int]groupPart), adopts: make(map[topicKey]AdoptRecord),
		audits: make(map[lineKey]AuditRecord), sights: make(map[string]map[sightKey]SightRecord)}
}

// apply folds one record in. It may be called out of log order for different
// keys; of one key only the record with the highest offset counts. The error
// wraps ErrNewer; nothing else is one (C4).
func (v *View) apply(offset int64, at time.Time, key, value []byte) error {
	if last, ok := v.applied[string(key)]; ok && offset <= last.offset {
		return nil
	}
	err := v.fold(offset, key, value)
	if errors.Is(err, ErrNewer) {
		return err
	}
	if err != nil {
		v.problems.Malformed++
		v.problems.LastOffset, v.problems.LastErr = offset, err
		return nil
	}
	v.applied[string(key)] = applied{offset: offset, live: value != nil}
	v.changes++
	if at.After(v.lastAt) {
		v.lastAt = at
	}
	return nil
}

// take folds in what a fetch brought.
func (v *View) take(records []*kgo.Record) error {
	for _, r := range records {
		if err := v.apply(r.Offset, r.Timestamp, r.Key, r.Value); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) fold(offset int64, key, value []byte) error {
	k, err := decodeKey(key)
	if err != nil {
		return err
	}
	var val any
	if value != nil {
		// Before the form of the key: a newer klink may have changed it.
		if val, err = decodeValue(k, value); err != nil {
			return err
		}
	}
	if !known(k.Kind) {
		return nil
	}
	if !k.isCanonical(key) {
		return fmt.Errorf("key %q is not in the form that klink writes", key)
	}
	if value == nil {
		v.remove(k)
		return nil
	}
	return v.set(k, val, offset)
}

func (v *View) set(k Key, val any, offset int64) error {
	tk := topicKey{k.Link, k.Topic}
	switch r := val.(type) {
	case LinkRecord:
		v.links[k.Link] = r
	case LinkStateRecord:
		v.linkStates[k.Link] = r
	case topicValue:
		rec, err := r.record(k)
		if err != nil {
			return err
		}
		v.claim(tk, rec, r.Since, offset)
	case WorkerRecord:
		before := v.workers[k.Link]
		if r.Replaced = before.Worker; before.Worker == r.Worker {
			r.Replaced = before.Replaced
		}
		v.workers[k.Link] = r
	case EpochRecord:
		ek := lineKey{tk, r.SourceID, r.Partition}
		if v.epochs[ek] == nil {
			v.epochs[ek] = make(map[int32]int64)
		}
		v.epochs[ek][r.Epoch.Epoch] = r.First
	case stateValue:
		if v.states[tk] == nil {
			v.states[tk] = make(map[int]stateValue)
		}
		v.states[tk][k.Part] = r
		delete(v.joined, tk)
	case block:
		r.offset = offset
		v.reserve(r)
	case PadRecord:
		v.pads[r.line()] = r
	case LedgerRecord:
		v.ledgers[r.line()] = r
	case AuditRecord:
		v.audits[r.line()] = r
	case SightRecord:
		v.saw(r)
	default:
		v.setWanted(k, val, offset)
	}
	return nil
}

// setWanted folds in what operators want, and what came of it.
func (v *View) setWanted(k Key, val any, offset int64) {
	switch r := val.(type) {
	case intent.Command:
		v.ordersOf(k.Link).give(order{r, offset}, k.Part)
	case AckRecord:
		v.acked(r)
	case cutPart:
		v.cut(k, r)
	case groupPart:
		r.offset = offset
		v.grouped(k, r)
	case AdoptRecord:
		v.adopts[topicKey{k.Link, k.Topic}] = r
	}
}

// claim keeps the oldest writing of the same tie (C3): a writer that lost the
// answer to its first record and repeats it does not fall behind others.
func (v *View) claim(tk topicKey, r TopicRecord, since *int64, offset int64) {
	c := claim{TopicRecord: r, since: offset}
	if since != nil {
		c.since = min(*since, offset)
	}
	if old, ok := v.topics[tk]; ok {
		if old.TargetTopic == r.TargetTopic {
			c.since = min(c.since, old.since)
		} else {
			delete(v.claims[old.TargetTopic], tk)
		}
	}
	v.topics[tk] = c
	if v.claims[r.TargetTopic] == nil {
		v.claims[r.TargetTopic] = make(map[topicKey]struct{})
	}
	v.claims[r.TargetTopic][tk] = struct{}{}
}

func (v *View) remove(k Key) {
	tk := topicKey{k.Link, k.Topic}
	switch k.Kind {
	case KindLink:
		delete(v.links, k.Link)
	case KindLinkState:
		delete(v.linkStates, k.Link)
	case KindWorker:
		delete(v.workers, k.Link)
	case KindTopic:
		if c, ok := v.topics[tk]; ok {
			delete(v.claims[c.TargetTopic], tk)
			delete(v.topics, tk)
		}
	case KindEpoch:
		if id, err := decodeID(k.SourceID); err == nil {
			delete(v.epochs[lineKey{tk, id, k.Partition}], k.Epoch)
		}
	case KindState:
		delete(v.joined, tk)
		if delete(v.states[tk], k.Part); len(v.states[tk]) == 0 {
			delete(v.states, tk) // else the link would count as known
		}
	case KindCounters, KindPad, KindLedger, KindAudit:
		v.removeLine(k)
	case KindSight:
		delete(v.sights[k.Link], sightKey{k.Worker, k.Part})
	default:
		v.removeWanted(k)
	}
}

func (v *View) removeWanted(k Key) {
	tk := topicKey{k.Link, k.Topic}
	switch k.Kind {
	case KindCommand:
		v.ordersOf(k.Link).take(k)
	case KindAck:
		delete(v.acks[tk], ackKey{k.Worker, k.Number})
	case KindCut:
		delete(v.cuts[cutKey{tk, k.Switch}], k.Part)
	case KindGroup:
		v.ungroup(k)
	case KindAdopt:
		delete(v.adopts, tk)
	}
}

// removeLine removes what belongs to one partition of one incarnation.
func (v *View) removeLine(k Key) {
	id, err := decodeID(k.SourceID)
	if err != nil {
		return
	}
	line := lineKey{topicKey{k.Link, k.Topic}, id, k.Partition}
	switch k.Kind {
	case KindCounters:
		delete(v.counters[line], blockKey{k.Worker, k.First})
	case KindPad:
		delete(v.pads, line)
	case KindLedger:
		delete(v.ledgers, line)
	case KindAudit:
		delete(v.audits, line)
	}
}

// Link returns a link as last applied.
func (v *View) Link(name string) (LinkRecord, bool) {
	r, ok := v.links[name]
	return r, ok
}

// Worker returns the process of a link that started last and did not end by
// itself.
func (v *View) Worker(link string) (WorkerRecord, bool) {
	r, ok := v.workers[link]
	return r, ok
}

// LinkState returns the last reported state of a link.
func (v *View) LinkState(name string) (LinkStateRecord, bool) {
	r, ok := v.linkStates[name]
	return r, ok
}

// Topic returns what is on record of a source topic.
func (v *View) Topic(link, sourceTopic string) (TopicRecord, bool) {
	c, ok := v.topics[topicKey{link, sourceTopic}]
	return c.TopicRecord, ok
}

// Topics returns all topics of a link, sorted by source name.
func (v *View) Topics(link string) []TopicRecord {
	var out []TopicRecord
	for tk, c := range v.topics {
		if tk.link == link {
			out = append(out, c.TopicRecord)
		}
	}
	slices.SortFunc(out, func(a, b TopicRecord) int { return cmp.Compare(a.SourceTopic, b.SourceTopic) })
	return out
}

// Owned is ErrOwned where another mirror has the target topic of a record, so that
// PutTopic would refuse it.
func (v *View) Owned(r TopicRecord) error {
	if owner, ok := v.TopicOwner(r.TargetTopic); ok && !owner.sameMirror(r) {
		return owner.owns(r.TargetTopic)
	}
	return nil
}

// TopicOwner returns the record that owns a target topic: of several that name
// it, the first written (C3).
func (v *View) TopicOwner(targetTopic string) (TopicRecord, bool) {
	var owner claim
	found := false
	for tk := range v.claims[targetTopic] {
		if c := v.topics[tk]; !found || c.since < owner.since {
			owner, found = c, true
		}
	}
	return owner.TopicRecord, found
}

// lineOf is the key of what belongs to a partition of the source topic that Topic
// names, with the target topic's id there; not ok without a topic record.
func (v *View) lineOf(link, sourceTopic string, partition int32) (k lineKey, target feed.TopicID, ok bool) {
	tk := topicKey{link, sourceTopic}
	c, ok := v.topics[tk]
	return lineKey{tk, c.SourceID, partition}, c.TargetID, ok
}

// Epochs returns the lineage of a source partition, sorted by epoch, for the
// incarnation of the source topic that Topic names; none without a topic record.
func (v *View) Epochs(link, sourceTopic string, partition int32) []Epoch {
	k, _, ok := v.lineOf(link, sourceTopic, partition)
	if !ok {
		return nil
	}
	m := v.epochs[k]
	out := make([]Epoch, 0, len(m))
	for e, first := range m {
		out = append(out, Epoch{Epoch: e, First: first})
	}
	slices.SortFunc(out, func(a, b Epoch) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out
}

// States returns the last reported states of a link's topics, sorted by source
// name. A partition is as of when its source was last seen: when it was recorded, or
// later where a sight covers it.
func (v *View) States(link string) []StateRecord {
	out := v.Recorded(link)
	words := v.Sights(link)
	for i, r := range out {
		out[i] = sighted(r, v.topics[topicKey{link, r.Topic.SourceTopic}].SourceID, words)
	}
	return out
}

// Recorded returns the states as they were recorded, sorted by source name; a
// partition is as of when it was recorded. The partitions are shared with later
// answers and must not be changed.
func (v *View) Recorded(link string) []StateRecord {
	var out []StateRecord
	for tk, parts := range v.states {
		if tk.link != link {
			continue
		}
		r, ok := v.joined[tk]
		if !ok {
			if r, ok = joinState(tk.link, tk.topic, parts); !ok {
				continue
			}
			v.joined[tk] = r
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b StateRecord) int { return cmp.Compare(a.Topic.SourceTopic, b.Topic.SourceTopic) })
	return out
}

// LastRecordAt is the time of the newest record: how fresh all the rest can be
// at most. Zero where there is none.
func (v *View) LastRecordAt() time.Time { return v.lastAt }

// Problems tells of records that could not be read.
func (v *View) Problems() Problems { return v.problems }

func (v *View) epoch(r EpochRecord) (int64, bool) {
	first, ok := v.epochs[lineKey{topicKey{r.Link, r.Topic}, r.SourceID, r.Partition}][r.Epoch.Epoch]
	return first, ok
}
