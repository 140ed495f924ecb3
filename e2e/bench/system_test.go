package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMM2SettingsFillIn(t *testing.T) {
	names := mm2Settings()
	for _, best := range []string{bestMM2, bestMM2Latency, bestMM2Groups, "default"} {
		if !slices.Contains(names, best) {
			t.Errorf("no settings %q", best)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text, jvm, err := mm2Properties(name, mm2Values{Source: "a:1", Target: "b:2", S: "s7", T: "t7", Topics: "bench-W2", Codec: "lz4"})
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

func TestMM2SettingsOf(t *testing.T) {
	for _, c := range []struct{ system, workload, want string }{
		{"mm2", "W2", bestMM2},
		{"mm2", "latency", bestMM2Latency},
		{"mm2", "failover", bestMM2Groups},
		{"mm2:default", "latency", "default"},
	} {
		if got := mm2SettingsOf(c.system, workloadNamed(c.workload)); got != c.want {
			t.Errorf("%s in %s has settings %q, want %q", c.system, c.workload, got, c.want)
		}
	}
}

func TestTheLoopMakesNoTopics(t *testing.T) {
	all := []string{klinkSystem, mm2System, loopSystem}
	if got := systemsFor(workloadNamed("start"), all); slices.Contains(got, loopSystem) {
		t.Errorf("start has %v", got)
	}
	if got := systemsFor(workloadNamed("W1"), all); len(got) != 3 {
		t.Errorf("W1 has %v", got)
	}
}
