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
	pass := state.AuditPass{Began: time.Now().UTC(), First: []state.AuditFinding{}}
	p, err := a.auditor.Audit(ctx, comparator.AuditRequest{Topic: comparator.Topic{Source: r.Src.Topic, Target: r.Dst.Topic}, Partition: r.Src.Partition,
		SourceID: r.SrcID, TargetID: r.DstID, End: r.End})
	if err != nil {
		return pass, err
	}
	pass.Ended, pass.From, pass.To, pass.Records = time.Now().UTC(), p.From, p.To, p.RecordsCompared
	for _, n := range p.Counts {
		pass.Findings += n
	}
	for _, f := range p.Findings {
		pass.First = append(pass.First, state.AuditFinding{Kind: string(f.Kind), Offset: f.Offset, Detail: f.Detail})
	}
	return pass, nil
}
