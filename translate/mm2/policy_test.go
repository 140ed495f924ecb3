package mm2

import "testing"

// TestNamesTakenApart is DefaultReplicationPolicy's table.
func TestNamesTakenApart(t *testing.T) {
	const none = "-"
	for _, c := range []struct{ separator, topic, source, upstream, original string }{
		{"", "orders", none, none, "orders"},
		{"", "src.orders", "src", "orders", "orders"},
		{"", "a.src.orders", "a", "src.orders", "orders"},
		{"", "src.", none, none, "src."},
		{"", "src..x", "src", ".x", "x"},
		{"", ".x", "", "x", "x"},
		{"", "..x", "", ".x", "x"},
		{"", ".", none, none, "."},
		{"", "", none, none, ""},
		{"", "order.events", "order", "events", "events"},
		{"_", "src.orders", none, none, "src.orders"},
		{"_", "src_orders", "src", "orders", "orders"},
		{"--", "a---b", "a", "-b", "-b"},
		{"--", "a----", none, none, "a----"},
	} {
		p := Policy{Source: "a", Target: "b", Separator: c.separator}
		source, ok := p.TopicSource(c.topic)
		if !ok {
			source = none
		}
		upstream, ok := p.Upstream(c.topic)
		if !ok {
			upstream = none
		}
		if original := p.Original(c.topic); source != c.source || upstream != c.upstream || original != c.original {
			t.Errorf("%q by %q: source %q, upstream %q, original %q", c.topic, c.separator, source, upstream, original)
		}
	}
}

func TestIdentity(t *testing.T) {
	p := Policy{Source: "src", Target: "tgt", Identity: true}
	for topic, remote := range map[string]string{"orders": "orders", "src.orders": "src.orders", "heartbeats": "src.heartbeats", "my-heartbeats": "src.my-heartbeats"} {
		if got := p.Remote(topic); got != remote {
			t.Errorf("%s is called %s", topic, got)
		}
	}
	if source, ok := p.TopicSource("x.orders"); !ok || source != "src" {
		t.Errorf("a topic of %q, %v", source, ok)
	}
	if source, ok := p.TopicSource("x.heartbeats"); !ok || source != "x" {
		t.Errorf("heartbeats of %q, %v", source, ok)
	}
	if _, ok := p.TopicSource("heartbeats"); ok {
		t.Error("its own heartbeats have a source")
	}
	if _, ok := (Policy{Identity: true}).TopicSource("orders"); ok {
		t.Error("a source without an alias")
	}
	if p.Original("x.orders") != "x.orders" || p.Original("x.y.heartbeats") != "heartbeats" {
		t.Error("originals")
	}
}

func TestOwnNames(t *testing.T) {
	for name, c := range map[string]struct {
		policy                                                 Policy
		checkpoints, onSource, onTarget, heartbeats, positions string
	}{
		"default":   {Policy{}, "src.checkpoints.internal", "mm2-offset-syncs.tgt.internal", "mm2-offset-syncs.src.internal", "src.heartbeats", "mm2-offsets.src.internal"},
		"identity":  {Policy{Identity: true}, "src.checkpoints.internal", "mm2-offset-syncs.tgt.internal", "mm2-offset-syncs.src.internal", "src.heartbeats", "mm2-offsets.src.internal"},
		"separator": {Policy{Separator: "_"}, "src_checkpoints_internal", "mm2-offset-syncs_tgt_internal", "mm2-offset-syncs_src_internal", "src_heartbeats", "mm2-offsets.src.internal"},
		"dots kept": {Policy{Separator: "_", DotsInside: true}, "src.checkpoints.internal", "mm2-offset-syncs.tgt.internal", "mm2-offset-syncs.src.internal", "src_heartbeats", "mm2-offsets.src.internal"},
	} {
		p := c.policy
		p.Source, p.Target = "src", "tgt"
		got := []string{p.CheckpointsTopic(), p.OffsetSyncsOnSource(), p.OffsetSyncsOnTarget(), p.RemoteHeartbeats(), p.ConnectOffsetsTopic()}
		for i, want := range []string{c.checkpoints, c.onSource, c.onTarget, c.heartbeats, c.positions} {
			if got[i] != want {
				t.Errorf("%s: %s in place of %s", name, got[i], want)
			}
		}
		if !p.Own(got[0]) || !p.Own(got[1]) || !p.Own(got[2]) || !p.Checkpoints(got[0]) || p.Checkpoints(got[1]) || !p.Heartbeats(got[3]) {
			t.Errorf("%s does not know its own topics", name)
		}
	}
}

func TestWhatIsNotMirrored(t *testing.T) {
	def := Policy{Source: "a", Target: "b"}
	same := def
	same.Identity = true
	for topic, want := range map[string]struct{ internal, heartbeats, cycle, sameHeartbeats, sameCycle bool }{
		"orders":                       {},
		"c.orders":                     {},
		"b.orders":                     {cycle: true},
		"c.b.orders":                   {cycle: true},
		"a.orders":                     {cycle: true},
		"b.":                           {},
		"b..x":                         {cycle: true},
		".b.x":                         {internal: true, cycle: true},
		"heartbeats":                   {heartbeats: true, sameHeartbeats: true},
		"c.heartbeats":                 {heartbeats: true, sameHeartbeats: true},
		"b.heartbeats":                 {heartbeats: true, cycle: true, sameHeartbeats: true, sameCycle: true},
		"my-heartbeats":                {},
		"__consumer_offsets":           {internal: true},
		"foo.internal":                 {},
		"foo-internal":                 {},
		"mm2-offset-syncs.b.internal":  {internal: true, cycle: true},
		"mm2-configs.a.internal":       {internal: true, cycle: true},
		"c.mm2-offset-syncs.internal":  {},
		"c.checkpoints.internal":       {internal: true},
		"a.b.checkpoints.internal":     {internal: true, cycle: true},
		"checkpoints.internal":         {},
		"mm2-offset-syncs_b_internal":  {},
		"mm2.checkpoints.internal.old": {},
	} {
		if def.Internal(topic) != want.internal || def.Heartbeats(topic) != want.heartbeats || def.Cycle(topic) != want.cycle {
			t.Errorf("%s: internal %v, heartbeats %v, cycle %v", topic, def.Internal(topic), def.Heartbeats(topic), def.Cycle(topic))
		}
		if same.Heartbeats(topic) != want.sameHeartbeats || same.Cycle(topic) != want.sameCycle {
			t.Errorf("%s by identity: heartbeats %v, cycle %v", topic, same.Heartbeats(topic), same.Cycle(topic))
		}
	}
}

func TestCheckpointsNameTopicsOfTheTarget(t *testing.T) {
	p := Policy{Source: "a", Target: "b"}
	for topic, want := range map[string]string{"orders": "a.orders", "c.orders": "a.c.orders", "b.orders": "orders", "b.c.orders": "orders"} {
		if got := p.Downstream(topic); got != want {
			t.Errorf("%s is %s there, not %s", topic, got, want)
		}
	}
	p.Identity = true
	if got := p.Downstream("b.orders"); got != "b.orders" {
		t.Errorf("by identity: %s", got)
	}
}
