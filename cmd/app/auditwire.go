package app

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/comparator"
	"klink/linker"
	"klink/linker/state"
)

// auditMemory is what a link's audit holds of fetched data; the rest of the memory
// is the mirror's.
const auditMemory = 2 << 20

// audit has a link's partitions compared by the comparator.
type audit struct{ auditor *comparator.Auditor }

// newAudit returns nil where the link wants none.
func newAudit(l config.Link, src, dst *kgo.Client) *audit {
	if !l.Audit.Enabled {
		return nil
	}
	return &audit{comparator.NewAuditor(comparator.AuditOptions{Source: src, Target: dst, BytesPerSecond: int64(l.Audit.BytesPerSecond), MemoryBytes: auditMemory,
		FollowStart: l.FollowStart, BeginsLater: l.Start != config.StartEarliest})}
}

// port is what the link is given: nil where there is no audit.
func (a *audit) port() linker.Audit {
	if a == nil {
		return nil
	}
	return a
}

func (a *audit) close() {
	if a != nil {
		a.auditor.Close()
	}
}

// Audit implements linker.Audit.
func (a *audit) Audit(ctx context.Context, r linker.AuditRequest) (state.AuditPass, error) {
	began := time.Now().UTC()
	req := comparator.AuditRequest{Topic: comparator.Topic{Source: r.Src.Topic, Target: r.Dst.Topic}, Partition: r.Src.Partition,
		SourceID: r.SrcID, TargetID: r.DstID, End: r.End}
	if r.Copies != nil {
		req.Copies = copiedOf(r.Copies)
	}
	p, err := a.auditor.Audit(ctx, req)
	if err != nil {
		return state.AuditPass{Began: began, First: []state.AuditFinding{}}, err
	}
	pass := auditPass(p)
	pass.Began, pass.Ended = began, time.Now().UTC()
	return pass, nil
}

// auditPass is what was found of a partition as it goes on record, but for the times.
func auditPass(p comparator.PartitionResult) state.AuditPass {
	pass := state.AuditPass{From: p.From, To: p.To, Records: p.RecordsCompared, Digest: p.Digest, First: []state.AuditFinding{}}
	for _, n := range p.Counts {
		pass.Findings += n
	}
	if p.KeysDiffering != nil {
		pass.Findings += *p.KeysDiffering
	}
	for _, f := range p.Findings {
		pass.First = append(pass.First, state.AuditFinding{Kind: string(f.Kind), Offset: f.Offset, Detail: f.Detail})
	}
	return pass
}
