package topics

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"klink/linker/remote"
	"klink/linker/state"
)

func TestRestorations(t *testing.T) {
	mirrored := func(more ...string) Settings {
		s := explicit(keyCompress, "producer", keyTimestamps, "CreateTime", keyBefore, unlimited, keyAfter, unlimited, keyMaxMessage, "1048588",
			keyRetainMs, "-1", keyRetainSize, "-1", keyCleanup, "delete")
		for i := 0; i < len(more); i += 2 {
			s[more[i]] = Setting{Value: more[i+1], Explicit: true}
		}
		return s
	}
	denied := &remote.Fault{Op: "describe configs", Reason: state.NoPermission, Err: kerr.TopicAuthorizationFailed}
	for name, c := range map[string]struct {
		source Settings
		have   described
		want   map[string]string
		notes  int
		err    bool
	}{
		"retention by the source's brokers": {inherited(Settings{}, keyRetainMs, "604800000", keyRetainSize, "-1"), described{settings: mirrored()},
			map[string]string{keyRetainMs: "604800000"}, 0, false},
		"all that is forced": {explicit(keyCompress, "zstd", keyTimestamps, "LogAppendTime", keyBefore, "1", keyAfter, "2", keyMaxMessage, "1000", keyRetainMs, "3", keyRetainSize, "4"),
			described{settings: mirrored()}, map[string]string{keyCompress: "zstd", keyTimestamps: "LogAppendTime", keyBefore: "1", keyAfter: "2", keyMaxMessage: "1000", keyRetainMs: "3", keyRetainSize: "4"}, 0, false},
		"in force already":                 {explicit(keyRetainMs, "7"), described{settings: mirrored(keyRetainMs, "7")}, nil, 0, false},
		"set by the operator since":        {explicit(keyRetainMs, "7"), described{settings: mirrored(keyRetainMs, "9")}, nil, 1, false},
		"a limit raised by the link":       {explicit(keyMaxMessage, "1000"), described{settings: mirrored(keyMaxMessage, "5000000")}, nil, 1, false},
		"a name that the target lacks":     {explicit(keyDifference, "5"), described{settings: mirrored()}, nil, 0, false},
		"what is followed is left alone":   {explicit(keyCleanup, "compact"), described{settings: mirrored()}, nil, 0, false},
		"the source was never seen":        {nil, described{settings: mirrored()}, nil, 1, false},
		"the target cannot be seen":        {explicit(keyRetainMs, "7", keyBefore, "1"), described{err: denied}, map[string]string{keyRetainMs: "7"}, 1, false},
		"the target topic is not there":    {explicit(keyRetainMs, "7"), described{err: kerr.UnknownTopicOrPartition}, nil, 0, true},
		"larger messages are as they were": {explicit(keyMaxMessage, "5000000"), described{settings: mirrored(keyMaxMessage, "5000000")}, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, notes, err := restorations(c.source, c.have)
			got := map[string]string{}
			for _, s := range set {
				got[s.Key] = s.Want
			}
			if c.want == nil {
				c.want = map[string]string{}
			}
			if d := cmp.Diff(c.want, got); d != "" || len(notes) != c.notes || (err != nil) != c.err {
				t.Errorf("%s notes %q, err %v", d, notes, err)
			}
		})
	}
}

// TestForcedValuesAreThoseOfThePlan: what is taken back is what was set.
func TestForcedValuesAreThoseOfThePlan(t *testing.T) {
	source := explicit(keyCompress, "zstd", keyTimestamps, "LogAppendTime", keyBefore, "1", keyAfter, "2", keyDifference, "3", keyMaxMessage, "2000000", keyRetainMs, "3", keyRetainSize, "4")
	p := PlanConfigs(ConfigInput{Source: source, Known: known(keyBefore, keyAfter, keyDifference)})
	n := 0
	for _, kv := range p.Set {
		for _, k := range forced {
			if k == kv.Key {
				n++
				if got := forcedValue(k, source[k].Value); got != kv.Value {
					t.Errorf("%s: forced is %s, taken back is %s", k, kv.Value, got)
				}
			}
		}
	}
	if n != len(forced) {
		t.Errorf("%d settings compared", n)
	}
}

// TestRestoreOnACluster: each topic by itself, and again.
func TestRestoreOnACluster(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c)
	adm := kadm.NewClient(cl)
	ctx := testContext(t)
	off := map[string]*string{keyRetainMs: kadm.StringPtr("-1"), keyCompress: kadm.StringPtr("producer")}
	for _, name := range []string{"a", "b"} {
		_, err := adm.CreateTopic(ctx, 1, 1, off, name)
		must(t, err)
	}
	dst := NewTarget(cl, "a")
	for range 2 {
		got := dst.Restore(ctx, []Restoration{
			{Target: "a", Source: explicit(keyRetainMs, "1000", keyCompress, "zstd")},
			{Target: "gone", Source: explicit(keyRetainMs, "1000")},
			{Target: "b"}})
		if len(got) != 3 || got[0].Err != nil || got[1].Err == nil || got[2].Err != nil || len(got[2].Notes) != 1 {
			t.Fatalf("got %+v", got)
		}
	}
	have, err := describeConfigs(ctx, cl, []string{"a", "b"})
	must(t, err)
	if s := have["a"].settings; s[keyRetainMs].Value != "1000" || s[keyCompress].Value != "zstd" {
		t.Errorf("a has %v", s)
	}
	if s := have["b"].settings; s[keyRetainMs].Value != "-1" {
		t.Errorf("b has %v", s)
	}
}

// TestRestoreWithoutTheRight names it.
func TestRestoreWithoutTheRight(t *testing.T) {
	c, cl := guarded(t, allow("a", opDescribe, opDescribeConfigs)...)
	root := newClient(t, c, kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
	_, err := kadm.NewClient(root).CreateTopic(testContext(t), 1, 1, map[string]*string{keyRetainMs: kadm.StringPtr("-1")}, "a")
	must(t, err)
	got := NewTarget(cl, "a").Restore(testContext(t), []Restoration{{Target: "a", Source: explicit(keyRetainMs, "1000")}})
	var f *remote.Fault
	if !errors.As(got[0].Err, &f) || f.Reason != state.NoPermission || !strings.Contains(f.Error(), "AlterConfigs on topic a") || len(got[0].Changed) > 0 {
		t.Errorf("got %+v", got[0])
	}
}

// TestRestoreWithoutWhatIsRefused: a policy forbids one setting, retention comes
// on all the same.
func TestRestoreWithoutWhatIsRefused(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "a"))
	cl := newClient(t, c)
	refuseAlter(c, keyAfter)
	w := &work{plan: Plan{Target: "a"}, out: &Outcome{Changed: []Correction{{Key: keyRetainMs, Want: "5"}, {Key: keyAfter, Want: "1"}}}}
	var r Restored
	NewTarget(cl, "a").restore(testContext(t), []*work{w}, map[*work]*Restored{w: &r})
	if r.Err != nil || len(r.Changed) != 1 || r.Changed[0].Key != keyRetainMs || len(r.Notes) != 1 {
		t.Errorf("got %+v", r)
	}
}

// refuseAlter answers changes of a config as a broker's policy does.
func refuseAlter(c *kfake.Cluster, key string) {
	c.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.IncrementalAlterConfigsRequest)
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		refused := false
		for _, res := range req.Resources {
			a := kmsg.NewIncrementalAlterConfigsResponseResource()
			a.ResourceType, a.ResourceName = res.ResourceType, res.ResourceName
			for _, cfg := range res.Configs {
				if cfg.Name == key {
					a.ErrorCode, refused = kerr.PolicyViolation.Code, true
				}
			}
			resp.Resources = append(resp.Resources, a)
		}
		return resp, nil, refused
	})
}
