package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/config"
	"klink/linker/state"
	"klink/translate"
	"klink/translate/mm2"
)

// translated is a translation with something of everything.
func translated(req TranslateRequest) TranslateResult {
	r := newTranslateResult("east", req)
	r.AsOf = asOf
	r.read(translate.Read{Topic: "east.checkpoints.internal", Records: 1234, Undecodable: 2, UndecodableAt: 17, Next: 2000, End: 2000, Newest: asOf.Add(-3 * time.Second), Complete: true})
	r.read(translate.Read{Topic: "mm2-offset-syncs.east.internal", Records: 10, Next: 10, End: 5000, UndecodableAt: translate.Unknown, TimedOut: true})
	at := func(topic string, n int32) (src, dst translate.Partition) {
		return translate.Partition{Topic: topic, Number: n}, translate.Partition{Topic: "east." + topic, Number: n}
	}
	src, dst := at("orders", 0)
	told := translate.Commit{Offset: 100, Origin: translate.Committed, AsOf: asOf}
	old := translate.Commit{Offset: 100, Origin: translate.Checkpointed, At: asOf.Add(-time.Hour), AsOf: asOf.Add(-10 * time.Minute)}
	src3, dst3 := at("orders", 3)
	unread, unreadTo := at("orders", 4)
	ahead, aheadTo := at("orders", 1)
	r.group("billing", []translate.Answer{
		{Source: src, Target: dst, Asked: told, Offset: 125, Kind: translate.Exact},
		{Source: ahead, Target: aheadTo, Asked: told, Offset: 90, Kind: translate.Clamped, Ahead: 7},
		{Source: src3, Target: dst3, Asked: old, Offset: 120, Kind: translate.Sampled, ReadAgain: 42,
			Checkpoint: &translate.Checkpoint{Checkpoint: mm2.Checkpoint{Up: 100, Down: 110}, At: asOf.Add(-time.Hour)}},
		{Source: unread, Target: unreadTo, Asked: told, Offset: translate.Unknown, ReadAgain: translate.Unknown, Reason: translate.MapUnreadable},
		{Source: translate.Partition{Topic: "local"}, Asked: told, Offset: translate.Unknown, ReadAgain: translate.Unknown, Reason: translate.NotMirrored},
	}, map[translate.Partition]string{unread: "a copy that is on no record"})
	r.unknownGroup("nobody", translate.NoGroup)
	return r
}

// translating returns parts that translate as told.
func translating(err error) (Parts, *TranslateRequest) {
	asked := new(TranslateRequest)
	return Parts{Translate: func(_ context.Context, _ *config.Config, req TranslateRequest) (TranslateResult, error) {
		*asked = req
		return translated(req), err
	}}, asked
}

func TestTranslate(t *testing.T) {
	parts, asked := translating(nil)
	file := configFile(t, "", "east")
	r := execute(t.Context(), parts, "translate", "-c", file, "--group", "billing", "--group", "nobody")
	if r.code != 1 || r.err != "klink: translate: no answer for 3 items\n" || asked.MirrorMaker || asked.Back || !asked.Groups.Selects("nobody") || asked.Policy.Source != "east" {
		t.Errorf("%+v, %+v", r, asked)
	}
	golden(t, "testdata/translate.golden", r.out)
	r = execute(t.Context(), parts, "translate", "-c", file, "--group", "*", "--from-mm2", "--reverse", "--source-alias", "a", "--target-alias", "b", "--separator", "_", "--replication-policy", "identity", "--timeout", "5s")
	if asked.Policy != (mm2.Policy{Source: "a", Target: "b", Separator: "_", Identity: true}) || !asked.MirrorMaker || !asked.Back || asked.Timeout != 5*time.Second {
		t.Errorf("%+v", asked)
	}
	golden(t, "testdata/translate-mm2.golden", r.out)
	r = execute(t.Context(), parts, "translate", "-c", file, "--group", "*", "-o", "json")
	golden(t, "testdata/translate-json.golden", r.out)
	golden(t, "testdata/help-translate.golden", execute(t.Context(), Parts{}, "translate", "--help").out)
}

func TestTranslateUsage(t *testing.T) {
	file := configFile(t, "", "east")
	two := configFile(t, "", "east", "west")
	for name, c := range map[string]struct {
		err  error
		args []string
		code int
		want string
	}{
		"no group":      {nil, []string{"-c", file}, 2, "name the group with --group NAME"},
		"a bad pattern": {nil, []string{"-c", file, "--group", "/(/"}, 2, "--group: include[0]"},
		"nothing":       {nil, []string{"--group", "g"}, 2, "nothing says what to mirror"},
		"two links":     {nil, []string{"-c", two, "--group", "g"}, 2, "choose with --link one of east, west"},
		"no alias":      {nil, []string{"--target", "t:1", "--group", "g", "--from-mm2"}, 2, "--source-alias NAME"},
		"policy":        {nil, []string{"-c", file, "--group", "g", "--replication-policy", "identiti"}, 2, "  --replication-policy: \"identiti\" is not allowed (did you mean identity?); allowed: default, identity\n"},
		"alias":         {nil, []string{"-c", file, "--group", "g", "--source-alias", "a b"}, 2, "  --source-alias: \"a b\" is no alias; allowed: up to 100 of a to z, "},
		"far alias":     {nil, []string{"--target", "t:1", "--group", "g", "--from-mm2", "--source-alias", "a", "--target-alias", "größe"}, 2, "  --target-alias: \"größe\" is no alias; allowed: "},
		"split alias":   {nil, []string{"--target", "t:1", "--group", "g", "--from-mm2", "--source-alias", "a.b"}, 2, "  --source-alias: \"a.b\" holds the separator \".\", so that nobody could tell where the alias ends; choose "},
		"one alias":     {nil, []string{"--target", "t:1", "--group", "g", "--from-mm2", "--source-alias", "target"}, 2, "  --target-alias: \"target\" is the alias of the source too; give each "},
		"separator":     {nil, []string{"-c", file, "--group", "g", "--separator", "/"}, 2, "  --separator: \"/\" cannot stand between an alias and a topic name; allowed: 1 to 16 of "},
		"link's name":   {nil, []string{"--target", "t:1", "--group", "g", "--link", "A_B"}, 2, "  --link: \"A_B\" is no name for a link; allowed: "},
		"timeout":       {nil, []string{"-c", file, "--group", "g", "--timeout", "0s"}, 2, "--timeout must be longer"},
		"format":        {nil, []string{"-c", file, "--group", "g", "-o", "xml"}, 2, "allowed: table, json"},
		"down":          {errors.New("target: nothing listens"), []string{"-c", file, "--group", "g"}, 1, "klink: translate: target: nothing listens\n"},
		"topic":         {nil, []string{"-c", file, "--group", "g", "ordres"}, 1, `no offset on a topic "ordres"`},
	} {
		parts, _ := translating(c.err)
		if r := execute(t.Context(), parts, append([]string{"translate"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What is not read in time says which flag gives it longer.
func TestTranslateWithoutTime(t *testing.T) {
	dst := cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "__klink", "a.checkpoints.internal"))
	for name, flags := range map[string][]string{"by the map": nil, "by MirrorMaker 2": {"--from-mm2", "--source-alias", "a"}} {
		r := execute(t.Context(), production(), append([]string{"translate", "--target", dst.ListenAddrs()[0], "--group", "g", "--timeout", "1ns"}, flags...)...)
		if r.code != 1 || !strings.Contains(r.err, "klink: translate: --timeout 1ns was over before there was anything to translate; give it longer: ") || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A source whose secrets are gone is not asked, and that is said.
func TestTranslateWithoutTheSourcesSecrets(t *testing.T) {
	text := "links:\n  - name: east\n    source: {brokers: [s:9092], sasl: {mechanism: PLAIN, username: u, password_file: " + filepath.Join(t.TempDir(), "gone") +
		"}}\n    target: {brokers: [t:9092]}\n    topics: {include: [orders]}\n"
	file := filepath.Join(t.TempDir(), "klink.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var brokers []string
	parts := Parts{Translate: func(_ context.Context, cfg *config.Config, req TranslateRequest) (TranslateResult, error) {
		brokers = cfg.Links[0].Source.Brokers
		return newTranslateResult("east", req), nil
	}}
	if r := execute(t.Context(), parts, "translate", "-c", file, "--group", "g"); r.code != 0 || len(brokers) != 0 || !strings.Contains(r.out, "note: the source is not asked: ") {
		t.Errorf("%+v, %v", r, brokers)
	}
}

// answersOf runs klink translate and gives the offsets of its answers, target then
// source, by source partition of orders; -1 is none.
func answersOf(t testing.TB, code int, args ...string) (out map[int32][2]int64, r TranslateResult) {
	t.Helper()
	got := execute(t.Context(), production(), append([]string{"translate", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != code {
		t.Fatalf("%v: %+v", err, got)
	}
	out = map[int32][2]int64{}
	for _, g := range r.Groups {
		for _, p := range g.Partitions {
			if p.SourceTopic == nil || *p.SourceTopic != "orders" {
				continue
			}
			at := [2]int64{-1, -1}
			if p.TargetOffset != nil {
				at[0] = *p.TargetOffset
			}
			if p.SourceOffset != nil {
				at[1] = *p.SourceOffset
			}
			out[p.Partition] = at
		}
	}
	return out, r
}

func client(t testing.TB, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// commitAt commits offsets of a group, by partition of a topic.
func commitAt(t testing.TB, c *kfake.Cluster, group, topic string, offsets ...int64) {
	t.Helper()
	var all kadm.Offsets
	for n, o := range offsets {
		all.AddOffset(topic, int32(n), o, -1)
	}
	if err := kadm.NewClient(client(t, c)).CommitAllOffsets(t.Context(), group, all); err != nil {
		t.Fatal(err)
	}
}

// write writes to single partitions of a topic.
func write(t testing.TB, c *kfake.Cluster, topic string, records ...int) {
	t.Helper()
	cl := client(t, c)
	for n, count := range records {
		for range count {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(n), Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The target's partitions hold other records before the copies, so that offsets
// differ. Translations go both ways, with the source and without.
func TestTranslateByTheMap(t *testing.T) {
	src := cluster(t, kfake.NumBrokers(1), kfake.ClusterID("SRC"), kfake.SeedTopics(2, "orders"), kfake.SeedTopics(1, "payments", "local"))
	dst := cluster(t, kfake.NumBrokers(1), kfake.ClusterID("DST"), kfake.SeedTopics(2, "east.orders"))
	write(t, src, "orders", 20, 10)
	write(t, dst, "east.orders", 5, 8)
	commitAt(t, src, "billing", "orders", 12, 10)
	commitAt(t, src, "billing", "local", 0)
	k := mirrorWith(t, src, dst, "    mode: checkpoint\n    groups: {include: [billing]}\n")
	k.await(t, "orders", state.Active)
	awaitCommit(t, dst, "billing", "east.orders", map[int32]int64{0: 17, 1: 18})
	k.stop()

	want := map[int32][2]int64{0: {17, 12}, 1: {18, 10}}
	got, r := answersOf(t, 1, "-c", k.file, "--group", "billing", "--group", "nobody")
	if diff := cmp.Diff(want, got); diff != "" || r.Unanswered != 2 || len(r.Groups) != 2 || r.Groups[1].Reason != "NO_GROUP" {
		t.Errorf("%s%+v", diff, r)
	}
	for _, p := range r.Groups[0].Partitions {
		if *p.SourceTopic == "local" {
			if p.Reason != "NOT_MIRRORED" || p.TargetTopic != nil {
				t.Errorf("%+v", p)
			}
		} else if p.Kind != "exact" || *p.ReadAgain != 0 || p.Origin != "committed" || p.Stale {
			t.Errorf("%+v", p)
		}
	}
	// Of one topic; there is an answer for all of it.
	if got, _ := answersOf(t, 0, "-c", k.file, "--group", "billing", "east.*"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	// The way back.
	got, r = answersOf(t, 0, "-c", k.file, "--group", "billing", "--reverse")
	if diff := cmp.Diff(want, got); diff != "" || r.Direction != toSource {
		t.Errorf("%s%+v", diff, r)
	}
	// The source does not tell of the group: the record stands in for it.
	refuseGroup(src)
	got, r = answersOf(t, 0, "-c", k.file, "--group", "billing")
	if diff := cmp.Diff(want, got); diff != "" || r.Groups[0].Partitions[0].Origin != "recorded" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "missing right: Describe on group billing") {
		t.Errorf("%s%+v", diff, r)
	}
	// The source is gone.
	src.Close()
	got, r = answersOf(t, 0, "--target", dst.ListenAddrs()[0], "--link", "east", "--group", "*")
	if diff := cmp.Diff(want, got); diff != "" || r.Groups[0].Partitions[0].Origin != "recorded" {
		t.Errorf("%s%+v", diff, r)
	}
	got, r = answersOf(t, 0, "-c", k.file, "--group", "billing")
	if diff := cmp.Diff(want, got); diff != "" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "the source does not answer") {
		t.Errorf("%s%+v", diff, r)
	}
}

// refuseGroup has the next question for a group's offsets refused.
func refuseGroup(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.OffsetFetchRequest)
		resp := asked.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range asked.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil, true
	})
}

// awaitCommit waits until a group has offsets.
func awaitCommit(t testing.TB, c *kfake.Cluster, group, topic string, want map[int32]int64) {
	t.Helper()
	adm := kadm.NewClient(client(t, c))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got := map[int32]int64{}
		offsets, err := adm.FetchOffsets(ctx, group)
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.Topic == topic {
				got[o.Partition] = o.At
			}
		})
		if cmp.Equal(got, want) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("group %s has %v, %v", group, got, err)
		}
	}
}

// In mirror mode every record keeps its offset, and a group that is ahead goes to
// the end.
func TestTranslateWhereOffsetsAreKept(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorBoth(t, src, dst)
	k.await(t, "orders", state.Active)
	k.stop()
	commitAt(t, src, "billing", "orders", 3, 3)
	got, r := answersOf(t, 0, "-c", k.file, "--group", "billing")
	if len(got) != 2 || r.Unanswered != 0 {
		t.Errorf("%+v", r)
	}
	for n, at := range got {
		if p := r.Groups[0].Partitions[n]; at != [2]int64{3, 3} && p.Kind != "clamped" {
			t.Errorf("%+v", p)
		}
	}
}

// mm2Records makes a topic of MirrorMaker 2's.
func mm2Records(t testing.TB, c *kfake.Cluster, topic string, records ...*kgo.Record) {
	t.Helper()
	cl := client(t, c)
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Topic = topic
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t testing.TB, encode func() (key, value []byte, err error)) *kgo.Record {
	t.Helper()
	k, v, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Key: k, Value: v}
}

// What a MirrorMaker 2 left answers without any record of klink's; offset syncs are
// found on the source, where they are by default.
func TestTranslateByMirrorMaker(t *testing.T) {
	src := cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	dst := cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "a.orders"))
	write(t, src, "orders", 25)
	write(t, dst, "a.orders", 40, 40)
	commitAt(t, src, "billing", "orders", 20)
	alone := []string{"--target", dst.ListenAddrs()[0], "--from-mm2", "--source-alias", "a", "--target-alias", "b", "--group", "billing"}
	both := append([]string{"--source", src.ListenAddrs()[0]}, alone...)
	if r := execute(t.Context(), production(), append([]string{"translate"}, alone...)...); r.code != 1 || !strings.Contains(r.err, `no MirrorMaker 2 has written for the source alias "a"`) {
		t.Errorf("%+v", r)
	}
	cp := func(n int32, up, down int64) *kgo.Record {
		return encoded(t, mm2.Checkpoint{Key: mm2.Key{Group: "billing", Topic: "a.orders", Partition: n}, Up: up, Down: down}.Encode)
	}
	mm2Records(t, dst, "a.checkpoints.internal", cp(0, 15, 25), cp(1, 7, 7), cp(0, 16, 26))
	got, r := answersOf(t, 0, alone...)
	if diff := cmp.Diff(map[int32][2]int64{0: {26, 16}, 1: {7, 7}}, got); diff != "" || len(r.Reads) != 1 || r.Reads[0].Records != 3 || !r.Reads[0].Complete {
		t.Errorf("%s%+v", diff, r)
	}
	mm2Records(t, src, "mm2-offset-syncs.b.internal", encoded(t, mm2.Sync{Topic: "orders", Up: 10, Down: 20}.Encode), encoded(t, mm2.Sync{Topic: "orders", Up: 18, Down: 30}.Encode))
	got, r = answersOf(t, 0, both...)
	if diff := cmp.Diff(map[int32][2]int64{0: {31, 20}, 1: {7, 7}}, got); diff != "" || len(r.Reads) != 2 || r.Groups[0].Partitions[0].Checkpoint.TargetOffset != 26 {
		t.Errorf("%s%+v", diff, r)
	}
	commitAt(t, dst, "billing", "a.orders", 30, 7)
	got, r = answersOf(t, 1, append(both, "--reverse")...)
	if diff := cmp.Diff(map[int32][2]int64{0: {30, 18}, 1: {7, -1}}, got); diff != "" || r.Groups[0].Partitions[1].Reason != "NO_SYNC" {
		t.Errorf("%s%+v", diff, r)
	}
}
