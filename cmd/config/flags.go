package config

import (
	"reflect"
	"strings"
)

// FlagLink is the name of the link that flags make, unless Options.Link names one
// that is on record on the target.
const FlagLink = "default"

// Flags are what the command line says about the configuration.
type Flags struct {
	// Source and Target hold host:port, also several with commas between them.
	Source, Target []string
	// Topics and Groups hold patterns; a comma in them is part of the pattern.
	Topics, Groups []string
	Mode           string
	// Settings override single keys, with or without a file.
	Settings []Setting
}

// Setting is one value for one key, e.g. log.level.
type Setting struct {
	// Origin is the flag or variable, for messages.
	Origin string
	Key    string
	Value  string
}

// Given lists the flags that describe a link.
func (f *Flags) Given() []string {
	var out []string
	for _, g := range []struct {
		name string
		set  bool
	}{
		{"--source", len(f.Source) > 0}, {"--target", len(f.Target) > 0}, {"--topic", len(f.Topics) > 0},
		{"--group", len(f.Groups) > 0}, {"--mode", f.Mode != ""},
	} {
		if g.set {
			out = append(out, g.name)
		}
	}
	return out
}

// variables are the environment variables that override keys of the file. An
// empty one counts as not set.
var variables = []Setting{
	{Origin: "KLINK_FETCH_MEMORY", Key: "limits.fetch_memory"},
	{Origin: "KLINK_HTTP_LISTEN", Key: "http.listen"},
	{Origin: "KLINK_LOG_LEVEL", Key: "log.level"},
	{Origin: "KLINK_LOG_FORMAT", Key: "log.format"},
}

func (c *checker) environment(cfg *Config, lookup func(string) (string, bool)) {
	if lookup == nil {
		return
	}
	for _, s := range variables {
		if v, ok := lookup(s.Origin); ok && v != "" {
			s.Value = v
			c.set(cfg, s)
		}
	}
}

// set overrides one key, and notes where its value comes from.
func (c *checker) set(cfg *Config, s Setting) { c.setIn(reflect.ValueOf(cfg).Elem(), s) }

// setIn is set for a key of any part of the configuration.
func (c *checker) setIn(root reflect.Value, s Setting) {
	c.origin[s.Key] = s.Origin
	v := lookupKey(root, s.Key)
	if allowed := setScalar(s.Value, v); allowed != "" {
		c.add(s.Key, Problem{Kind: BadValue, What: "\"" + s.Value + "\" is not allowed" + suggestion(s.Value, v), Allowed: allowed})
	}
}

// flags applies the command line. It returns false where there is nothing to
// go on with.
func (c *checker) flags(cfg *Config, o *Options) bool {
	for _, s := range o.Flags.Settings {
		c.set(cfg, s)
	}
	given := o.Flags.Given()
	switch {
	case o.File != "" && len(given) > 0:
		c.problems = append(c.problems, Problem{Kind: Conflict, Field: strings.Join(given, ", "),
			What: "describes a link, and so does " + o.File, Do: "use either the file or the flags"})
		return true
	case o.File != "":
		return true
	case len(given) == 0:
		c.problems = append(c.problems, Problem{Kind: Missing, What: "nothing says what to mirror",
			Do: "name a file with -c klink.yaml, or give --source HOST:PORT --target HOST:PORT --topic PATTERN"})
		return false
	}
	l := DefaultLink()
	l.Name = FlagLink
	if o.TargetOnly && o.Link != "" {
		l.Name = o.Link // under which it is on record on the target
		c.origin[linkPath(0)+".name"] = "--link"
	}
	cfg.Unnamed = o.TargetOnly && o.Link == ""
	l.Source.Brokers, l.Target.Brokers = splitCommas(o.Flags.Source), splitCommas(o.Flags.Target)
	l.Topics.Include, l.Groups.Include = o.Flags.Topics, o.Flags.Groups
	for path, flag := range map[string]string{"source": "--source", "target": "--target", "topics": "--topic", "groups": "--group"} {
		c.origin[linkPath(0)+"."+path] = flag
	}
	cfg.Links = []Link{l}
	if o.Flags.Mode != "" {
		c.set(cfg, Setting{Origin: "--mode", Key: linkPath(0) + ".mode", Value: o.Flags.Mode})
	}
	return true
}

func splitCommas(values []string) []string {
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// CheckName checks the name of a link that stands in no file; origin is the flag. The
// error is an *Error.
func CheckName(origin, name string) error {
	c := &checker{origin: map[string]string{"name": origin}}
	c.name(name, "name")
	return asError(c.problems)
}

// CheckListen checks an address of http.listen for commands that load no
// configuration; origin is the flag or variable, "" as the address is off. The error
// is an *Error.
func CheckListen(origin, address string) error {
	c := &checker{origin: map[string]string{"http.listen": origin}}
	if address != "" {
		c.address("http.listen", address, 0)
	}
	return asError(c.problems)
}
