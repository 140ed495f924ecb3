package state

import (
	"slices"
	"time"
)

// Differs is the flag of a partition in which the last audit found differences.
const Differs = "DIFFERS"

// Audit is what comparing a partition with its source showed: by the audit while it
// is mirrored, or by a klink compare that recorded it.
type Audit struct {
	// Last is the last comparison that came to its end, Clean the last one that
	// found no difference; null where there was none.
	Last  *AuditPass `json:"last"`
	Clean *AuditPass `json:"clean"`
	// CleanAgeSeconds is since Clean began: all of it was read after that.
	CleanAgeSeconds *float64 `json:"clean_age_seconds"`
	// Error is why the newest comparison came to no end, "" where it did.
	Error string `json:"error"`
}

// AuditPass is one comparison of a partition.
type AuditPass struct {
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// From and To bound the offsets that were compared; To is exclusive.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Records are the offsets at which both sides have a record.
	Records int64 `json:"records_compared"`
	// Digest is that of the source's visible records of the range; null where none was
	// computed.
	Digest *string `json:"digest"`
	// Findings counts the records that differ, and 1 for a start or an end that does;
	// First are the first ones of each kind.
	Findings int64          `json:"findings"`
	First    []AuditFinding `json:"first"`
}

// AuditFinding is one difference, in the words of klink compare. It holds nothing
// of what the records say.
type AuditFinding struct {
	Kind   string `json:"kind"`
	Offset int64  `json:"offset"`
	Detail string `json:"detail"`
}

// SetAudit shows what an audit found, as of a time: its ages, and the flag.
func (p *Partition) SetAudit(a Audit, asOf time.Time) {
	a.CleanAgeSeconds = nil
	if a.Clean != nil {
		age := max(0, asOf.Sub(a.Clean.Began)).Seconds()
		a.CleanAgeSeconds = &age
	}
	p.Audit = &a
	p.Flags = slices.DeleteFunc(slices.Clone(p.Flags), func(f string) bool { return f == Differs })
	if a.Last != nil && a.Last.Findings > 0 {
		p.Flags = append(p.Flags, Differs)
	}
	if p.Flags == nil {
		p.Flags = []string{}
	}
}
