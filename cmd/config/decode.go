package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"klink/cmd/spell"
)

// maxDepth bounds nesting, also through aliases that contain themselves.
const maxDepth = 32

// decoder fills structs from a YAML tree. It goes on after a problem, so that
// all of them are reported at once (C2), and notes the line of every key.
type decoder struct {
	file     string
	lines    map[string]int
	problems []Problem
}

// decode reads one YAML document into v, which holds the defaults.
func decode(file string, text []byte, v any) *decoder {
	d := &decoder{file: file, lines: map[string]int{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		d.unreadable(err)
		return d
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		d.problems = append(d.problems, Problem{Kind: Unreadable, File: file,
			What: "holds more than one YAML document", Do: "keep one"})
	}
	if len(doc.Content) == 1 {
		d.value(doc.Content[0], reflect.ValueOf(v).Elem(), "", 0)
	}
	return d
}

func (d *decoder) unreadable(err error) {
	p := Problem{Kind: Unreadable, File: d.file}
	if errors.Is(err, io.EOF) {
		p.What, p.Do = "is empty", "begin with docs/reference.yaml"
	} else {
		p.What = "is no YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) report(n *yaml.Node, p Problem) {
	p.File, p.Line = d.file, n.Line
	d.problems = append(d.problems, p)
}

// value decodes n into v. A key without a value keeps its default.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	if _, seen := d.lines[path]; !seen {
		d.lines[path] = n.Line
	}
	for ; n.Kind == yaml.AliasNode; n = n.Alias {
		depth++
	}
	if depth > maxDepth {
		d.report(n, Problem{Kind: Unreadable, Field: path, What: "is nested too deeply"})
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if d.kind(n, yaml.MappingNode, path, "keys with values") {
			d.structure(n, v, path, depth)
		}
	case reflect.Map:
		if d.kind(n, yaml.MappingNode, path, "keys with values") {
			d.mapping(n, v, path, depth)
		}
	case reflect.Slice:
		if d.kind(n, yaml.SequenceNode, path, "a list") {
			d.list(n, v, path, depth)
		}
	default:
		if d.kind(n, yaml.ScalarNode, path, "a single value") {
			d.scalar(n, v, path)
		}
	}
}

var kindNames = map[yaml.Kind]string{
	yaml.MappingNode: "keys with values", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value",
}

// kind reports whether n is of the wanted kind, and the problem if not.
func (d *decoder) kind(n *yaml.Node, want yaml.Kind, path, allowed string) bool {
	if n.Kind == want {
		return true
	}
	d.report(n, Problem{Kind: WrongType, Field: path, What: "is " + kindNames[n.Kind], Allowed: allowed})
	return false
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, depth int) {
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if l, ok := out.Index(i).Addr().Interface().(*Link); ok {
			*l = DefaultLink()
		}
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
	v.Set(out)
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	out := reflect.MakeMap(v.Type())
	for _, pair := range d.pairs(n, path, depth) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(pair.value, item, join(path, pair.key), depth+1)
		out.SetMapIndex(reflect.ValueOf(pair.key), item)
	}
	v.Set(out)
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	fields := map[string]int{}
	var known []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
			known = append(known, name)
		}
	}
	for _, pair := range d.pairs(n, path, depth) {
		i, ok := fields[pair.key]
		if !ok {
			p := Problem{Kind: UnknownKey, Field: join(path, pair.key), What: "is unknown", Allowed: strings.Join(known, ", "), Do: unknownHints[pair.key]}
			if p.Do == "" {
				p.What += spell.DidYouMean(pair.key, known)
			}
			d.report(pair.at, p)
			continue
		}
		d.lines[join(path, pair.key)] = pair.at.Line
		d.value(pair.value, v.Field(i), join(path, pair.key), depth+1)
	}
}

// unknownHints says what to do about keys that people bring from elsewhere.
var unknownHints = map[string]string{
	"password":  "secrets are never read from this file: name a file (password_file) or a variable (password_env)",
	"token":     "secrets are never read from this file: name a file (token_file)",
	"bootstrap": "use brokers: [host:port]",
}

type pair struct {
	key       string
	at, value *yaml.Node
}

// pairs returns the keys of a mapping; those merged with << come first, so
// that the mapping's own ones override them.
func (d *decoder) pairs(n *yaml.Node, path string, depth int) []pair {
	var merged, own []pair
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			merged = append(merged, d.merge(v, path, depth+1)...)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			d.report(k, Problem{Kind: WrongType, Field: path, What: "has a key that is no word"})
			continue
		}
		if line, dup := seen[k.Value]; dup {
			d.report(k, Problem{Kind: Duplicate, Field: join(path, k.Value),
				What: fmt.Sprintf("stands here twice, before in line %d", line), Do: "keep one"})
			continue
		}
		seen[k.Value] = k.Line
		own = append(own, pair{key: k.Value, at: k, value: v})
	}
	return append(merged, own...)
}

// merge returns the keys of the mapping, or list of mappings, behind <<.
func (d *decoder) merge(n *yaml.Node, path string, depth int) []pair {
	for ; n.Kind == yaml.AliasNode; n = n.Alias {
		depth++
	}
	switch {
	case depth > maxDepth:
		d.report(n, Problem{Kind: Unreadable, Field: path, What: "is nested too deeply"})
		return nil
	case n.Kind == yaml.MappingNode:
		return d.pairs(n, path, depth)
	case n.Kind == yaml.SequenceNode:
		var out []pair
		for _, item := range n.Content {
			// Of several merged mappings the first has precedence: it comes last.
			out = append(d.merge(item, path, depth+1), out...)
		}
		return out
	default:
		d.report(n, Problem{Kind: WrongType, Field: path, What: "<< stands before no mapping"})
		return nil
	}
}

// scalar decodes one word or number.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if allowed := setScalar(n.Value, v); allowed != "" {
		d.report(n, Problem{Kind: BadValue, Field: path,
			What: fmt.Sprintf("%q is not allowed%s", n.Value, suggestion(n.Value, v)), Allowed: allowed})
	}
}

func suggestion(text string, v reflect.Value) string {
	if c, ok := v.Interface().(choice); ok {
		return spell.DidYouMean(text, c.choices())
	}
	return ""
}

// setScalar sets v from text, or returns what is allowed.
func setScalar(text string, v reflect.Value) (allowed string) {
	switch at := v.Addr().Interface().(type) {
	case *Bytes:
		size, ok := ParseBytes(text)
		if !ok {
			return sizeAllowed
		}
		*at = size
		return ""
	case *time.Duration:
		t, err := time.ParseDuration(text)
		if err != nil {
			return "a duration such as 500ms, 1s or 2m30s"
		}
		*at = t
		return ""
	case *Start:
		*at = Start(text)
		return at.check()
	case choice:
		return setChoice(text, v, at.choices())
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return "true or false"
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, ok := parseInt(text)
		if !ok {
			return "a whole number"
		}
		v.SetInt(n)
	case reflect.Int16:
		n, ok := parseInt(text)
		if !ok || v.OverflowInt(n) {
			return fmt.Sprintf("a whole number up to %d", math.MaxInt16)
		}
		v.SetInt(n)
	}
	return ""
}

func setChoice(text string, v reflect.Value, choices []string) (allowed string) {
	for _, c := range choices {
		if text == c {
			v.SetString(text)
			return ""
		}
	}
	return listChoices(choices)
}

func listChoices(choices []string) string {
	shown := make([]string, len(choices))
	for i, c := range choices {
		shown[i] = c
		if c == "" {
			shown[i] = `""`
		}
	}
	return strings.Join(shown, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
