package checkpoints

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/translate/mm2"
)

func TestHeartbeatsOf(t *testing.T) {
	b := mm2.Policy{Source: "b", Target: "c"}
	for name, c := range map[string]struct {
		policy mm2.Policy
		topics []string
		want   Heartbeats
	}{
		"nothing on the source": {b, []string{"orders", "my.orders"}, Heartbeats{"heartbeats", "b.heartbeats", nil}},
		"a flow into it":        {b, []string{"heartbeats", "a.heartbeats", "z.a.heartbeats"}, Heartbeats{"heartbeats", "b.heartbeats", []string{"b.a.heartbeats", "b.z.a.heartbeats"}}},
		"a ring":                {b, []string{"heartbeats", "a.heartbeats", "c.heartbeats", "a.c.heartbeats"}, Heartbeats{"heartbeats", "b.heartbeats", []string{"b.a.heartbeats"}}},
		"another separator":     {mm2.Policy{Source: "b", Target: "c", Separator: "_"}, []string{"a_heartbeats", "a.heartbeats"}, Heartbeats{"heartbeats", "b_heartbeats", []string{"b_a_heartbeats"}}},
		"identity":              {mm2.Policy{Source: "b", Target: "c", Identity: true}, []string{"a.heartbeats", "my-heartbeats"}, Heartbeats{"heartbeats", "b.heartbeats", []string{"b.a.heartbeats"}}},
		"too long":              {b, []string{strings.Repeat("a", 238) + ".heartbeats"}, Heartbeats{"heartbeats", "b.heartbeats", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, HeartbeatsOf(c.policy, c.topics)); d != "" {
				t.Error(d)
			}
		})
	}
}
