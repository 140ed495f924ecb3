package topics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxNameLen is the brokers' limit (Kafka's Topic class): the name with a
// partition number is a folder's name.
const maxNameLen = 249

// Rename says how a source topic is called on the target: what Map says, else
// Prefix + name + Suffix.
type Rename struct {
	Prefix, Suffix string
	Map            map[string]string
}

func (r Rename) apply(source string) string {
	if to, ok := r.Map[source]; ok {
		return to
	}
	return r.Prefix + source + r.Suffix
}

func (r Rename) validate() error {
	for field, part := range map[string]string{"rename.prefix": r.Prefix, "rename.suffix": r.Suffix} {
		if i := strings.IndexFunc(part, func(c rune) bool { return !legalRune(c) }); i >= 0 {
			return &RuleError{Field: field, Value: part, Err: fmt.Errorf("has a character that topic names cannot have: %q", part[i:])}
		}
	}
	from := make(map[string]string)
	for _, source := range slices.Sorted(maps.Keys(r.Map)) {
		to := r.Map[source]
		if err := checkTargetName(to); err != nil {
			return &RuleError{Field: "rename.map[" + source + "]", Value: to, Err: err}
		}
		if other, ok := from[to]; ok {
			return &RuleError{Field: "rename.map[" + source + "]", Value: to, Err: fmt.Errorf("is the name for %q already", other)}
		}
		from[to] = source
	}
	return nil
}

func legalRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// checkTargetName refuses names that no topic can have, and those that are not
// ours to write to.
func checkTargetName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case name == "." || name == "..":
		return errors.New("is no name for a topic")
	case len(name) > maxNameLen:
		return fmt.Errorf("has %d characters, topic names have at most %d", len(name), maxNameLen)
	case strings.ContainsFunc(name, func(c rune) bool { return !legalRune(c) }):
		return errors.New("has a character that topic names cannot have; allowed are letters, digits, '.', '_' and '-'")
	case slices.Contains(brokersOwn, name):
		return errors.New("is the brokers' own topic")
	case strings.HasPrefix(name, controlPrefix):
		return errors.New("is klink's own topic")
	default:
		return nil
	}
}
