package main

import (
	"slices"
	"testing"

	"klink/cmd/lab/mm2"
)

func TestTheBestSettingsAreThere(t *testing.T) {
	names := mm2.Names()
	for _, best := range []string{bestMM2, bestMM2Latency, bestMM2Groups} {
		if !slices.Contains(names, best) {
			t.Errorf("no settings %q", best)
		}
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
