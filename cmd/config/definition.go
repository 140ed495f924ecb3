package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Definition is the link as YAML, as it would stand among the links of a file, in
// the order of the reference. It holds no secret (C3). Defaults are written out,
// so that a later version with other ones reads the same link; only what is empty
// and empty by default is left out.
func (l Link) Definition() string {
	n := definition(reflect.ValueOf(l), reflect.ValueOf(DefaultLink()))
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(n)
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("config: a link of plain values is no YAML: %v", err))
	}
	return b.String()
}

// ParseDefinition reads what Definition wrote, in this version or an earlier one; ok
// is false where the text is something else, or empty. The link is not validated.
func ParseDefinition(text string) (l Link, ok bool) {
	l = DefaultLink()
	d := decode("", []byte(text), &l)
	return l, len(d.problems) == 0
}

// definition turns a struct into a mapping.
func definition(v, def reflect.Value) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := range v.NumField() {
		if isEmpty(v.Field(i)) && isEmpty(def.Field(i)) {
			continue
		}
		out.Content = append(out.Content, word(v.Type().Field(i).Tag.Get("yaml")), node(v.Field(i), def.Field(i)))
	}
	return out
}

// isEmpty is reflect.Value.IsZero, but an empty list or map is empty as well.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !isEmpty(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}

func node(v, def reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Struct:
		return definition(v, def)
	case reflect.Slice:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for i := range v.Len() {
			out.Content = append(out.Content, node(v.Index(i), v.Index(i)))
		}
		return out
	case reflect.Map:
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(v.Interface().(map[string]string))) {
			out.Content = append(out.Content, word(k), word(v.MapIndex(reflect.ValueOf(k)).String()))
		}
		return out
	case reflect.String:
		return word(v.String())
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v.Bool())}
	case reflect.Int, reflect.Int16:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v.Int())}
	default: // sizes, durations and counts of offsets write themselves
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
	}
}

// word is quoted where it would be taken for something else.
func word(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}
