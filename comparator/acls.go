package comparator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ACLResult is the access rules of a link's topics on both sides.
type ACLResult struct {
	Link string `json:"link"`
	// Equal is the number of rules that are in force on both sides.
	Equal       int64           `json:"equal"`
	Differences []ACLDifference `json:"differences"`
	// Error is why they could not be compared.
	Error string `json:"error"`
}

// ACLDifference is a rule that is in force for a topic on one side alone.
type ACLDifference struct {
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	// Kind is Missing where the source alone has it, Extra where the target has.
	Kind       Kind   `json:"kind"`
	Principal  string `json:"principal"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
	Permission string `json:"permission"`
}

// rule is what one access rule allows or denies.
type rule struct{ principal, host, operation, permission string }

func (r rule) compare(o rule) int {
	return cmp.Or(cmp.Compare(r.principal, o.principal), cmp.Compare(r.operation, o.operation), cmp.Compare(r.permission, o.permission), cmp.Compare(r.host, o.host))
}

// placed is a rule with the topics that it is about: one name, or all that begin
// with one.
type placed struct {
	rule
	name   string
	prefix bool
}

// everyTopic is the literal name that stands for all of them (KIP-290).
const everyTopic = "*"

func (p placed) applies(topic string) bool {
	return p.name == topic || p.prefix && strings.HasPrefix(topic, p.name) || !p.prefix && p.name == everyTopic
}

// contrastACLs compares the rules in force for each topic, however they are put: a
// rule for a name and one for its prefix are the same.
func contrastACLs(topics []Topic, src, dst []placed) (equal int64, out []ACLDifference) {
	for _, t := range topics {
		a, b := inForce(src, t.Source), inForce(dst, t.Target)
		add := func(kind Kind, rules, other map[rule]bool) {
			for _, r := range slices.SortedFunc(maps.Keys(rules), rule.compare) {
				if !other[r] {
					out = append(out, ACLDifference{SourceTopic: t.Source, TargetTopic: t.Target, Kind: kind, Principal: r.principal, Host: r.host, Operation: r.operation, Permission: r.permission})
				} else if kind == Missing {
					equal++
				}
			}
		}
		add(Missing, a, b)
		add(Extra, b, a)
	}
	return equal, out
}

func inForce(all []placed, topic string) map[rule]bool {
	out := make(map[rule]bool)
	for _, p := range all {
		if p.applies(topic) {
			out[p.rule] = true
		}
	}
	return out
}

// compareACLs asks both clusters for their rules about topics. Two clusters without
// an authorizer have none.
func (c *comparison) compareACLs(ctx context.Context) ACLResult {
	out := ACLResult{Link: c.opt.Link, Differences: []ACLDifference{}}
	var rules [2][]placed
	var off [2]bool
	for side, cluster := range c.sides {
		var err error
		rules[side], err = topicRules(ctx, cluster.cl)
		switch {
		case errors.Is(err, kerr.SecurityDisabled):
			off[side] = true
		case errors.Is(err, kerr.ClusterAuthorizationFailed):
			out.Error = fmt.Sprintf("%s: not authorised to see access rules: it needs Describe on the cluster", Side(side))
			return out
		case err != nil:
			out.Error = fmt.Sprintf("%s: list access rules: %v", Side(side), err)
			return out
		}
	}
	if off[Source] != off[Target] {
		side := Source
		if off[Target] {
			side = Target
		}
		out.Error = fmt.Sprintf("the %s has no authorizer, so that no rule is in force there", side)
		return out
	}
	out.Equal, out.Differences = contrastACLs(c.opt.Topics, rules[Source], rules[Target])
	if out.Differences == nil {
		out.Differences = []ACLDifference{}
	}
	return out
}

// topicRules lists the rules about topics (DescribeAcls, API 29; patterns from v1
// on, KIP-290).
func topicRules(ctx context.Context, cl *kgo.Client) (all []placed, err error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			all = append(all, placed{name: r.ResourceName, prefix: r.ResourcePatternType == kmsg.ACLResourcePatternTypePrefixed,
				rule: rule{a.Principal, a.Host, a.Operation.String(), a.PermissionType.String()}})
		}
	}
	return all, nil
}
