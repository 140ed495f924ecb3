package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"
)

const referenceFile = "../../docs/reference.yaml"

// The reference shows each key once, with a comment, and the defaults (C1).
func TestReferenceShowsDefaults(t *testing.T) {
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	got := Default()
	d := decode(referenceFile, text, &got)
	if len(d.problems) > 0 {
		t.Fatal(asError(d.problems))
	}
	want := Default()
	link := DefaultLink()
	link.Name = "east-west"
	link.Source.Brokers, link.Target.Brokers = []string{"127.0.0.1:19092"}, []string{"127.0.0.1:29092"}
	link.Topics.Include = []string{"orders", "payments.*", "/audit-[0-9]+/"}
	want.Links = []Link{link}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reference and defaults differ (-defaults +reference):\n%s", diff)
	}

	keys := map[string]bool{}
	allKeys(reflect.TypeFor[Config](), "", keys)
	for k := range keys {
		if _, ok := d.lines[k]; !ok {
			t.Errorf("%s is missing in the reference", k)
		}
	}
}

func TestReferenceExplainsEachKey(t *testing.T) {
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			isKey := n.Kind == yaml.MappingNode && i%2 == 0
			if isKey && child.Value != "links" && !strings.Contains(lines[child.Line-1], " # ") {
				t.Errorf("line %d: %s has no comment", child.Line, child.Value)
			}
			walk(child)
		}
	}
	walk(&doc)
}

// allKeys gathers the path of each key; lists of structs by their first item.
func allKeys(t reflect.Type, path string, into map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("yaml") == "" {
			continue // no key
		}
		key := join(path, f.Tag.Get("yaml"))
		into[key] = true
		switch {
		case f.Type.Kind() == reflect.Struct:
			allKeys(f.Type, key, into)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			allKeys(f.Type.Elem(), key+"[0]", into)
		}
	}
}

func TestReferenceLoads(t *testing.T) {
	cfg, err := Load(Options{File: referenceFile})
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Links[0].Name; got != "east-west" {
		t.Errorf("link %q", got)
	}
}
