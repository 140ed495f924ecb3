package reverse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Renamed is a topic of the new link: its source is the promoted side's, its
// target the old source's.
type Renamed struct{ Source, Target string }

// maxDepth bounds nesting, also through aliases that contain themselves.
const maxDepth = 32

// Turned is the definition of a link that goes the other way.
type Turned struct {
	// File is a whole file.
	File string
	// Link is the link's own mapping.
	Link string
}

// TurnDefinition defines the link that goes the other way. The text is the old
// link's mapping, or a whole file with the link of that name among its links; what
// a whole file says beside them is kept. Source and target change places with all
// that belongs to them, and the topics are listed one by one with their names
// inverted: patterns could select topics that the old link still mirrors, and these
// would go in circles. All begin at the start, since what goes on in place has begun
// long ago. All else stays as it was. The error is ErrRequest.
func TurnDefinition(text, link, next string, topics []Renamed) (Turned, error) {
	file, old, err := findLink(text, link)
	if err != nil {
		return Turned{}, err
	}
	turned, err := turnLink(old, next, topics)
	if err != nil {
		return Turned{}, err
	}
	var out Turned
	if out.Link, err = encode(turned); err != nil {
		return Turned{}, err
	}
	set(file, "links", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{turned}})
	file.HeadComment = fmt.Sprintf("# Link %s goes the other way than link %s.", next, link)
	out.File, err = encode(file)
	return out, err
}

func encode(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return "", fmt.Errorf("%w: write the link as YAML: %w", ErrRequest, err)
	}
	if err := e.Close(); err != nil {
		return "", fmt.Errorf("%w: write the link as YAML: %w", ErrRequest, err)
	}
	return b.String(), nil
}

// findLink returns the file around a link, without its links, and the link. Both
// are free of anchors and aliases.
func findLink(text, name string) (file, link *yaml.Node, err error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, nil, fmt.Errorf("%w: the definition of link %q cannot be read: %w", ErrRequest, name, err)
	}
	if len(doc.Content) != 1 {
		return nil, nil, fmt.Errorf("%w: the definition of link %q is no mapping", ErrRequest, name)
	}
	root, err := flat(doc.Content[0], 0)
	if err != nil || root.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("%w: the definition of link %q is no mapping, or nested too deeply", ErrRequest, name)
	}
	links := get(root, "links")
	if links == nil {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, root, nil
	}
	for _, l := range links.Content {
		if n := get(l, "name"); n != nil && n.Value == name {
			return root, l, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: no link %q is defined", ErrRequest, name)
}

// turnLink makes the new link's mapping of the old one's.
func turnLink(old *yaml.Node, next string, topics []Renamed) (*yaml.Node, error) {
	src, dst := get(old, "source"), get(old, "target")
	if src == nil || dst == nil {
		return nil, fmt.Errorf("%w: the old link's definition names no source, or no target", ErrRequest)
	}
	link := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	set(link, "name", word(next))
	for i := 0; i+1 < len(old.Content); i += 2 {
		switch key := old.Content[i].Value; key {
		case "name", "start":
		case "source":
			set(link, key, dst)
		case "target":
			set(link, key, src)
		case "topics":
			set(link, key, turnTopics(old.Content[i+1], topics))
		case "checkpoint":
			set(link, key, turnAliases(old.Content[i+1]))
		default:
			set(link, key, old.Content[i+1])
		}
	}
	if get(link, "topics") == nil {
		set(link, "topics", turnTopics(nil, topics))
	}
	return link, nil
}

// turnTopics lists the topics and inverts their names; replication factor and
// overrides stay, for topics that have to be made.
func turnTopics(old *yaml.Node, topics []Renamed) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	include := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	names := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, t := range slices.SortedFunc(slices.Values(topics), func(a, b Renamed) int { return compareNames(a.Source, b.Source) }) {
		include.Content = append(include.Content, word(t.Source))
		if t.Source != t.Target {
			set(names, t.Source, word(t.Target))
		}
	}
	set(n, "include", include)
	if len(names.Content) > 0 {
		rename := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		set(rename, "map", names)
		set(n, "rename", rename)
	}
	if old == nil {
		return n
	}
	for i := 0; i+1 < len(old.Content); i += 2 {
		if key := old.Content[i].Value; key != "include" && key != "exclude" && key != "rename" {
			set(n, key, old.Content[i+1])
		}
	}
	return n
}

// turnAliases lets the names of the two clusters change places.
func turnAliases(old *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(old.Content); i += 2 {
		key := old.Content[i].Value
		switch key {
		case "source_alias":
			key = "target_alias"
		case "target_alias":
			key = "source_alias"
		}
		set(n, key, old.Content[i+1])
	}
	return n
}

// word is a scalar that reads as the same text again, whatever it looks like.
func word(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// get returns a key's value, nil where it is not there.
func get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set gives a key its value, at its place or at the end.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, word(key), value)
}

var errTooDeep = errors.New("nested too deeply")

// flat copies a node without anchors: what an alias stands for takes its place, and
// so do the keys that << brings in, below the mapping's own.
func flat(n *yaml.Node, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	if n.Kind == yaml.AliasNode {
		return flat(n.Alias, depth+1)
	}
	out := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	if n.Kind == yaml.MappingNode {
		return out, flatMapping(out, n, depth)
	}
	for _, c := range n.Content {
		x, err := flat(c, depth+1)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, x)
	}
	return out, nil
}

func flatMapping(out, n *yaml.Node, depth int) error {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := flat(n.Content[i+1], depth+1)
		switch {
		case err != nil:
			return err
		case n.Content[i].ShortTag() == "!!merge" && v.Kind == yaml.SequenceNode:
			merged = append(merged, v.Content...)
		case n.Content[i].ShortTag() == "!!merge":
			merged = append(merged, v)
		default:
			set(out, n.Content[i].Value, v)
		}
	}
	for _, m := range merged { // the first has precedence
		for i := 0; i+1 < len(m.Content); i += 2 {
			if get(out, m.Content[i].Value) == nil {
				set(out, m.Content[i].Value, m.Content[i+1])
			}
		}
	}
	return nil
}
