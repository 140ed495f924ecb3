package linker

import (
	"context"
	"sync"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// memAudits are the audits on record in memory.
type memAudits struct {
	auditMu sync.Mutex // guards all below
	audits  map[feed.Partition]control.AuditRecord
	written int
	refused error
}

func (m *memAudits) Audit(_, topic string, partition int32) (control.AuditRecord, bool) {
	m.auditMu.Lock()
	defer m.auditMu.Unlock()
	r, ok := m.audits[feed.Partition{Topic: topic, Partition: partition}]
	return r, ok
}

func (m *memAudits) Audits(string) (all []control.AuditRecord) {
	m.auditMu.Lock()
	defer m.auditMu.Unlock()
	for _, r := range m.audits {
		all = append(all, r)
	}
	return all
}

func (m *memAudits) PutAudit(_ context.Context, r control.AuditRecord) error {
	m.auditMu.Lock()
	defer m.auditMu.Unlock()
	if m.written++; m.refused != nil {
		return m.refused
	}
	if m.audits == nil {
		m.audits = make(map[feed.Partition]control.AuditRecord)
	}
	m.audits[feed.Partition{Topic: r.Topic, Partition: r.Partition}] = r
	return nil
}

// puts is how often an audit was to be written.
func (m *memAudits) auditPuts() int {
	m.auditMu.Lock()
	defer m.auditMu.Unlock()
	return m.written
}

// memAudit is an Audit that finds what a test tells it to.
type memAudit struct {
	mu    sync.Mutex // guards all below
	asked []AuditRequest
	// find tells what is found; nil is nothing.
	find func(ctx context.Context, r AuditRequest) (state.AuditPass, error)
}

func (m *memAudit) Audit(ctx context.Context, r AuditRequest) (state.AuditPass, error) {
	m.mu.Lock()
	m.asked = append(m.asked, r)
	find := m.find
	m.mu.Unlock()
	if find == nil {
		return found(r), nil
	}
	return find(ctx, r)
}

func (m *memAudit) finds(f func(ctx context.Context, r AuditRequest) (state.AuditPass, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.find = f
}

// requests are those of until now.
func (m *memAudit) requests() []AuditRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]AuditRequest(nil), m.asked...)
}
