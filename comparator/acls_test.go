package comparator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Rules are compared as they are in force for each topic, whatever pattern they are
// put by.
func TestContrastACLs(t *testing.T) {
	read, write, deny := rule{"User:a", "*", "READ", "ALLOW"}, rule{"User:a", "*", "WRITE", "ALLOW"}, rule{"User:b", "10.0.0.1", "READ", "DENY"}
	src := []placed{{read, "orders", false}, {write, "ord", true}, {deny, everyTopic, false}, {write, "other", false}}
	dst := []placed{{read, "x.", true}, {deny, "x.orders", false}, {write, "orders", false}, {write, "x.payments", false}, {deny, everyTopic, true}}
	equal, got := contrastACLs([]Topic{{"orders", "x.orders"}, {"payments", "x.payments"}}, src, dst)
	diff := func(topic string, kind Kind, r rule) ACLDifference {
		return ACLDifference{SourceTopic: topic, TargetTopic: "x." + topic, Kind: kind, Principal: r.principal, Host: r.host, Operation: r.operation, Permission: r.permission}
	}
	want := []ACLDifference{diff("orders", Missing, write), diff("payments", Missing, deny), diff("payments", Extra, read), diff("payments", Extra, write)}
	if d := cmp.Diff(want, got); d != "" || equal != 2 {
		t.Errorf("%d equal (-want +got):\n%s", equal, d)
	}
}

// Where a cluster does not tell its rules the result says why, and does not count
// as equal.
func TestCompareACLs(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		allow := func(side Side, who string) {
			t.Helper()
			b := kadm.NewACLs().Topics("t").Allow(who).AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
			if r, err := kadm.NewClient(w.clients[side]).CreateACLs(t.Context(), b); err != nil || r[0].Err != nil {
				t.Fatal(err, r)
			}
		}
		allow(Source, "User:a")
		allow(Target, "User:a")
		wanted := func(o *Options) { o.ACLs = true }
		if r := w.compare(wanted); !r.Equal || len(r.ACLs) != 1 || r.ACLs[0].Equal != 1 {
			t.Errorf("%+v", r.ACLs)
		}
		if r := w.compare(nil); r.ACLs != nil {
			t.Errorf("nobody asked: %+v", r.ACLs)
		}
		allow(Target, "User:b")
		if r := w.compare(wanted); r.Equal || r.Differences != 1 || r.ACLs[0].Differences[0].Kind != Extra || r.ACLs[0].Differences[0].Principal != "User:b" {
			t.Errorf("%+v", r.ACLs)
		}
		var code *kerr.Error
		w.clusters[Source].ControlKey(int16(kmsg.DescribeACLs), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.clusters[Source].KeepControl()
			resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
			resp.ErrorCode = code.Code
			return resp, nil, true
		})
		for _, tc := range []struct {
			code *kerr.Error
			says string
		}{{kerr.ClusterAuthorizationFailed, "source: not authorised to see access rules"}, {kerr.SecurityDisabled, "the source has no authorizer"}} {
			code = tc.code
			if r := w.compare(wanted); r.Equal || r.Failed != 1 || !strings.Contains(r.ACLs[0].Error, tc.says) {
				t.Errorf("%v: %+v", tc.code, r.ACLs)
			}
		}
	})
}
