package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
)

// onRecord reads the control topic of a cluster.
func onRecord(t testing.TB, c *kfake.Cluster) *control.View {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	v, err := control.Read(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// on runs a command of the real klink against a target alone.
func on(t testing.TB, c *kfake.Cluster, command string, args ...string) result {
	t.Helper()
	return execute(t.Context(), production(), append([]string{command, "--target", c.ListenAddrs()[0], "-o", "json"}, args...)...)
}

// Orders come on record on the target, also while no klink runs.
func TestOrdersOnATarget(t *testing.T) {
	c := onlyTarget(t)
	if a := decodeOrder(t, on(t, c, "pause", "orders", "--dry-run")); !a.DryRun || a.Failed != 0 || len(onRecord(t, c).Commands(config.FlagLink)) != 0 {
		t.Errorf("%+v", a)
	}
	a := decodeOrder(t, on(t, c, "pause", "orders", "--yes"))
	if a.Failed != 0 || len(a.Topics) != 1 || a.Topics[0].Detail != "no running klink: it takes effect at the next start" {
		t.Errorf("%+v", a)
	}
	if got := onRecord(t, c).Intents(config.FlagLink).Of("orders"); got.Want != intent.Paused || got.Cause.By != operator() {
		t.Errorf("%+v", got)
	}
	if a = decodeOrder(t, on(t, c, "resume", "o*", "--yes")); a.Failed != 0 {
		t.Errorf("%+v", a)
	}
	if got := onRecord(t, c).Intents(config.FlagLink).Of("orders"); got.Want != intent.Mirror {
		t.Errorf("%+v", got)
	}
	r := on(t, c, "pause", "--yes", "--link", "other")
	if r.code == 0 {
		t.Errorf("%+v", r)
	}
}

// What a klink wrote and has no record of is adopted up to where it ends, and what
// is removed leaves the target topic as it is.
func TestAdoptAndRemoveOnATarget(t *testing.T) {
	c := onlyTarget(t)
	con, err := openConsole(t.Context(), targetConfig(t, c))
	if err != nil {
		t.Fatal(err)
	}
	tails, err := con.Tails(t.Context(), "orders")
	if err != nil || len(tails) != 1 || tails[0].End != 8 || !tails[0].Own || tails[0].Epoch != 0 {
		t.Errorf("%+v, %v", tails, err)
	}
	if err := con.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := con.Adopt(t.Context(), "orders", map[int32]int64{0: 8}); err != nil {
		t.Error(err)
	}
	con.Close()
	if r, ok := onRecord(t, c).Adopt(config.FlagLink, "orders"); !ok || r.SourceID != (feed.TopicID{1}) || r.Ends[0] != 8 {
		t.Errorf("%+v", r)
	}
	if a := decodeOrder(t, on(t, c, "remove", "--yes")); a.Failed != 0 {
		t.Errorf("%+v", a)
	}
	if v := onRecord(t, c); len(v.Report().Links) != 0 || len(v.Topics(config.FlagLink)) != 0 {
		t.Errorf("%+v", v.Report())
	}
	if c.TopicInfo("orders") == nil {
		t.Error("the target topic is gone")
	}
}

// A target topic is deleted only if it is the one on record.
func TestDeleteOnATarget(t *testing.T) {
	c := onlyTarget(t)
	con, err := openConsole(t.Context(), targetConfig(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer con.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := con.Delete(t.Context(), "orders"); err != nil || c.TopicInfo("orders") != nil {
		t.Errorf("%v, %+v", err, c.TopicInfo("orders"))
	}
	remakeTopic(t, cl, "orders")
	if err := con.Delete(t.Context(), "orders"); err == nil || !strings.Contains(err.Error(), "it is another one, and is left alone") || c.TopicInfo("orders") == nil {
		t.Errorf("%v", err)
	}
	if n, err := con.Workers(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func targetConfig(t testing.TB, c *kfake.Cluster) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{TargetOnly: true, Flags: config.Flags{Target: slices.Clone(c.ListenAddrs())}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func remakeTopic(t testing.TB, cl *kgo.Client, name string) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
		t.Fatal(err)
	}
}

// A klink that has just started is not in its group yet, and runs all the same: what
// was ordered is not said to wait for the next start.
func TestOrdersToAStartingKlink(t *testing.T) {
	for name, test := range map[string]struct {
		age    time.Duration
		failed int
		says   string
	}{
		"just started":     {age: time.Second, failed: 1, says: "not confirmed within --timeout 50ms, by whoever mirrors partitions 0-1"},
		"killed long ago":  {age: joinTime + time.Minute, says: "no running klink: it takes effect at the next start"},
		"clocks disagree":  {age: -joinTime - time.Minute, says: "no running klink: it takes effect at the next start"},
		"a clock is ahead": {age: -time.Second, failed: 1, says: "not confirmed within --timeout 50ms, by whoever mirrors partitions 0-1"},
	} {
		c := onlyTarget(t)
		putOn(t, c, func(ctx context.Context, s *control.Store) error {
			return s.PutWorker(ctx, control.WorkerRecord{Link: config.FlagLink, Worker: name, At: time.Now().Add(-test.age)})
		})
		timeout := "50ms"
		if test.failed == 0 {
			timeout = "30s" // however slow the answer that nobody runs, it ends the wait
		}
		a := decodeOrder(t, on(t, c, "pause", "orders", "--yes", "--timeout", timeout))
		if a.Failed != test.failed || len(a.Topics) != 1 || a.Topics[0].Detail != test.says {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
