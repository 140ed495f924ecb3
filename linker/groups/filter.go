package groups

import (
	"fmt"
	"slices"

	"klink/linker/topics"
)

// Filter selects groups by name. Names are opaque (C023): nothing is said of
// their case or encoding. It is immutable.
type Filter struct{ include, exclude []topics.Pattern }

// NewFilter reads patterns of the same forms as those of topics; the error is a
// *topics.RuleError.
func NewFilter(include, exclude []string) (*Filter, error) {
	f := &Filter{}
	for _, side := range []struct {
		field string
		texts []string
		into  *[]topics.Pattern
	}{{"include", include, &f.include}, {"exclude", exclude, &f.exclude}} {
		for i, text := range side.texts {
			p, err := topics.ParsePattern(text)
			if err != nil {
				return nil, &topics.RuleError{Field: fmt.Sprintf("%s[%d]", side.field, i), Value: text, Err: err}
			}
			*side.into = append(*side.into, p)
		}
	}
	return f, nil
}

// Selects tells whether a group is carried over, if it is of a kind that can be.
func (f *Filter) Selects(group string) bool {
	return matches(f.include, group) && !matches(f.exclude, group)
}

func matches(patterns []topics.Pattern, group string) bool {
	return slices.ContainsFunc(patterns, func(p topics.Pattern) bool { return p.Match(group) })
}

// Unmatched returns the include patterns that select none of the groups.
func (f *Filter) Unmatched(groups []string) (out []string) {
	for _, p := range f.include {
		if !slices.ContainsFunc(groups, p.Match) {
			out = append(out, p.String())
		}
	}
	return out
}
