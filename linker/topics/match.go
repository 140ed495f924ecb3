package topics

import (
	"fmt"
	"slices"
	"strings"
)

const internalPrefix = "__"

// brokersOwn are the topics that clusters keep for themselves. Their content
// means nothing in another cluster, and their offsets are used by brokers.
var brokersOwn = []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}

// controlPrefix begins the names of klink's own topics.
const controlPrefix = "__klink"

// Rules say which topics a link mirrors and how they are called on the target.
type Rules struct {
	Include, Exclude []string
	// Rename is for mirror mode.
	Rename Rename
	// Policy is that of checkpoint mode, and then names the topics in place of
	// Rename; nil in mirror mode.
	Policy Policy
}

// RuleError names the rule that cannot be used.
type RuleError struct {
	// Field is the place as in the configuration, e.g. "include[2]".
	Field string
	Value string
	Err   error
}

// Error says which rule, and why.
func (e *RuleError) Error() string { return fmt.Sprintf("%s: %q %v", e.Field, e.Value, e.Err) }

// Unwrap returns the underlying error.
func (e *RuleError) Unwrap() error { return e.Err }

// Skip is why a name is not mirrored.
type Skip string

// The reasons for not mirroring a topic.
const (
	NotIncluded   Skip = "no pattern of topics.include selects it"
	Excluded      Skip = "topics.exclude selects it"
	LooksInternal Skip = "its name looks internal; include it by its exact name, or by a pattern that begins with __ or ends in internal as the name does"
	BrokersOwn    Skip = "it is the brokers' own topic"
	KlinksOwn     Skip = "it is klink's own topic"
)

// Matcher applies Rules to names. It is immutable.
type Matcher struct {
	include, exclude []Pattern
	rename           Rename
	policy           Policy
}

// NewMatcher reads the rules; the error is a *RuleError.
func NewMatcher(r Rules) (*Matcher, error) {
	include, err := parsePatterns("include", r.Include)
	if err != nil {
		return nil, err
	}
	exclude, err := parsePatterns("exclude", r.Exclude)
	if err != nil {
		return nil, err
	}
	if err := r.Rename.validate(); err != nil {
		return nil, err
	}
	return &Matcher{include: include, exclude: exclude, rename: r.Rename, policy: r.Policy}, nil
}

func parsePatterns(field string, texts []string) ([]Pattern, error) {
	out := make([]Pattern, 0, len(texts))
	for i, text := range texts {
		p, err := ParsePattern(text)
		if err != nil {
			return nil, &RuleError{Field: fmt.Sprintf("%s[%d]", field, i), Value: text, Err: err}
		}
		out = append(out, p)
	}
	return out, nil
}

// Match tells whether a topic is mirrored: an empty Skip says yes. internal is
// the cluster's own mark of a topic as internal.
func (m *Matcher) Match(name string, internal bool) Skip {
	included, named := false, false
	for _, p := range m.include {
		if p.Match(name) {
			included = true
			named = named || p.namesInternal(name)
		}
	}
	switch {
	case !included:
		return NotIncluded
	case internal || slices.Contains(brokersOwn, name):
		return BrokersOwn
	case strings.HasPrefix(name, controlPrefix):
		return KlinksOwn
	case selects(m.exclude, name):
		return Excluded
	}
	if why := passOver(m.policy, name); why != "" {
		return why
	}
	if looksInternal(name) && !named {
		return LooksInternal
	}
	return ""
}

// Target returns a source topic's name on the target.
func (m *Matcher) Target(source string) string {
	if m.policy != nil {
		return m.policy.Remote(source)
	}
	return m.rename.apply(source)
}

// Names returns the topics that are included by their exact names: those can be
// asked for where they are not listed.
func (m *Matcher) Names() []string {
	var out []string
	for _, p := range m.include {
		if name, ok := p.Name(); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Unmatched returns the include patterns that select none of the names.
func (m *Matcher) Unmatched(names []string) []string {
	var out []string
	for _, p := range m.include {
		if !slices.ContainsFunc(names, p.Match) {
			out = append(out, p.String())
		}
	}
	return out
}

func selects(patterns []Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(name) })
}

func looksInternal(name string) bool {
	return strings.HasPrefix(name, internalPrefix) ||
		strings.HasSuffix(name, ".internal") || strings.HasSuffix(name, "-internal")
}
