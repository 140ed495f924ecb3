package e2e

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/cmd/lab/proxy"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/workers"
)

const workersGroup = "mirror-klink"

// startMember starts one process's membership; its requests carry the name as
// client id. The returned function ends it.
func startMember(t testing.TB, name string, opts []kgo.Opt, topics ...string) (*workers.Members, func()) {
	t.Helper()
	m := workers.New(workers.Options{Group: workersGroup, Link: "mirror", NewClient: func(more ...kgo.Opt) (*kgo.Client, error) {
		own := []kgo.Opt{kgo.ClientID(name), kgo.DisableClientMetrics(), kgo.MetadataMinAge(250 * time.Millisecond)}
		return kgo.NewClient(append(append(own, opts...), more...)...)
	}})
	m.Watch(topics)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("membership: %v", err)
		}
	})
	end := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(end)
	return m, end
}

// held counts the partitions of a topic that a member holds.
func held(m *workers.Members, topic string, partitions int32) (n int) {
	for p := range partitions {
		if _, ok := m.Held(topic, p); ok {
			n++
		}
	}
	return n
}

// Design §4 and §6: workers share the target's partitions, hand over at once
// where one leaves and after its session where one falls silent, and never hold
// a partition both. They read no record.
func TestWorkersShareALease(t *testing.T) {
	t.Parallel()
	const topic, partitions = "shared", 6
	k := startOne(t, lab.KafkaOptions{Proxy: true})
	create(t, k, lab.TopicSpec{Name: topic, Partitions: partitions})
	var silent atomic.Bool
	wire := k.Brokers()[0].Proxy()
	wire.On(proxy.AnyKey, func(f proxy.Frame) proxy.Action {
		if f.ClientID == "two" && silent.Load() {
			return proxy.Swallow
		}
		return proxy.Forward
	})
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetCommit} {
		wire.On(int16(key), func(f proxy.Frame) proxy.Action {
			if f.ClientID == "one" || f.ClientID == "two" || f.ClientID == "three" {
				t.Errorf("%s sent %s", f.ClientID, key.Name())
			}
			return proxy.Forward
		})
	}
	var all []*workers.Members
	await := func(what string, is func() bool) time.Duration {
		t.Helper()
		begin := time.Now()
		eventually(t, 3*patience, what, func() bool {
			for p := range int32(partitions) {
				holders := 0
				for _, m := range all {
					if _, ok := m.Held(topic, p); ok {
						holders++
					}
				}
				if holders > 1 {
					t.Fatalf("%d workers hold partition %d", holders, p)
				}
			}
			return is()
		})
		return time.Since(begin)
	}
	start := func(name string) (*workers.Members, func()) {
		m, end := startMember(t, name, k.ClientOpts(), topic)
		all = append(all, m)
		return m, end
	}

	one, leave := start("one")
	await("the first worker", func() bool { return held(one, topic, partitions) == partitions })
	two, _ := start("two")
	await("halves", func() bool { return held(one, topic, partitions) == 3 && held(two, topic, partitions) == 3 })
	leave()
	t.Logf("taken over %v after leaving", await("the successor", func() bool { return held(two, topic, partitions) == partitions }))
	three, _ := start("three")
	await("halves again", func() bool { return held(two, topic, partitions) == 3 && held(three, topic, partitions) == 3 })
	silent.Store(true)
	lost := await("the end of the lease", func() bool { return held(two, topic, partitions) == 0 })
	taken := lost + await("the survivor", func() bool { return held(three, topic, partitions) == partitions })
	t.Logf("silent: lease over after %v, taken over after %v", lost, taken)
	// It ends by the worker's own clock; the margin is this test's too.
	if lost > workers.DefaultSessionTimeout || taken < workers.DefaultSessionTimeout-2*workers.DefaultHeartbeat {
		t.Errorf("lease over after %v, taken over after %v", lost, taken)
	}
	silent.Store(false)
	await("halves at last", func() bool { return held(two, topic, partitions) == 3 && held(three, topic, partitions) == 3 })
}

// Read on the group and Describe on the topics are enough, and what is missing
// is named.
func TestWorkersRights(t *testing.T) {
	t.Parallel()
	k := startOne(t, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	create(t, k, lab.TopicSpec{Name: "shared", Partitions: 2})
	m, _ := startMember(t, "one", k.LoginOpts(lab.Login{User: principal, Mechanism: lab.Plain}), "shared")
	missing := func(want string) {
		t.Helper()
		eventually(t, patience, "word of "+want, func() bool {
			var f *remote.Fault
			return errors.As(m.Trouble(), &f) && f.Reason == state.NoPermission && f.Right == want
		})
	}
	missing("Describe on topic shared")
	grant(t, k, right{"Describe", "shared"})
	missing("Read on group " + workersGroup)
	acl := kadm.NewACLs().Groups(workersGroup).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead).
		Allow("User:" + principal).AllowHosts("*")
	if made, err := admin(t, k).CreateACLs(within(t, patience), acl); err != nil || made[0].Err != nil {
		t.Fatalf("grant Read on the group: %v, %+v", err, made)
	}
	eventually(t, patience, "the lease", func() bool { return held(m, "shared", 2) == 2 && m.Trouble() == nil })
	if _, err := admin(t, k).DeleteACLs(within(t, patience), acl); err != nil {
		t.Fatal(err)
	}
	missing("Read on group " + workersGroup)
	eventually(t, patience, "the end of the lease", func() bool { return held(m, "shared", 2) == 0 })
}
