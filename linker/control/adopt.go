package control

import (
	"context"
	"fmt"
	"time"

	"klink/fetcher/feed"
)

// AdoptRecord says that a target topic counts as written by this mirror though
// what the records or the tails of its logs say is another thing.
type AdoptRecord struct {
	Link string
	// Topic is the source topic, SourceID the incarnation that it was compared
	// with.
	Topic    string
	SourceID feed.TopicID
	// Ends holds, per partition, the target's log end (exclusive) up to which that
	// holds.
	Ends map[int32]int64
	// By is who adopted it, as user@host.
	By string
	At time.Time
}

type adoptValue struct {
	Version  int             `json:"version"`
	SourceID string          `json:"source_id"`
	Ends     map[int32]int64 `json:"ends"`
	At       time.Time       `json:"at"`
	By       string          `json:"by,omitempty"`
}

func encodeAdopt(r AdoptRecord) (Key, any) {
	return Key{Kind: KindAdopt, Link: r.Link, Topic: r.Topic},
		adoptValue{Version: versions[KindAdopt], SourceID: encodeID(r.SourceID), Ends: r.Ends, At: r.At.UTC(), By: r.By}
}

func (v adoptValue) record(k Key) (AdoptRecord, error) {
	r := AdoptRecord{Link: k.Link, Topic: k.Topic, Ends: v.Ends, By: v.By, At: v.At}
	for p, end := range v.Ends {
		if p < 0 || end < 0 {
			return r, fmt.Errorf("partition %d is adopted up to %d", p, end)
		}
	}
	var err error
	r.SourceID, err = decodeID(v.SourceID)
	return r, err
}

// Adopt returns the newest adoption of a source topic, of whatever incarnation.
// Ends is not to be changed.
func (v *View) Adopt(link, sourceTopic string) (AdoptRecord, bool) {
	r, ok := v.adopts[topicKey{link, sourceTopic}]
	return r, ok
}

// PutAdopt writes an adoption as a whole.
func (s *Store) PutAdopt(ctx context.Context, r AdoptRecord) error {
	k, v := encodeAdopt(r)
	return s.put(ctx, k, v)
}

// Adopt returns the newest adoption of a source topic; see View.Adopt.
func (s *Store) Adopt(link, sourceTopic string) (AdoptRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Adopt(link, sourceTopic)
}
