package topics

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Pattern selects names. See the package documentation for its forms. Names are
// opaque: matching knows nothing of case or encodings.
type Pattern struct {
	text  string
	exact bool
	name  string
	glob  []string // what stands between the stars
	re    *regexp.Regexp
}

// ParsePattern reads one pattern.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New("is empty; * selects all")
	case text[0] == '=':
		if text == "=" {
			return Pattern{}, errors.New("names nothing after =")
		}
		return Pattern{text: text, exact: true, name: text[1:]}, nil
	case text[0] == '/':
		if len(text) < 3 || text[len(text)-1] != '/' {
			return Pattern{}, errors.New("a regular expression stands between two slashes; =/name for a name that begins with one")
		}
		// It is read by itself first: an error is to be about what was written.
		if _, err := regexp.Compile(text[1 : len(text)-1]); err != nil {
			return Pattern{}, fmt.Errorf("is no regular expression: %w", err)
		}
		// The whole name, and . for every character: else "/orders|x/" would
		// select "orders-old".
		re, err := regexp.Compile(`\A(?s:` + text[1:len(text)-1] + `)\z`)
		if err != nil {
			return Pattern{}, fmt.Errorf("is no regular expression: %w", err)
		}
		return Pattern{text: text, name: text[1 : len(text)-1], re: re}, nil
	case strings.Contains(text, "*"):
		return Pattern{text: text, name: text, glob: strings.Split(text, "*")}, nil
	default:
		return Pattern{text: text, exact: true, name: text}, nil
	}
}

// String returns the pattern as written.
func (p Pattern) String() string { return p.text }

// Name returns the one name that an exact pattern selects.
func (p Pattern) Name() (name string, ok bool) { return p.name, p.exact }

// Match reports whether the pattern selects name.
func (p Pattern) Match(name string) bool {
	switch {
	case p.exact:
		return p.name == name
	case p.glob != nil:
		return matchGlob(p.glob, name)
	default:
		return p.re.MatchString(name)
	}
}

// matchGlob works on bytes. Taking each middle part where it comes first leaves
// the most room for the rest.
func matchGlob(parts []string, name string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// namesInternal reports whether the pattern, when it matches the
// internal-looking name, meant it: by naming it exactly, or by bearing in its
// own text the mark that makes the name look internal.
func (p Pattern) namesInternal(name string) bool {
	if p.exact {
		return true
	}
	if strings.HasPrefix(name, internalPrefix) {
		return strings.HasPrefix(p.name, internalPrefix)
	}
	return strings.HasSuffix(p.name, "internal")
}
