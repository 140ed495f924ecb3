package topics

import (
	"strings"
	"testing"
)

// dotted is a policy of a source "a" and a target "b".
type dotted struct{}

func (dotted) Remote(topic string) string   { return "a." + topic }
func (dotted) Internal(topic string) bool   { return strings.HasSuffix(topic, ".checkpoints.internal") }
func (dotted) Heartbeats(topic string) bool { return strings.HasSuffix(topic, "heartbeats") }
func (dotted) Cycle(topic string) bool      { return strings.HasPrefix(topic, "b.") }

func TestPolicyNamesAndLeavesOut(t *testing.T) {
	m, err := NewMatcher(Rules{Include: []string{"*", "=b.named", "__named", "=checkpoints.internal"}, Exclude: []string{"b.out"}, Policy: dotted{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Skip{
		"orders":                 "",
		"c.orders":               "", // from a third cluster
		"b.orders":               Cycle,
		"b.named":                Cycle,
		"b.out":                  Excluded,
		"heartbeats":             Heartbeats,
		"b.heartbeats":           Heartbeats,
		"x.checkpoints.internal": Internal,
		"checkpoints.internal":   Internal, // by the name it would get
		"__consumer_offsets":     BrokersOwn,
		"__klink":                KlinksOwn,
		"__named":                "",
		"__other":                LooksInternal,
	} {
		if got := m.Match(name, false); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := m.Target("orders"); got != "a.orders" {
		t.Error(got)
	}
}
