package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checker gathers the problems of a decoded Config; it touches no file.
type checker struct {
	file  string
	lines map[string]int
	// origin names the flag or variable that a key's value comes from, where it
	// is not the file.
	origin   map[string]string
	problems []Problem
}

// add reports a problem at path: with the flag or variable its value comes
// from, else with the line of the nearest key that stands in the file. What only
// follows from a problem already reported there, or above, is left out.
func (c *checker) add(path string, p Problem) {
	for up := path; up != ""; up = parent(up) {
		if c.reported(func(field string) bool { return field == up }) {
			return
		}
	}
	for up := path; up != ""; up = parent(up) {
		if name, ok := c.origin[up]; ok {
			p.Field = name
			c.problems = append(c.problems, p)
			return
		}
	}
	p.File, p.Field, p.Line = c.file, path, c.line(path)
	c.problems = append(c.problems, p)
}

func (c *checker) reported(match func(field string) bool) bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool { return match(p.Field) })
}

// sound reports whether nothing is wrong at path and below.
func (c *checker) sound(path string) bool {
	return !c.reported(func(field string) bool { return field == path || strings.HasPrefix(field, path+".") })
}

func (c *checker) line(path string) int {
	for ; path != ""; path = parent(path) {
		if n, ok := c.lines[path]; ok {
			return n
		}
	}
	return 0
}

func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,100}$`)

// config checks everything but what depends on files and on this version. With
// targetOnly the links' sources and topics may be missing.
func (c *checker) config(cfg *Config, targetOnly bool) {
	if len(cfg.Links) == 0 {
		c.add("links", Problem{Kind: Missing, What: "there is no link", Do: "add one with name, source, target and topics.include"})
	}
	first := map[string]int{}
	for i := range cfg.Links {
		l, path := &cfg.Links[i], linkPath(i)
		if j, dup := first[l.Name]; dup && l.Name != "" {
			c.add(path+".name", Problem{Kind: Duplicate, What: fmt.Sprintf("%q is the name of %s too", l.Name, linkPath(j)), Do: "give each link its own name"})
		} else {
			first[l.Name] = i
		}
		c.link(l, path, targetOnly)
	}
	c.between("limits.fetch_memory", cfg.Limits.FetchMemory, MiB, 64*GiB)
	if cfg.HTTP.Listen != "" {
		c.address("http.listen", cfg.HTTP.Listen, 0)
	}
}

func linkPath(i int) string { return fmt.Sprintf("links[%d]", i) }

func (c *checker) between(path string, v, low, high Bytes) {
	if v < low || v > high {
		c.add(path, Problem{Kind: BadValue, What: fmt.Sprintf("%s is out of range", v), Allowed: fmt.Sprintf("%s to %s", low, high)})
	}
}

func (c *checker) link(l *Link, path string, targetOnly bool) {
	c.name(l.Name, path+".name")
	if !targetOnly || len(l.Source.Brokers) > 0 {
		c.cluster(&l.Source, path+".source")
	}
	c.cluster(&l.Target, path+".target")
	c.apart(l, path)
	if !targetOnly || len(l.Topics.Include) > 0 {
		c.topics(&l.Topics, path+".topics")
	}
	c.groups(&l.Groups, path+".groups")
	c.checkpoint(l, path)
	if l.PadLimit < 0 {
		c.add(path+".pad_limit", Problem{Kind: BadValue, What: "is negative", Allowed: "0 or more offsets"})
	}
	if n := l.Limits.ConnectionsPerBroker; n < 1 || n > 16 {
		c.add(path+".limits.connections_per_broker", Problem{Kind: BadValue, What: fmt.Sprintf("%d is out of range", n), Allowed: "1 to 16"})
	}
	c.between(path+".audit.bytes_per_second", l.Audit.BytesPerSecond, KiB, 1024*GiB)
	if l.Limits.BytesPerSecond != 0 {
		c.between(path+".limits.bytes_per_second", l.Limits.BytesPerSecond, KiB, 1024*GiB)
	}
}

func (c *checker) name(name, path string) {
	switch {
	case name == "":
		c.add(path, Problem{Kind: Missing, What: "is missing", Allowed: "a to z, 0 to 9 and -"})
	case !namePattern.MatchString(name):
		c.add(path, Problem{Kind: BadValue, What: fmt.Sprintf("%q is no name for a link", name), Allowed: "up to 100 of a to z, 0 to 9 and -"})
	}
}

// apart refuses a link whose two sides share an address: it would mirror a
// cluster into itself.
func (c *checker) apart(l *Link, path string) {
	for i, b := range l.Target.Brokers {
		if slices.ContainsFunc(l.Source.Brokers, func(s string) bool { return strings.EqualFold(s, b) }) {
			c.add(fmt.Sprintf("%s.target.brokers[%d]", path, i), Problem{Kind: Conflict, What: fmt.Sprintf("%s is a broker of the source too", b),
				Do: "name two different clusters"})
		}
	}
}

func (c *checker) cluster(cl *Cluster, path string) {
	if len(cl.Brokers) == 0 {
		c.add(path+".brokers", Problem{Kind: Missing, What: "is missing", Allowed: "a list of host:port"})
	}
	for i, b := range cl.Brokers {
		at := fmt.Sprintf("%s.brokers[%d]", path, i)
		if slices.Contains(cl.Brokers[:i], b) {
			c.add(at, Problem{Kind: Duplicate, What: fmt.Sprintf("%s stands there twice", b), Do: "keep one"})
			continue
		}
		c.address(at, b, 1)
	}
	c.tls(&cl.TLS, path+".tls")
	c.sasl(&cl.SASL, path+".sasl")
}

// address checks host:port with a port of at least lowest; with 0 the host may
// be left out.
func (c *checker) address(path, addr string, lowest int) {
	p := Problem{Kind: BadValue, What: fmt.Sprintf("%q is no address", addr), Allowed: fmt.Sprintf("host:port with a port from %d to 65535", lowest)}
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		p.Do = fmt.Sprintf("write %s", rest)
	}
	host, port, err := net.SplitHostPort(addr)
	n, perr := strconv.Atoi(port)
	if err != nil || perr != nil || n < lowest || n > 65535 || (host == "" && lowest > 0) || strings.ContainsAny(host, "/ ,") {
		c.add(path, p)
	}
}

func (c *checker) tls(t *TLS, path string) {
	if !t.Enabled {
		if *t != (TLS{}) {
			c.add(path+".enabled", Problem{Kind: Conflict, What: "is false while other tls keys are set", Do: "set it to true or remove them"})
		}
		return
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.add(path+".cert_file", Problem{Kind: Conflict, What: "cert_file and key_file belong together", Do: "set both or none"})
	}
	if t.InsecureSkipVerify && (t.CAFile != "" || t.ServerName != "") {
		c.add(path+".insecure_skip_verify", Problem{Kind: Conflict, What: "is true, so ca_file and server_name would mean nothing", Do: "remove it, or remove them"})
	}
}

func (c *checker) sasl(s *SASL, path string) {
	bad := func(key string, kind Kind, what, do string) {
		c.add(path+"."+key, Problem{Kind: kind, What: what, Do: do})
	}
	switch s.Mechanism {
	case MechanismNone:
		if *s != (SASL{}) {
			bad("mechanism", Conflict, "is empty while other sasl keys are set", "set it to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or remove them")
		}
	case MechanismOAuthBearer:
		if s.TokenFile == "" {
			bad("token_file", Missing, "is missing, OAUTHBEARER needs it", "name the file that holds the token")
		}
		if s.Username != "" || s.PasswordFile != "" || s.PasswordEnv != "" {
			bad("mechanism", Conflict, "is OAUTHBEARER, which takes no user name and no password", "remove username, password_file and password_env")
		}
	default:
		c.password(s, bad)
	}
}

func (c *checker) password(s *SASL, bad func(key string, kind Kind, what, do string)) {
	if s.Username == "" {
		bad("username", Missing, fmt.Sprintf("is missing, %s needs it", s.Mechanism), "name the user")
	}
	if s.TokenFile != "" {
		bad("token_file", Conflict, fmt.Sprintf("is for OAUTHBEARER, not for %s", s.Mechanism), "remove it")
	}
	switch {
	case s.PasswordFile == "" && s.PasswordEnv == "":
		bad("password_file", Missing, fmt.Sprintf("is missing, %s needs a password", s.Mechanism), "name a file (password_file) or a variable (password_env)")
	case s.PasswordFile != "" && s.PasswordEnv != "":
		bad("password_env", Conflict, "is set beside password_file", "keep one of them")
	}
}
