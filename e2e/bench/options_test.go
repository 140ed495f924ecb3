package main

import (
	"io"
	"slices"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-only", "latency,W2", "-systems", "mm2:default,klink", "-rounds", "5", "-size", "short", "-verify=false"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"W2", "latency"}; !slices.Equal(o.only, want) {
		t.Errorf("only %v, want %v: in the order of the table", o.only, want)
	}
	if want := []string{"klink", "mm2:default"}; !slices.Equal(o.systems, want) {
		t.Errorf("systems %v, want %v", o.systems, want)
	}
	if o.rounds != 5 || o.long || o.verify {
		t.Errorf("options %+v", o)
	}
}

func TestOptionsByDefault(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.only, workloadNames()) || o.rounds != 3 || !o.long || !o.verify {
		t.Errorf("options %+v", o)
	}
	if want := []string{"klink", "mm2", "loop"}; !slices.Equal(o.systems, want) {
		t.Errorf("systems %v, want %v", o.systems, want)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, args := range [][]string{{"-only", "W9"}, {"-systems", "mm2:none"}, {"-rounds", "0"}, {"-size", "huge"}, {"W2"}, {"-what"}} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestSystemsFor(t *testing.T) {
	all := []string{klinkSystem, driftSystem, loopSystem, mm2System, "mm2:default"}
	for name, want := range map[string][]string{
		"W2":       all,
		"start":    {klinkSystem, driftSystem, mm2System, "mm2:default"},
		"idle":     {klinkSystem, driftSystem, mm2System, "mm2:default"},
		"failover": {klinkSystem, mm2System, "mm2:default"},
		"pad":      {klinkSystem, loopSystem},
		"streams8": {klinkSystem, loopSystem},
		"recode":   {klinkSystem},
	} {
		if got := systemsFor(workloadNamed(name), all); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
