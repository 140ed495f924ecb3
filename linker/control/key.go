package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// TopicName is the control topic's name.
const TopicName = "__klink"

// Kind names what a record is about.
type Kind string

// The kinds of records of version 1.
const (
	KindLink      Kind = "link"
	KindLinkState Kind = "link-state"
	KindTopic     Kind = "topic"
	KindEpoch     Kind = "epoch"
	KindState     Kind = "state"
	KindWorker    Kind = "worker"
	KindCounters  Kind = "counters"
	KindPad       Kind = "pad"
	KindLedger    Kind = "ledger"
	KindCommand   Kind = "command"
	KindAck       Kind = "ack"
	KindCut       Kind = "cut"
	KindGroup     Kind = "group"
	KindAdopt     Kind = "adopt"
	KindAudit     Kind = "audit"
	KindSight     Kind = "sight"
)

// Key is a record's key: which fields are used depends on the kind. Its JSON
// form is stable to the byte, since compaction compares bytes.
type Key struct {
	Kind Kind   `json:"kind"`
	Link string `json:"link"`
	// Topic is the source topic's name.
	Topic string `json:"topic,omitempty"`
	// SourceID is the source topic's id in hexadecimal, for what belongs to one
	// incarnation of a topic: lineage, counters, pad goals, ledger.
	SourceID  string `json:"source_id,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	Epoch     int32  `json:"epoch,omitempty"`
	// Part numbers the pieces of what is too large for one record, and the times
	// that one command was written (C7).
	Part int `json:"part,omitempty"`
	// First and Worker name a block of counters (C6). Worker is also who
	// acknowledges, and whose sight it is.
	First  int32  `json:"first,omitempty"`
	Worker string `json:"worker,omitempty"`
	// Number and ID name a command; Number is also the one that an
	// acknowledgement is about.
	Number int32  `json:"number,omitempty"`
	ID     string `json:"id,omitempty"`
	// Switch is the promotion or failover that a cut belongs to.
	Switch string `json:"switch,omitempty"`
	// Group is a consumer group.
	Group string `json:"group,omitempty"`
}

// String returns the key as stored, for messages.
func (k Key) String() string {
	b, err := k.encode()
	if err != nil {
		return fmt.Sprintf("%s of link %q, topic %q", k.Kind, k.Link, k.Topic)
	}
	return string(b)
}

// encode refuses names that are not UTF-8: JSON would replace the bad bytes,
// and two names could become one key.
func (k Key) encode() ([]byte, error) {
	for _, s := range []string{k.Link, k.Topic, k.Worker, k.ID, k.Switch, k.Group} {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("name %q is not valid UTF-8", s)
		}
	}
	return json.Marshal(k)
}

// decodeKey reads a stored key. Fields it does not know are ignored here;
// isCanonical tells of them.
func decodeKey(b []byte) (Key, error) {
	var k Key
	if err := json.Unmarshal(b, &k); err != nil {
		return Key{}, fmt.Errorf("decode key: %w", err)
	}
	if k.Kind == "" {
		return Key{}, errors.New("decode key: no kind")
	}
	return k, nil
}

// isCanonical reports whether b is what encode would write for k. A key in any
// other form would live in the log beside ours, neither superseding the other.
func (k Key) isCanonical(b []byte) bool {
	again, err := k.encode()
	return err == nil && bytes.Equal(again, b)
}
