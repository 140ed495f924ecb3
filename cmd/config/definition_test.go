package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// fullLink has a value other than the default almost everywhere.
func fullLink() Link {
	l := DefaultLink()
	l.Name = "east-west"
	l.Source = Cluster{Brokers: []string{"a:9092", "[::1]:9092"}, TLS: TLS{Enabled: true, CAFile: "/etc/ca.pem", ServerName: "null"},
		SASL: SASL{Mechanism: MechanismScramSHA512, Username: "true", PasswordEnv: "PASSWORD"}}
	l.Target = Cluster{Brokers: []string{"b:9092"}}
	l.Topics = Topics{Include: []string{"orders", "/audit-[0-9]+/", "=a: b", "*"}, Exclude: []string{"# no"},
		Rename: Rename{Prefix: "x.", Map: map[string]string{"yes": "no", "1": "2"}}, ReplicationFactor: 3,
		Configs: map[string]string{"retention.ms": "-1"}}
	l.Groups = Groups{Include: []string{"*"}, Tail: TailOff, Interval: 90 * time.Second}
	l.Start, l.FollowStart = "2026-01-02T03:04:05Z", false
	l.PadLimit = 0
	l.Limits = LinkLimits{BytesPerSecond: 3 * MiB, ConnectionsPerBroker: 4}
	l.Audit.BytesPerSecond = 1_000_003
	return l
}

// again reads a definition back.
func again(t testing.TB, text string) Link {
	t.Helper()
	l := DefaultLink()
	if d := decode("definition", []byte(text), &l); len(d.problems) > 0 {
		t.Fatalf("%v in:\n%s", asError(d.problems), text)
	}
	return l
}

func TestDefinitionIsReadBack(t *testing.T) {
	simple := DefaultLink()
	simple.Name, simple.Source.Brokers, simple.Target.Brokers = "l", []string{"a:1"}, []string{"b:1"}
	simple.Topics.Include = []string{"t"}
	for name, l := range map[string]Link{"full": fullLink(), "simple": simple} {
		text := l.Definition()
		if d := cmp.Diff(l, again(t, text), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-link +read back):\n%s\n%s", name, d, text)
		}
	}
	golden(t, "testdata/definition.golden", fullLink().Definition()+"---\n"+simple.Definition())
}

func TestDefinitionOfAnyWords(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.OneOf(rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{"<<", "null", "~", "yes", "0x1", "- a", "a: b", " a ", "a\nb", "#a", "&a", "*a", "!a", "1e3", "2026-01-02"}))
		l := DefaultLink()
		l.Name = word.Draw(r, "name")
		l.Topics.Include = rapid.SliceOf(word).Draw(r, "include")
		l.Topics.Rename.Map = rapid.MapOf(word, word).Draw(r, "map")
		l.Source.SASL.Username = word.Draw(r, "user")
		text := l.Definition()
		if d := cmp.Diff(l, again(t, text), cmpopts.EquateEmpty()); d != "" {
			r.Fatalf("%s\n%s", d, text)
		}
	})
}

// C3.
func TestDefinitionHoldsNoSecret(t *testing.T) {
	l := fullLink()
	t.Setenv(l.Source.SASL.PasswordEnv, "hunter2")
	if strings.Contains(l.Definition(), "hunter2") {
		t.Error("the password is in it")
	}
}
