package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Bounds of groups.interval.
const (
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Hour
)

func (c *checker) groups(g *Groups, path string) {
	for i, p := range g.Include {
		c.groupPattern(fmt.Sprintf("%s.include[%d]", path, i), p)
	}
	for i, p := range g.Exclude {
		c.groupPattern(fmt.Sprintf("%s.exclude[%d]", path, i), p)
	}
	if len(g.Exclude) > 0 && len(g.Include) == 0 {
		c.add(path+".exclude", Problem{Kind: Conflict, What: "is set while groups.include selects none", Do: "set groups.include, \"*\" for all, or remove it"})
	}
	if g.Interval < leastInterval || g.Interval > mostInterval {
		c.add(path+".interval", Problem{Kind: BadValue, What: fmt.Sprintf("%s is out of range", g.Interval),
			Allowed: fmt.Sprintf("%s to %s", leastInterval, mostInterval)})
	}
}

// groupPattern refuses what can match no group. Names of groups are any text, so
// only the forms can be wrong.
func (c *checker) groupPattern(path, p string) {
	problem := Problem{Kind: BadValue, What: fmt.Sprintf("%q is no pattern", p), Allowed: patternAllowed}
	switch {
	case p == "" || p == "=":
	case strings.HasPrefix(p, "/"):
		if len(p) > 2 && strings.HasSuffix(p, "/") {
			_, err := regexp.Compile(p[1 : len(p)-1])
			if err == nil {
				return
			}
			problem.What = fmt.Sprintf("%q is no regular expression of RE2: %v", p, err)
		}
		problem.Do = "a name that begins with / is written as =/name"
	default:
		return
	}
	c.add(path, problem)
}
