package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// LedgerRecord is the index of what in one partition is not a copy. The markers
// in the target's log are the truth; this is what is shown without reading it.
type LedgerRecord struct {
	Link string
	// Topic is the source topic, SourceID the incarnation it belongs to.
	Topic     string
	SourceID  feed.TopicID
	Partition int32
	// TargetID is the target topic whose offsets are listed.
	TargetID feed.TopicID
	Index    ledger.Stored
	// Synced is when the mirror last held all that the source had; zero where that
	// is not known.
	Synced ledger.Synced
	// Stale is where tombstones may have been missed, nil for nowhere.
	Stale *ledger.Stale
	// AsOf is when the index was as it is here.
	AsOf time.Time
}

type ledgerValue struct {
	Version  int       `json:"version"`
	TargetID string    `json:"target_id"`
	AsOf     time.Time `json:"as_of"`
	ledger.Stored
	Synced ledger.Synced `json:"synced,omitzero"`
	Stale  *ledger.Stale `json:"stale,omitempty"`
}

func (r LedgerRecord) line() lineKey {
	return lineKey{topicKey{r.Link, r.Topic}, r.SourceID, r.Partition}
}

func encodeLedger(r LedgerRecord) (Key, any) {
	return Key{Kind: KindLedger, Link: r.Link, Topic: r.Topic, SourceID: encodeID(r.SourceID), Partition: r.Partition},
		ledgerValue{Version: versions[KindLedger], TargetID: encodeID(r.TargetID), AsOf: r.AsOf.UTC(), Stored: r.Index, Synced: r.Synced, Stale: r.Stale}
}

func (v ledgerValue) record(k Key) (LedgerRecord, error) {
	r := LedgerRecord{Link: k.Link, Topic: k.Topic, Partition: k.Partition, Index: v.Stored, Synced: v.Synced, Stale: v.Stale, AsOf: v.AsOf}
	if _, err := ledger.Decode(v.Stored); err != nil {
		return r, err
	}
	var err error
	if r.SourceID, err = decodeID(k.SourceID); err != nil {
		return r, err
	}
	r.TargetID, err = decodeID(v.TargetID)
	return r, err
}

// Ledger returns the index of a partition, for the source and target topics that
// Topic names.
func (v *View) Ledger(link, sourceTopic string, partition int32) (LedgerRecord, bool) {
	k, target, ok := v.lineOf(link, sourceTopic, partition)
	r, found := v.ledgers[k]
	return r, ok && found && r.TargetID == target
}

// Ledgers returns the indexes of all partitions of a link that have one, sorted
// by source topic and partition; see Ledger.
func (v *View) Ledgers(link string) []LedgerRecord {
	var out []LedgerRecord
	for k, r := range v.ledgers {
		c, ok := v.topics[k.topicKey]
		if k.link == link && ok && k.id == c.SourceID && r.TargetID == c.TargetID {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b LedgerRecord) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// PutLedger writes the index of a partition, some 12 KB at most where its
// windows have one reason each. Once every few seconds is enough: what a crash
// leaves out is in the log.
func (s *Store) PutLedger(ctx context.Context, r LedgerRecord) error {
	k, v := encodeLedger(r)
	return s.put(ctx, k, v)
}

// DropLedger takes the index of a partition off the record.
func (s *Store) DropLedger(ctx context.Context, r LedgerRecord) error {
	k, _ := encodeLedger(r)
	return s.put(ctx, k, nil)
}

// Ledger returns the index of a partition; see View.Ledger.
func (s *Store) Ledger(link, sourceTopic string, partition int32) (LedgerRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Ledger(link, sourceTopic, partition)
}

// Ledgers returns the indexes of a link's partitions; see View.Ledgers.
func (s *Store) Ledgers(link string) []LedgerRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Ledgers(link)
}
