package mm2

import (
	"slices"
	"strings"
	"testing"
)

func TestSettingsFillIn(t *testing.T) {
	names := Names()
	for _, known := range []string{"default", "idempotent", "linger5", "failover"} {
		if !slices.Contains(names, known) {
			t.Errorf("no settings %q", known)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text, jvm, err := Properties(name, Values{Source: "a:1", Target: "b:2", S: "s7", T: "t7", Topics: "bench-W2", Codec: "lz4"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(jvm, func(f string) bool { return strings.HasPrefix(f, "-Xmx") }) {
				t.Errorf("flags %v bound no heap", jvm)
			}
			for _, line := range []string{"clusters = s7, t7", "s7.bootstrap.servers = a:1", "t7.bootstrap.servers = b:2", "s7->t7.enabled = true", "s7->t7.topics = bench-W2"} {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("no line %q", line)
				}
			}
			if strings.Contains(text, "{{") {
				t.Errorf("not filled in:\n%s", text)
			}
		})
	}
}
