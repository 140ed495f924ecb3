package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// TargetAliasDefault is checkpoint.target_alias where it is "", as in
// MirrorMaker 2.
const TargetAliasDefault = "target"

const (
	// mostAlias keeps the names of the topics of an alias, such as
	// mm2-offset-syncs.ALIAS.internal, far from the brokers' limit of 249.
	mostAlias     = 100
	mostSeparator = 16
)

// pointless are the keys of a link that mean nothing in checkpoint mode, where
// offsets are not kept and topics are named by the replication policy. Each has to
// hold its default there.
var pointless = []struct{ key, why string }{
	{"topics.rename", "there, checkpoint.replication_policy names topics"},
	{"start", "there, topics are copied from their beginning"},
	{"follow_start", "there, target topics delete by themselves, with the source's retention settings"},
	{"gap_fill", "there, no offset has to be filled"},
	{"pad_limit", "there, no offset has to be padded"},
	{"on_unmirrorable", "there, no offset has to be kept"},
	{"on_retention_overrun", "there, a partition whose source deleted what was not copied yet halts"},
}

// Aliases are the names of both clusters in MirrorMaker 2's topics.
func (l Link) Aliases() (source, target string) {
	source, target = l.Checkpoint.SourceAlias, l.Checkpoint.TargetAlias
	if source == "" {
		source = l.Name
	}
	if target == "" {
		target = TargetAliasDefault
	}
	return source, target
}

// Names are the settings by which topics are named in checkpoint mode. Each is one
// of a flag; with an empty Value the key stays what it is, and the flag is the one
// that changes it.
type Names struct{ SourceAlias, TargetAlias, ReplicationPolicy, Separator Setting }

// Named returns the link with the settings in place of its own, by the rules of the
// file's checkpoint section. The error is an *Error that names the flags.
func (l Link) Named(n Names) (Link, error) {
	c := &checker{origin: map[string]string{}}
	const at = "checkpoint"
	for _, s := range []struct {
		key string
		Setting
	}{{"source_alias", n.SourceAlias}, {"target_alias", n.TargetAlias}, {"replication_policy", n.ReplicationPolicy}, {"separator", n.Separator}} {
		s.Key = at + "." + s.key
		if c.origin[s.Key] = s.Origin; s.Value != "" {
			c.setIn(reflect.ValueOf(&l).Elem(), s.Setting)
		}
	}
	c.names(&l, at)
	return l, asError(c.problems)
}

// Translates tells whether topics of the link may be mirrored in checkpoint mode.
func (l Link) Translates() bool {
	return l.Mode == ModeCheckpoint || l.OnUnmirrorable == UnmirrorableCheckpoint
}

// checkpoint checks what belongs to checkpoint mode.
func (c *checker) checkpoint(l *Link, path string) {
	def := DefaultLink()
	if !l.Translates() && l.Checkpoint != def.Checkpoint {
		c.add(path+".checkpoint", Problem{Kind: Conflict, What: "is set while no topic is mirrored in checkpoint mode",
			Do: "set mode or on_unmirrorable to checkpoint, or remove it"})
		return
	}
	if !l.Translates() {
		return
	}
	at := path + ".checkpoint"
	c.every(at+".interval", l.Checkpoint.Interval)
	c.every(at+".heartbeat_interval", l.Checkpoint.HeartbeatInterval)
	c.names(l, at)
	if l.Mode != ModeCheckpoint {
		return
	}
	for _, p := range pointless {
		got, want := lookupKey(reflect.ValueOf(l).Elem(), p.key), lookupKey(reflect.ValueOf(&def).Elem(), p.key)
		if show(got) != show(want) {
			c.add(path+"."+p.key, Problem{Kind: Conflict, What: "means nothing in checkpoint mode: " + p.why, Do: "remove it"})
		}
	}
}

func (c *checker) every(path string, d time.Duration) {
	if d < leastInterval || d > mostInterval {
		c.add(path, Problem{Kind: BadValue, What: fmt.Sprintf("%s is out of range", d),
			Allowed: fmt.Sprintf("%s to %s", leastInterval, mostInterval)})
	}
}

// names checks what topics are named by.
func (c *checker) names(l *Link, path string) {
	c.separator(l.Checkpoint.Separator, path+".separator")
	c.aliases(l, path)
}

func (c *checker) separator(sep, path string) {
	if !topicPattern.MatchString(sep) || len(sep) > mostSeparator {
		c.add(path, Problem{Kind: BadValue, What: fmt.Sprintf("%q cannot stand between an alias and a topic name", sep),
			Allowed: fmt.Sprintf("1 to %d of a to z, A to Z, 0 to 9, '.', '_' and '-'", mostSeparator)})
	}
}

// aliases refuses what could not be told apart in a remote topic's name: readers
// take what stands before the first separator for the alias.
func (c *checker) aliases(l *Link, path string) {
	source, target := l.Aliases()
	for _, a := range []struct{ key, alias string }{{"source_alias", source}, {"target_alias", target}} {
		switch sep := l.Checkpoint.Separator; {
		case !topicPattern.MatchString(a.alias) || len(a.alias) > mostAlias:
			if a.alias != l.Name { // what is wrong with the name is told there
				c.add(path+"."+a.key, Problem{Kind: BadValue, What: fmt.Sprintf("%q is no alias", a.alias),
					Allowed: fmt.Sprintf("up to %d of a to z, A to Z, 0 to 9, '.', '_' and '-'", mostAlias)})
			}
		case sep != "" && strings.Contains(a.alias, sep):
			c.add(path+"."+a.key, Problem{Kind: Conflict, What: fmt.Sprintf("%q holds the separator %q, so that nobody could tell where the alias ends", a.alias, sep),
				Do: "choose an alias or a separator without it"})
		}
	}
	if source == target {
		c.add(path+".target_alias", Problem{Kind: Conflict, What: fmt.Sprintf("%q is the alias of the source too", target), Do: "give each cluster its own"})
	}
}
