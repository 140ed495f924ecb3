package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Kafka's own rule for topic names (org.apache.kafka.common.internals.Topic).
var (
	topicPattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	globPattern  = regexp.MustCompile(`^[a-zA-Z0-9._*-]{1,249}$`)
)

const (
	topicAllowed   = "up to 249 of a to z, A to Z, 0 to 9, '.', '_' and '-'"
	patternAllowed = "a name, a glob with *, a /regular expression/ or =literal"
)

func isTopic(name string) bool {
	return topicPattern.MatchString(name) && name != "." && name != ".."
}

func (c *checker) topics(t *Topics, path string) {
	if len(t.Include) == 0 {
		c.add(path+".include", Problem{Kind: Missing, What: "is missing", Allowed: "a list; each item " + patternAllowed})
	}
	for i, p := range t.Include {
		c.pattern(fmt.Sprintf("%s.include[%d]", path, i), p)
	}
	for i, p := range t.Exclude {
		c.pattern(fmt.Sprintf("%s.exclude[%d]", path, i), p)
	}
	c.rename(&t.Rename, path+".rename")
	if t.ReplicationFactor < 0 {
		c.add(path+".replication_factor", Problem{Kind: BadValue, What: fmt.Sprintf("%d is out of range", t.ReplicationFactor), Allowed: "0 (as on the source) or more"})
	}
}

func (c *checker) pattern(path, p string) {
	problem := Problem{Kind: BadValue, What: fmt.Sprintf("%q is no pattern", p), Allowed: patternAllowed}
	switch {
	case strings.HasPrefix(p, "="):
		if isTopic(p[1:]) {
			return
		}
		problem.What, problem.Allowed = fmt.Sprintf("%q is no topic name", p[1:]), topicAllowed
	case strings.HasPrefix(p, "/"):
		if len(p) > 2 && strings.HasSuffix(p, "/") {
			_, err := regexp.Compile(p[1 : len(p)-1])
			if err == nil {
				return
			}
			problem.What = fmt.Sprintf("%q is no regular expression of RE2: %v", p, err)
		}
	case globPattern.MatchString(p) && p != "." && p != "..":
		return
	case strings.Contains(p, ","):
		problem.Do = "give each pattern by itself"
	}
	c.add(path, problem)
}

// rename refuses what would give two source topics one target topic, or no
// legal one.
func (c *checker) rename(r *Rename, path string) {
	for _, part := range []struct{ key, text string }{{"prefix", r.Prefix}, {"suffix", r.Suffix}} {
		if part.text != "" && !topicPattern.MatchString(part.text) {
			c.add(path+"."+part.key, Problem{Kind: BadValue, What: fmt.Sprintf("%q cannot stand in a topic name", part.text), Allowed: topicAllowed})
		}
	}
	from := map[string]string{}
	for _, src := range slices.Sorted(maps.Keys(r.Map)) {
		dst, at := r.Map[src], join(path+".map", src)
		if !isTopic(src) {
			c.add(at, Problem{Kind: BadValue, What: fmt.Sprintf("%q is no topic name", src), Allowed: topicAllowed})
		}
		switch other, taken := from[dst]; {
		case !isTopic(dst):
			c.add(at, Problem{Kind: BadValue, What: fmt.Sprintf("%q is no topic name", dst), Allowed: topicAllowed})
		case strings.HasPrefix(dst, "__klink"):
			c.add(at, Problem{Kind: Conflict, What: fmt.Sprintf("%s is klink's own topic", dst), Do: "choose another name"})
		case taken:
			c.add(at, Problem{Kind: Conflict, What: fmt.Sprintf("%s and %s would both become %s", other, src, dst), Do: "give each its own name"})
		}
		from[dst] = src
	}
}
