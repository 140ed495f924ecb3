package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Acked is what a worker says of one partition that it ended.
type Acked struct {
	Partition int32 `json:"partition"`
	// End is the target's log end (exclusive) then.
	End int64 `json:"end"`
	// Wrote: this worker appended there since it took the partition over, and
	// nobody else did. Only then does its word count against a fence.
	Wrote bool `json:"wrote,omitempty"`
}

// AckRecord is one worker's word that it obeys a command: it writes no more to
// these partitions, and nothing of it is under way.
type AckRecord struct {
	Link string
	// Topic is the source topic. Empty is about group offsets: this worker wrote
	// the last ones, and writes no more for the topics of the command.
	Topic string
	// Worker is unique to one run of one process, as WorkerRecord.Worker is.
	Worker string
	// Number is the command that is obeyed: Intent.Cause's.
	Number     int32
	Partitions []Acked
	At         time.Time
}

type ackValue struct {
	Version    int       `json:"version"`
	Partitions []Acked   `json:"partitions,omitempty"`
	At         time.Time `json:"at"`
}

// ackKey is what an acknowledgement is known by beside link and topic. The
// number is part of it, so that taking an old one off the record cannot hit one
// that its worker writes at the same time.
type ackKey struct {
	worker string
	number int32
}

func (k ackKey) key(tk topicKey) Key {
	return Key{Kind: KindAck, Link: tk.link, Topic: tk.topic, Worker: k.worker, Number: k.number}
}

func encodeAck(r AckRecord) (Key, any) {
	return ackKey{r.Worker, r.Number}.key(topicKey{r.Link, r.Topic}),
		ackValue{Version: versions[KindAck], Partitions: r.Partitions, At: r.At.UTC()}
}

func (v ackValue) record(k Key) (AckRecord, error) {
	r := AckRecord{Link: k.Link, Topic: k.Topic, Worker: k.Worker, Number: k.Number, Partitions: v.Partitions, At: v.At}
	if r.Worker == "" || r.Number < 1 {
		return r, fmt.Errorf("acknowledgement of command %d by worker %q", r.Number, r.Worker)
	}
	return r, nil
}

func (v *View) acked(r AckRecord) {
	tk := topicKey{r.Link, r.Topic}
	if v.acks[tk] == nil {
		v.acks[tk] = make(map[ackKey]AckRecord)
	}
	v.acks[tk][ackKey{r.Worker, r.Number}] = r
}

// Acks returns each worker's newest acknowledgement for a source topic, sorted by
// worker; for group offsets, where the topic is "", each worker's for every
// command, since they are about different topics. They may be about commands that
// were superseded: compare the Number.
func (v *View) Acks(link, sourceTopic string) []AckRecord {
	all := v.acks[topicKey{link, sourceTopic}]
	out := make([]AckRecord, 0, len(all))
	for _, r := range all {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b AckRecord) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(b.Number, a.Number))
	})
	if sourceTopic == "" {
		return out
	}
	return slices.CompactFunc(out, func(a, b AckRecord) bool { return a.Worker == b.Worker })
}

// olderAcks lists the acknowledgements of earlier commands that tell nothing any
// more, by whatever worker: those for the same topic; of those for group offsets
// the ones of commands that no topic obeys any more.
func (v *View) olderAcks(r AckRecord) []Key {
	tk := topicKey{r.Link, r.Topic}
	var obeyed []int32
	if r.Topic == "" {
		obeyed = v.Intents(r.Link).Obeyed()
	}
	var out []Key
	for k := range v.acks[tk] {
		if k.number < r.Number && !slices.Contains(obeyed, k.number) {
			out = append(out, k.key(tk))
		}
	}
	return out
}

// PutAck writes a worker's acknowledgement; see PutAcks.
func (s *Store) PutAck(ctx context.Context, r AckRecord) error {
	return s.PutAcks(ctx, []AckRecord{r})
}

// PutAcks writes a worker's acknowledgements for several topics at once, and
// takes those off the record that are superseded by them.
func (s *Store) PutAcks(ctx context.Context, rs []AckRecord) error {
	var b batch
	for _, r := range rs {
		b.add(encodeAck(r))
	}
	if err := s.putAll(ctx, b); err != nil {
		return err
	}
	var old []Key
	s.mu.Lock()
	for _, r := range rs {
		old = append(old, s.view.olderAcks(r)...)
	}
	s.mu.Unlock()
	return s.discard(ctx, old...)
}

// Acks returns the acknowledgements for a source topic; see View.Acks.
func (s *Store) Acks(link, sourceTopic string) []AckRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Acks(link, sourceTopic)
}
