package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// TestFillRights: what a transactional topic needs beyond a plain one is Read on
// the link's group, and Alter or ClusterAction on the cluster. Without them it
// waits or halts and names what is missing, a plain topic of the same link goes
// on, and it recovers by itself.
func TestFillRights(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	s := &secured{pair: p}
	topics := []string{"plain", "txn"}
	if err := shapes.Small(within(t, patience), p.src, shapes.Place{Topic: "txn", Partitions: 2, Seed: 5}, 50); err != nil {
		t.Fatal(err)
	}
	total := fill(t, p.src, 81, 1_000, lab.TopicSpec{Name: "plain", Partitions: 2})
	for _, topic := range append(topics, "__klink") {
		grant(t, p.dst, writersRights(topic)...)
	}
	file := configFile(t, object{"name": "guarded", "topics": object{"include": topics}, "source": object{"brokers": p.src.Bootstrap()},
		"target": secureSide(p.dst, password(lab.Plain, s.secretFile(t, p.dst.Password(principal))))})
	k := startKlink(t, "-c", file)
	plainGoesOn := func() {
		t.Helper()
		total += produce(t, p.src, lab.LoadOptions{Topics: []string{"plain"}, Seed: uint64(total), Total: 200}).Acked
		requireMirrored(t, p, total, "plain")
		k.awaitTopic(t, "plain", state.Active, "")
	}

	k.awaitTopic(t, "txn", state.TargetUnavailable, state.NoPermission, "missing right: Read on group guarded-klink")
	plainGoesOn()
	allow(t, p.dst, kadm.NewACLs().Groups("guarded-klink").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead))

	const markers = "missing right: Alter (or ClusterAction) on the cluster"
	k.awaitTopic(t, "txn", state.Halted, state.NoPermission, markers)
	plainGoesOn()
	k.requireSaidOnce(t)
	// A failover would need the same right: it is told long before.
	k.await(t, "a warning of what a failover would miss", func(l state.Link) bool {
		return slices.ContainsFunc(l.Warnings, func(w state.Warning) bool {
			return strings.Contains(w.Right, "Alter (or ClusterAction) on the cluster") && strings.Contains(w.Detail, "fence")
		})
	})
	for _, enough := range []kadm.ACLOperation{kadm.OpAlter, kadm.OpClusterAction} {
		acl := kadm.NewACLs().Clusters().Operations(enough)
		allow(t, p.dst, acl)
		requireSameView(t, p, "txn")
		k.awaitTopic(t, "txn", state.Active, "")
		gone, err := admin(t, p.dst).DeleteACLs(within(t, patience), acl)
		if err != nil || len(gone) != 1 || gone[0].Err != nil || len(gone[0].Deleted) != 1 {
			t.Fatalf("revoke: %v, %+v", err, gone)
		}
		transact(t, p.src, "txn", 2)
		k.awaitTopic(t, "txn", state.Halted, state.NoPermission, markers)
	}
	plainGoesOn()
	k.stop(t)
}
