package state

import (
	"slices"
	"testing"
	"time"
)

// S3: an age is that of what was read, and unknown where nothing was found equal.
func TestSetAudit(t *testing.T) {
	now := time.Unix(10_000, 0)
	pass := func(began int64, findings int64) *AuditPass {
		return &AuditPass{Began: time.Unix(began, 0), Ended: time.Unix(began+5, 0), Findings: findings}
	}
	age := func(s float64) *float64 { return &s }
	for name, c := range map[string]struct {
		audit Audit
		had   []string
		age   *float64
		flags []string
	}{
		"never compared":          {Audit{Error: "no answer"}, nil, nil, []string{}},
		"clean":                   {Audit{Last: pass(9_000, 0), Clean: pass(9_000, 0)}, []string{Unguarded, Differs}, age(1_000), []string{Unguarded}},
		"never clean":             {Audit{Last: pass(9_000, 3)}, []string{Unguarded}, nil, []string{Unguarded, Differs}},
		"was clean before":        {Audit{Last: pass(9_000, 3), Clean: pass(8_000, 0)}, []string{Differs}, age(2_000), []string{Differs}},
		"of another clock, ahead": {Audit{Last: pass(11_000, 0), Clean: pass(11_000, 0)}, nil, age(0), []string{}},
	} {
		had := slices.Clone(c.had)
		p := Partition{Flags: had}
		p.SetAudit(c.audit, now)
		if !slices.Equal(p.Flags, c.flags) || p.Flags == nil || !slices.Equal(had, c.had) {
			t.Errorf("%s: flags %q of %q, want %q", name, p.Flags, had, c.flags)
		}
		if got := p.Audit.CleanAgeSeconds; (got == nil) != (c.age == nil) || got != nil && *got != *c.age {
			t.Errorf("%s: age %v, want %v", name, got, c.age)
		}
	}
}
