package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// unbuilt are the keys of a link whose features this version does not have;
// each is refused unless it, and all below it, hold their defaults (C4).
var unbuilt = []struct{ key, feature string }{
	{"acls.sync", "carrying over ACLs"},
}

// built refuses what this version does not have.
func (c *checker) built(l *Link, path string) {
	def := DefaultLink()
	for _, u := range unbuilt {
		got, want := lookupKey(reflect.ValueOf(l).Elem(), u.key), lookupKey(reflect.ValueOf(&def).Elem(), u.key)
		if show(got) == show(want) {
			continue
		}
		c.add(path+"."+u.key, Problem{Kind: NotBuilt,
			What:    fmt.Sprintf("%s: %s is not built in this version of klink", show(got), u.feature),
			Allowed: show(want) + " (the default)"})
	}
}

// lookupKey returns the field behind a dotted key; an index such as links[0]
// picks an item.
func lookupKey(v reflect.Value, key string) reflect.Value {
	for name := range strings.SplitSeq(key, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		t := v.Type()
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("yaml") == name {
				v = v.Field(i)
				break
			}
		}
		if n, err := strconv.Atoi(index); indexed && err == nil {
			v = v.Index(n)
		}
	}
	return v
}

// show writes a value as it stands in the file.
func show(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Slice && v.Len() == 0:
		return "[]"
	case v.Kind() == reflect.String && v.Len() == 0:
		return `""`
	default:
		return fmt.Sprint(v.Interface())
	}
}
