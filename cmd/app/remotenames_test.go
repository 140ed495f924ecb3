package app

import "testing"

func TestRemoteNames(t *testing.T) {
	def := remoteNames{source: "a", target: "b", separator: "."}
	same := def
	same.identity = true
	for topic, want := range map[string]struct {
		remote, identity            string
		internal, heartbeats, cycle bool
	}{
		"orders":                      {remote: "a.orders", identity: "orders"},
		"c.orders":                    {remote: "a.c.orders", identity: "c.orders"},
		"b.orders":                    {remote: "a.b.orders", identity: "b.orders", cycle: true},
		"c.b.orders":                  {remote: "a.c.b.orders", identity: "c.b.orders", cycle: true},
		"a.orders":                    {remote: "a.a.orders", identity: "a.orders", cycle: true},
		"b.":                          {remote: "a.b.", identity: "b."},
		"b..x":                        {remote: "a.b..x", identity: "b..x", cycle: true},
		".x":                          {remote: "a..x", identity: ".x"},
		"heartbeats":                  {remote: "a.heartbeats", identity: "a.heartbeats", heartbeats: true},
		"b.heartbeats":                {remote: "a.b.heartbeats", identity: "a.b.heartbeats", heartbeats: true, cycle: true},
		"my-heartbeats":               {remote: "a.my-heartbeats", identity: "a.my-heartbeats"},
		"mm2-offset-syncs.b.internal": {remote: "a.mm2-offset-syncs.b.internal", identity: "mm2-offset-syncs.b.internal", internal: true, cycle: true},
		"x.checkpoints.internal":      {remote: "a.x.checkpoints.internal", identity: "x.checkpoints.internal", internal: true},
		"foo.internal":                {remote: "a.foo.internal", identity: "foo.internal"},
	} {
		if got := def.Remote(topic); got != want.remote {
			t.Errorf("%s is called %s", topic, got)
		}
		if got := same.Remote(topic); got != want.identity {
			t.Errorf("%s is called %s by identity", topic, got)
		}
		if def.Internal(topic) != want.internal || def.Heartbeats(topic) != want.heartbeats || def.Cycle(topic) != want.cycle {
			t.Errorf("%s: internal %v, heartbeats %v, cycle %v", topic, def.Internal(topic), def.Heartbeats(topic), def.Cycle(topic))
		}
		if same.Cycle(topic) {
			t.Errorf("%s is a cycle by identity", topic)
		}
	}
}
