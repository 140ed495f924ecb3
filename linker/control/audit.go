package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// AuditRecord is what comparing one partition with its source last showed.
type AuditRecord struct {
	Link string
	// Topic is the source topic, SourceID the incarnation that was compared, with
	// that of the target.
	Topic     string
	SourceID  feed.TopicID
	Partition int32
	TargetID  feed.TopicID
	// Audit's error and age are not on record.
	state.Audit
}

// auditValue leaves out the clean pass where the last one is it.
type auditValue struct {
	Version  int        `json:"version"`
	TargetID string     `json:"target_id"`
	Last     *passValue `json:"last,omitempty"`
	Clean    *passValue `json:"clean,omitempty"`
}

type passValue struct {
	Began    time.Time      `json:"began"`
	Ended    time.Time      `json:"ended"`
	From     int64          `json:"from"`
	To       int64          `json:"to"`
	Records  int64          `json:"records"`
	Digest   *string        `json:"digest,omitempty"`
	Findings int64          `json:"findings,omitempty"`
	First    []findingValue `json:"first,omitempty"`
}

type findingValue struct {
	Kind   string `json:"kind"`
	Offset int64  `json:"offset"`
	Detail string `json:"detail,omitempty"`
}

func (r AuditRecord) line() lineKey {
	return lineKey{topicKey{r.Link, r.Topic}, r.SourceID, r.Partition}
}

func encodeAudit(r AuditRecord) (Key, any) {
	v := auditValue{Version: versions[KindAudit], TargetID: encodeID(r.TargetID), Last: encodePass(r.Last), Clean: encodePass(r.Clean)}
	if r.Last != nil && r.Last.Findings == 0 {
		v.Clean = nil
	}
	return Key{Kind: KindAudit, Link: r.Link, Topic: r.Topic, SourceID: encodeID(r.SourceID), Partition: r.Partition}, v
}

func encodePass(p *state.AuditPass) *passValue {
	if p == nil {
		return nil
	}
	v := &passValue{Began: p.Began.UTC(), Ended: p.Ended.UTC(), From: p.From, To: p.To, Records: p.Records, Digest: p.Digest, Findings: p.Findings}
	for _, f := range p.First {
		v.First = append(v.First, findingValue(f))
	}
	return v
}

// Take folds a comparison in.
func (r *AuditRecord) Take(pass state.AuditPass) {
	r.Last, r.Error = &pass, ""
	if pass.Findings == 0 {
		r.Clean = &pass
	}
}

// Newer tells whether r is of the same topics as o, and of a later comparison.
func (r AuditRecord) Newer(o AuditRecord) bool {
	return r.Last != nil && r.SourceID == o.SourceID && r.TargetID == o.TargetID && (o.Last == nil || r.Last.Ended.After(o.Last.Ended))
}

func (v auditValue) record(k Key) (AuditRecord, error) {
	r := AuditRecord{Link: k.Link, Topic: k.Topic, Partition: k.Partition}
	var errs [4]error
	r.SourceID, errs[0] = decodeID(k.SourceID)
	r.TargetID, errs[1] = decodeID(v.TargetID)
	r.Last, errs[2] = v.Last.pass()
	r.Clean, errs[3] = v.Clean.pass()
	if r.Last != nil && r.Last.Findings == 0 {
		r.Clean = r.Last
	}
	return r, cmp.Or(errs[:]...)
}

func (v *passValue) pass() (*state.AuditPass, error) {
	if v == nil {
		return nil, nil
	}
	if v.From < 0 || v.To < v.From || v.Findings < 0 {
		return nil, fmt.Errorf("audit from %d to %d with %d findings", v.From, v.To, v.Findings)
	}
	p := &state.AuditPass{Began: v.Began, Ended: v.Ended, From: v.From, To: v.To, Records: v.Records, Digest: v.Digest, Findings: v.Findings, First: []state.AuditFinding{}}
	for _, f := range v.First {
		p.First = append(p.First, state.AuditFinding(f))
	}
	return p, nil
}

// Audit returns what comparing a partition last showed, for the source and target
// topics that Topic names.
func (v *View) Audit(link, sourceTopic string, partition int32) (AuditRecord, bool) {
	k, target, ok := v.lineOf(link, sourceTopic, partition)
	r, found := v.audits[k]
	return r, ok && found && r.TargetID == target
}

// Audits returns what comparing the partitions of a link last showed, sorted by
// source topic and partition; see Audit.
func (v *View) Audits(link string) []AuditRecord {
	var out []AuditRecord
	for k, r := range v.audits {
		if c, ok := v.topics[k.topicKey]; k.link == link && ok && k.id == c.SourceID && r.TargetID == c.TargetID {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b AuditRecord) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// ShowAudits adds what audits showed to the partitions of topics, with their ages
// as of a time.
func ShowAudits(topics []state.Topic, all []AuditRecord, asOf time.Time) {
	type place struct {
		topic     string
		partition int32
	}
	by := make(map[place]state.Audit, len(all))
	for _, r := range all {
		by[place{r.Topic, r.Partition}] = r.Audit
	}
	for i := range topics {
		for j := range topics[i].Partitions {
			p := &topics[i].Partitions[j]
			if a, ok := by[place{topics[i].SourceTopic, p.Partition}]; ok {
				p.SetAudit(a, asOf)
			}
		}
	}
}

// PutAudit writes what comparing a partition showed.
func (s *Store) PutAudit(ctx context.Context, r AuditRecord) error {
	k, v := encodeAudit(r)
	return s.put(ctx, k, v)
}

// Audit returns what comparing a partition last showed; see View.Audit.
func (s *Store) Audit(link, sourceTopic string, partition int32) (AuditRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Audit(link, sourceTopic, partition)
}

// Audits returns what comparing a link's partitions last showed; see View.Audits.
func (s *Store) Audits(link string) []AuditRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Audits(link)
}
