package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checked is what is wrong with a link, without what depends on this version.
func checked(t testing.TB, link string) string {
	t.Helper()
	cfg := Default()
	d := decode("f", []byte("links:\n  - {name: east-west, source: {brokers: [s:9092]}, target: {brokers: [t:9092]}, "+link+"}\n"), &cfg)
	if len(d.problems) > 0 {
		t.Fatal(asError(d.problems))
	}
	c := &checker{file: "f", lines: d.lines, origin: map[string]string{}}
	c.config(&cfg, false)
	var out []string
	for _, p := range c.problems {
		out = append(out, strings.TrimPrefix(p.Field, "links[0].")+": "+p.What)
	}
	return strings.Join(out, "\n")
}

func TestCheckpointKeys(t *testing.T) {
	const topics = "topics: {include: [orders]}"
	for _, c := range []struct {
		name, link string
		want       []string
	}{
		{name: "defaults", link: topics + ", mode: checkpoint"},
		{name: "single topics", link: topics + ", on_unmirrorable: checkpoint, pad_limit: 5, checkpoint: {source_alias: a}"},
		{name: "all of it", link: topics + ", mode: checkpoint, checkpoint: {source_alias: a.b, target_alias: c, replication_policy: identity, separator: _, interval: 100ms, heartbeat_interval: 1h}"},
		{name: "in mirror mode", link: topics + ", checkpoint: {source_alias: a}", want: []string{
			"checkpoint: is set while no topic is mirrored in checkpoint mode"}},
		{name: "separator in the name of the link", link: topics + ", mode: checkpoint, checkpoint: {separator: '-'}", want: []string{
			`checkpoint.source_alias: "east-west" holds the separator "-", so that nobody could tell where the alias ends`}},
		{name: "separator in an alias", link: topics + ", mode: checkpoint, checkpoint: {source_alias: a.b, target_alias: .}", want: []string{
			`checkpoint.source_alias: "a.b" holds the separator ".", so that nobody could tell where the alias ends`,
			`checkpoint.target_alias: "." holds the separator ".", so that nobody could tell where the alias ends`}},
		{name: "illegal", link: topics + ", mode: checkpoint, checkpoint: {source_alias: 'a b', target_alias: 'größe', separator: '|'}", want: []string{
			`checkpoint.separator: "|" cannot stand between an alias and a topic name`,
			`checkpoint.source_alias: "a b" is no alias`,
			`checkpoint.target_alias: "größe" is no alias`}},
		{name: "no separator", link: topics + ", mode: checkpoint, checkpoint: {separator: ''}", want: []string{
			`checkpoint.separator: "" cannot stand between an alias and a topic name`}},
		{name: "one alias for both", link: topics + ", mode: checkpoint, checkpoint: {source_alias: target}", want: []string{
			`checkpoint.target_alias: "target" is the alias of the source too`}},
		{name: "ranges", link: topics + ", mode: checkpoint, checkpoint: {interval: 99ms, heartbeat_interval: 61m}", want: []string{
			"checkpoint.interval: 99ms is out of range",
			"checkpoint.heartbeat_interval: 1h1m0s is out of range"}},
		{name: "keys of mirror mode", link: "topics: {include: [orders], rename: {prefix: x.}}, mode: checkpoint, start: latest, follow_start: false, gap_fill: halt, pad_limit: 0, on_unmirrorable: skip, on_retention_overrun: pad", want: []string{
			"topics.rename: means nothing in checkpoint mode: there, checkpoint.replication_policy names topics",
			"start: means nothing in checkpoint mode: there, topics are copied from their beginning",
			"follow_start: means nothing in checkpoint mode: there, target topics delete by themselves, with the source's retention settings",
			"gap_fill: means nothing in checkpoint mode: there, no offset has to be filled",
			"pad_limit: means nothing in checkpoint mode: there, no offset has to be padded",
			"on_unmirrorable: means nothing in checkpoint mode: there, no offset has to be kept",
			"on_retention_overrun: means nothing in checkpoint mode: there, a partition whose source deleted what was not copied yet halts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(strings.Join(c.want, "\n"), checked(t, c.link)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAliases(t *testing.T) {
	l := DefaultLink()
	l.Name = "east-west"
	if s, d := l.Aliases(); s != "east-west" || d != "target" {
		t.Errorf("%s, %s", s, d)
	}
	l.Checkpoint.SourceAlias, l.Checkpoint.TargetAlias = "a", "b"
	if s, d := l.Aliases(); s != "a" || d != "b" {
		t.Errorf("%s, %s", s, d)
	}
}
