package topics

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

// T6: what the source changes is followed, what the target's owner changed is
// left alone.
func TestEnsureFollowsTheCleaner(t *testing.T) {
	recorded := func(kv ...string) Recorded {
		r := Recorded{Source: make(map[string]string)}
		for i := 0; i < len(kv); i += 2 {
			r.Source[kv[i]] = kv[i+1]
		}
		return r
	}
	held := recorded(keyCleanup, "delete", keyTombstones, "1000")
	held.PolicyHeld = true
	for name, c := range map[string]struct {
		source, target Settings
		rec            Recorded
		overrides      map[string]string
		want           []Correction
		reason         state.Reason
		policy         string
	}{
		"to compact":         {explicit(keyCleanup, "compact"), explicit(keyCleanup, "delete"), recorded(keyCleanup, "delete"), nil, []Correction{{keyCleanup, "delete", "compact", false}}, "", "compact"},
		"to delete":          {explicit(keyCleanup, "delete"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "compact"), nil, []Correction{{keyCleanup, "compact", "delete", true}}, "", "delete"},
		"to both":            {explicit(keyCleanup, "compact,delete"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "compact"), nil, []Correction{{keyCleanup, "compact", "compact,delete", false}}, "", "compact,delete"},
		"other words order":  {explicit(keyCleanup, "compact,delete"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "delete, compact"), nil, nil, "", "compact"},
		"the target is so":   {explicit(keyCleanup, "compact"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "delete"), nil, nil, "", "compact"},
		"the owner's wish":   {explicit(keyCleanup, "compact"), explicit(keyCleanup, "delete"), recorded(keyCleanup, "compact"), nil, nil, "", "delete"},
		"the owner's error":  {explicit(keyCleanup, "delete"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "delete"), nil, nil, state.TopicRefused, "compact"},
		"new":                {explicit(keyCleanup, "compact"), explicit(keyCleanup, "delete"), recorded(), nil, nil, "", "delete"},
		"not visible":        {nil, explicit(keyCleanup, "compact"), recorded(keyCleanup, "delete"), nil, nil, "", "compact"},
		"padded":             {explicit(keyCleanup, "compact", keyTombstones, "2000"), explicit(keyCleanup, "delete", keyTombstones, "1000"), held, nil, []Correction{{keyTombstones, "1000", "2000", false}}, "", "delete"},
		"tombstones":         {explicit(keyCleanup, "compact", keyTombstones, "2000"), explicit(keyCleanup, "compact"), recorded(keyCleanup, "compact", keyTombstones, "1000"), nil, []Correction{{keyTombstones, "86400000", "2000", false}}, "", "compact"},
		"overridden":         {explicit(keyTombstones, "2000"), explicit(keyTombstones, "5"), recorded(keyTombstones, "1000"), map[string]string{keyTombstones: "5"}, nil, "", "delete"},
		"an unknown setting": {explicit(keyMaxLag, "2000"), Settings{}, recorded(keyMaxLag, "1000"), nil, nil, "", "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			configs := map[string]string{keyRetainMs: "-1"}
			for k, v := range c.target {
				configs[k] = v.Value
			}
			must(t, cluster.CreateTopic("orders", 1, configs))
			p := plan("orders", 1, c.source)
			p.Overrides, p.Recorded = c.overrides, func() Recorded { return c.rec }
			o := ensure(t, newClient(t, cluster), p)[0]
			if d := cmp.Diff(c.want, o.Changed); d != "" || o.Reason != c.reason || o.CleanupPolicy != c.policy {
				t.Errorf("%s%+v", d, o)
			}
			if got := config(cluster, "orders", keyCleanup); got != c.policy && (got != "" || c.policy != "delete") {
				t.Errorf("the policy is %q, want %q", got, c.policy)
			}
		})
	}
}

// What could not be followed is told, so that the record keeps the value of
// before and it is tried again.
func TestUnfollowed(t *testing.T) {
	for name, c := range map[string]struct {
		source Settings
		rights []kmsg.ACLOperation
		held   bool
		want   []string
	}{
		"no right to change": {explicit(keyTombstones, "2000", keyMaxMessage, "9999999"), []kmsg.ACLOperation{opDescribe, opDescribeConfigs}, false, []string{keyTombstones}},
		"no right to look":   {explicit(keyTombstones, "2000"), []kmsg.ACLOperation{opDescribe}, false, []string{keyCleanup, keyTombstones, keyMinLag, keyMaxLag}},
		"held":               {explicit(keyCleanup, "compact"), []kmsg.ACLOperation{opDescribe, opDescribeConfigs, opAlterConfigs}, true, []string{keyCleanup}},
		"held, unchanged":    {explicit(keyCleanup, "delete"), []kmsg.ACLOperation{opDescribe, opDescribeConfigs, opAlterConfigs}, true, nil},
		"followed":           {explicit(keyTombstones, "2000"), []kmsg.ACLOperation{opDescribe, opDescribeConfigs, opAlterConfigs}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cl := guarded(t, allow("orders", c.rights...)...)
			must(t, cluster.CreateTopic("orders", 1, map[string]string{keyCleanup: "delete", keyRetainMs: "-1"}))
			p := plan("orders", 1, c.source)
			p.Recorded = func() Recorded {
				return Recorded{Source: map[string]string{keyCleanup: "delete", keyTombstones: "1000"}, PolicyHeld: c.held}
			}
			o := ensure(t, cl, p)[0]
			usable(t, []Outcome{o})
			if d := cmp.Diff(c.want, o.Unfollowed); d != "" {
				t.Errorf("%s%+v", d, o)
			}
		})
	}
}

// Padding puts its goal on record before it changes the policy; so a record that
// is read after the topic was described always explains what is seen there.
func TestTheRecordIsAskedAfterTheTopic(t *testing.T) {
	c := newCluster(t)
	must(t, c.CreateTopic("orders", 1, map[string]string{keyCleanup: "delete", keyRetainMs: "-1"}))
	var padding atomic.Bool // on record from just before the topic is described
	c.ControlKey(int16(kmsg.DescribeConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if r.(*kmsg.DescribeConfigsRequest).Resources[0].ResourceName == "orders" {
			padding.Store(true)
		}
		return nil, nil, false
	})
	p := plan("orders", 1, explicit(keyCleanup, "compact"))
	p.Recorded = func() Recorded {
		return Recorded{Source: map[string]string{keyCleanup: "delete"}, PolicyHeld: padding.Load()}
	}
	o := ensure(t, newClient(t, c), p)[0]
	if !padding.Load() || len(o.Changed) != 0 || config(c, "orders", keyCleanup) != "delete" {
		t.Errorf("padding %v, %+v", padding.Load(), o)
	}
}

func TestFollowWithoutTheRight(t *testing.T) {
	cluster, cl := guarded(t, allow("orders", opDescribe, opDescribeConfigs)...)
	must(t, cluster.CreateTopic("orders", 1, map[string]string{keyCleanup: "compact", keyRetainMs: "-1"}))
	p := plan("orders", 1, explicit(keyCleanup, "delete"))
	p.Recorded = func() Recorded { return Recorded{Source: map[string]string{keyCleanup: "compact"}} }
	if o := ensure(t, cl, p)[0]; o.Reason != state.NoPermission || !strings.Contains(o.Detail, "AlterConfigs on topic orders") || o.CleanupPolicy != "compact" {
		t.Errorf("%+v", o)
	}
}

func TestEnsureCopiesRetention(t *testing.T) {
	c := newCluster(t)
	p := plan("orders", 1, explicit(keyRetainMs, "1000"))
	p.CopyRetention = true
	usable(t, ensure(t, newClient(t, c), p))
	if ms, size := config(c, "orders", keyRetainMs), config(c, "orders", keyRetainSize); ms != "1000" || size != "-1" {
		t.Errorf("retention %s ms, %s bytes", ms, size)
	}
	// The source's owner changes it, and the link's operator changes his mind.
	p.Source.Configs = explicit(keyRetainMs, "2000", keyRetainSize, "77")
	usable(t, ensure(t, newClient(t, c), p))
	if ms, size := config(c, "orders", keyRetainMs), config(c, "orders", keyRetainSize); ms != "2000" || size != "77" {
		t.Errorf("retention %s ms, %s bytes", ms, size)
	}
	p.CopyRetention = false
	usable(t, ensure(t, newClient(t, c), p))
	if ms, size := config(c, "orders", keyRetainMs), config(c, "orders", keyRetainSize); ms != "-1" || size != "-1" {
		t.Errorf("retention %s ms, %s bytes", ms, size)
	}
}
