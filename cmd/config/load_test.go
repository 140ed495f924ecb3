package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each testdata/*.yaml is loaded; what Load says about it stands in the .golden
// file beside it.
func TestMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Load(Options{File: file})
			if err == nil {
				t.Fatal("accepted")
			}
			var ce *Error
			if !errors.As(err, &ce) {
				t.Fatalf("%T is no *Error", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

func golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// write puts text into a file of its own that only its owner may read.
func write(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const minimal = `
links:
  - name: a
    source: {brokers: [s:9092]}
    target: {brokers: [t:9092]}
    topics: {include: [orders]}
`

func TestLoadMinimal(t *testing.T) {
	cfg, err := Load(Options{File: write(t, "klink.yaml", minimal)})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultLink()
	want.Name = "a"
	want.Source.Brokers, want.Target.Brokers = []string{"s:9092"}, []string{"t:9092"}
	want.Topics.Include = []string{"orders"}
	if diff := cmp.Diff([]Link{want}, cfg.Links); diff != "" {
		t.Error(diff)
	}
}

func TestLoadValues(t *testing.T) {
	cfg, err := Load(Options{File: write(t, "klink.yaml", `
base: &base
links: []
`)})
	if err == nil {
		t.Fatalf("accepted an unknown key: %+v", cfg)
	}
	cfg, err = Load(Options{File: write(t, "klink.yaml", `
links:
  - &a
    name: a
    source: {brokers: [s:9092]}
    target: &target {brokers: ["t1:9092", '[::1]:9092']}
    topics:
      include: ["=a.b", "x*", "/a|b/", 7]
      rename: {prefix: eu., map: {x1: y1}}
      replication_factor: 3
      configs: {min.insync.replicas: 2, retention.ms: "-1"}
    groups:
    pad_limit: 2_000_000_000
    limits: {bytes_per_second: 1_500KiB, connections_per_broker: 4}
  - <<: *a
    name: b
    target: {<<: *target}
limits: {fetch_memory: 33554432}
http: {listen: ""}
log: {level: debug, format: json}
`)})
	if err != nil {
		t.Fatal(err)
	}
	a, b := cfg.Links[0], cfg.Links[1]
	if a.Limits.BytesPerSecond != 1500*KiB || cfg.Limits.FetchMemory != 32*MiB || cfg.HTTP.Listen != "" || cfg.Log.Level != LevelDebug {
		t.Errorf("%+v", cfg)
	}
	if b.Name != "b" || a.Name != "a" || b.Topics.ReplicationFactor != 3 || !cmp.Equal(a.Target, b.Target) || a.Groups.Interval != time.Second {
		t.Errorf("%+v", b)
	}
	want := map[string]string{"min.insync.replicas": "2", "retention.ms": "-1"}
	if diff := cmp.Diff(want, a.Topics.Configs); diff != "" {
		t.Error(diff)
	}
	if a.Topics.Include[3] != "7" {
		t.Errorf("include %q", a.Topics.Include)
	}
}

func TestChooseLink(t *testing.T) {
	file := write(t, "klink.yaml", minimal+`
  - name: later
    acls: {sync: true}
    source: {brokers: [s2:9092], sasl: {mechanism: PLAIN, username: u, password_file: /nowhere/at/all}}
    target: {brokers: [t2:9092]}
    topics: {include: [orders]}
`)
	cfg, err := Load(Options{File: file, Link: "a"})
	if err != nil {
		t.Fatalf("a link that was not asked for stands in the way: %v", err)
	}
	if len(cfg.Links) != 1 || cfg.Links[0].Name != "a" {
		t.Errorf("%+v", cfg.Links)
	}
	_, err = Load(Options{File: file})
	wantKinds(t, err, NotBuilt, BadSecret)
	_, err = Load(Options{File: file, Link: "latr"})
	wantKinds(t, err, BadValue)
	if !strings.Contains(err.Error(), "did you mean later") {
		t.Error(err)
	}
}

func wantKinds(t testing.TB, err error, kinds ...Kind) {
	t.Helper()
	var ce *Error
	if !errors.As(err, &ce) {
		t.Fatalf("no *Error: %v", err)
	}
	for _, k := range kinds {
		if !ce.Has(k) {
			t.Errorf("kind %d is missing in:\n%v", k, err)
		}
	}
	if len(ce.Problems) != len(kinds) {
		t.Errorf("%d problems, want %d:\n%v", len(ce.Problems), len(kinds), err)
	}
}

func TestEnvironmentAndFlags(t *testing.T) {
	file := write(t, "klink.yaml", minimal+"log: {level: warn}\n")
	env := map[string]string{"KLINK_LOG_LEVEL": "error", "KLINK_FETCH_MEMORY": "64MiB", "KLINK_LOG_FORMAT": ""}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	cfg, err := Load(Options{File: file, LookupEnv: lookup,
		Flags: Flags{Settings: []Setting{{Origin: "--log-level", Key: "log.level", Value: "debug"}, {Origin: "--http", Key: "http.listen"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Log.Level != LevelDebug || cfg.Limits.FetchMemory != 64*MiB || cfg.Log.Format != FormatText || cfg.HTTP.Listen != "" {
		t.Errorf("%+v", cfg)
	}
	env["KLINK_LOG_LEVEL"] = "eror"
	_, err = Load(Options{File: file, LookupEnv: lookup})
	if got, want := err.Error(), `KLINK_LOG_LEVEL: "eror" is not allowed (did you mean error?); allowed: debug, info, warn, error`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFlagsAlone(t *testing.T) {
	ok := Flags{Source: []string{"s1:9092, s2:9092"}, Target: []string{"t:9092"}, Topics: []string{"a", "/x{1,2}/"}}
	cfg, err := Load(Options{Flags: ok})
	if err != nil {
		t.Fatal(err)
	}
	l := cfg.Links[0]
	if l.Name != FlagLink || !cmp.Equal(l.Source.Brokers, []string{"s1:9092", "s2:9092"}) || !cmp.Equal(l.Topics.Include, ok.Topics) {
		t.Errorf("%+v", l)
	}
	cfg, err = Load(Options{Flags: Flags{Target: ok.Target}, Link: "east", TargetOnly: true})
	if err != nil || len(cfg.Links) != 1 || cfg.Links[0].Name != "east" || cfg.Unnamed {
		t.Errorf("the link that is on record on a target: %v, %+v", err, cfg)
	}
	if cfg, err = Load(Options{Flags: Flags{Target: ok.Target}, TargetOnly: true}); err != nil || !cfg.Unnamed || cfg.Links[0].Name != FlagLink {
		t.Errorf("a link that nobody named: %v, %+v", err, cfg)
	}
	if _, err = Load(Options{Flags: ok, Link: "east"}); err == nil {
		t.Error("a link to be made goes by a name that nobody gave it")
	}
	for _, c := range []struct {
		name       string
		flags      Flags
		file       string
		targetOnly bool
		want       []string
	}{
		{name: "nothing", want: []string{"nothing says what to mirror; name a file with -c klink.yaml, or give --source HOST:PORT --target HOST:PORT --topic PATTERN"}},
		{name: "target alone", flags: Flags{Target: ok.Target}, want: []string{
			"--source: is missing; allowed: a list of host:port",
			"--topic: is missing; allowed: a list; each item a name, a glob with *, a /regular expression/ or =literal"}},
		{name: "target alone is enough", flags: Flags{Target: ok.Target}, targetOnly: true},
		{name: "no port", flags: Flags{Source: []string{"s"}, Target: ok.Target, Topics: ok.Topics}, want: []string{
			`--source: "s" is no address; allowed: host:port with a port from 1 to 65535`}},
		{name: "both sides", flags: Flags{Source: ok.Target, Target: ok.Target, Topics: ok.Topics}, want: []string{
			"--target: t:9092 is a broker of the source too; name two different clusters"}},
		{name: "mode", flags: Flags{Source: ok.Source, Target: ok.Target, Topics: ok.Topics, Mode: "miror"}, want: []string{
			`--mode: "miror" is not allowed (did you mean mirror?); allowed: mirror, checkpoint`}},
		{name: "checkpoint mode", flags: Flags{Source: ok.Source, Target: ok.Target, Topics: ok.Topics, Mode: "checkpoint"}},
		{name: "groups", flags: Flags{Source: ok.Source, Target: ok.Target, Topics: ok.Topics, Groups: []string{"*", "/billing-[0-9]+/", "=/a", "größe #1"}}},
		{name: "no pattern of a group", flags: Flags{Source: ok.Source, Target: ok.Target, Topics: ok.Topics, Groups: []string{"/("}}, want: []string{
			`--group: "/(" is no pattern; allowed: a name, a glob with *, a /regular expression/ or =literal; a name that begins with / is written as =/name`}},
		{name: "beside a file", flags: ok, file: write(t, "klink.yaml", minimal), want: []string{
			"--source, --target, --topic: describes a link, and so does FILE; use either the file or the flags"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Options{Flags: c.flags, File: c.file, TargetOnly: c.targetOnly})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if c.file != "" {
				got = strings.ReplaceAll(got, c.file, "FILE")
			}
			if diff := cmp.Diff(strings.Join(c.want, "\n"), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(Options{File: "testdata/none.yml"})
	if got, want := err.Error(), "testdata/none.yml: does not exist; name the file with -c, or begin with docs/reference.yaml"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantKinds(t, err, Unreadable)
}

func TestHash(t *testing.T) {
	a, b := Default(), Default()
	if a.Hash() != b.Hash() || len(a.Hash()) != 12 {
		t.Errorf("%s, %s", a.Hash(), b.Hash())
	}
	b.Log.Level = LevelDebug
	if a.Hash() == b.Hash() {
		t.Error("two configurations, one hash")
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1_000": 1000, "16MiB": 16 * MiB, "16 MiB": 16 * MiB, "1GiB": GiB, "3KiB": 3 * KiB, "1536": 1536} {
		got, ok := ParseBytes(text)
		if !ok || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v", text, got, ok)
		}
		if again, ok := ParseBytes(got.String()); !ok || again != got {
			t.Errorf("%q does not survive as %q", text, got.String())
		}
	}
	for _, text := range []string{"", "-1", "MiB", "1MB", "1.5MiB", "_1", "1_", "1__0", "9223372036854775807KiB", "1e3", "0x10"} {
		if got, ok := ParseBytes(text); ok {
			t.Errorf("ParseBytes(%q) = %d", text, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("links: &l\n  - <<: *l\n"))
	f.Add([]byte("links: [{name: [], source: 1, <<: 3}]\n---\n"))
	// It never panics, and what it accepts has no duplicate key and no value
	// outside its choices.
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg := Default()
		d := decode("f", text, &cfg)
		if len(d.problems) > 0 {
			return
		}
		for _, l := range cfg.Links {
			if allowed := setChoice(string(l.Mode), lookupKey(refOf(&l), "mode"), l.Mode.choices()); allowed != "" {
				t.Errorf("mode %q", l.Mode)
			}
		}
	})
}
