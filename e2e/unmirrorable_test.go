package e2e

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// TestUnmirrorableInCheckpointMode: with on_unmirrorable: checkpoint a link keeps the
// offsets of the topics where that can be, and copies others, as whole topics, behind
// what their targets have; groups go where their records are. It stays so through a
// kill, and where nothing stands in the way any more.
func TestUnmirrorableInCheckpointMode(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	for _, topic := range []string{"kept", "taken"} {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: 2, Configs: lab.KeepEverything()})
		produce(t, p.src, fixed(1, 200, topic))
	}
	if err := shapes.Transactions(within(t, 2*patience), p.src, shapes.Place{Topic: "txns", Partitions: 1, Seed: 5}, 20); err != nil {
		t.Fatal(err)
	}
	create(t, p.dst, lab.TopicSpec{Name: "east.taken", Partitions: 2, Configs: lab.KeepEverything()})
	produceForeign(t, p.dst, "east.taken", 2)
	create(t, p.dst, lab.TopicSpec{Name: "east.txns", Partitions: 1, Configs: lab.KeepEverything()})
	produceForeign(t, p.dst, "east.txns", 1)
	r := &groupRig{pair: p, t: t, src: admin(t, p.src), dst: admin(t, p.dst)}
	r.commit(t, r.src, "g", kadm.Offset{Topic: "kept", At: 5}, kadm.Offset{Topic: "taken", At: 7})

	l := openLink("either", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "kept", "taken", "txns")
	l["topics"].(object)["rename"] = object{"prefix": "east."}
	l["on_unmirrorable"], l["gap_fill"] = "checkpoint", "halt"
	l["groups"] = object{"include": []string{"g"}, "interval": groupInterval.String()}
	file := configFile(t, l)
	modes := map[string]string{"kept": "mirror", "taken": "checkpoint", "txns": "checkpoint"}
	active := func(l state.Link) bool {
		for topic := range modes {
			if topicOf(l, topic).State != state.Active {
				return false
			}
		}
		return true
	}
	k := startKlink(t, "-c", file)
	k.await(t, "all to be mirrored", active)
	k.kill(t)
	produce(t, p.src, fixed(2, 200, "taken"))
	k = startKlink(t, "-c", file)
	seen := k.await(t, "all to be mirrored again", active)
	for topic, mode := range modes {
		got := topicOf(seen, topic)
		if why := "offsets cannot be kept"; got.Mode != mode || strings.Contains(got.Detail, why) != (mode == "checkpoint") {
			t.Errorf("%s is in mode %s: %s", topic, got.Mode, got.Detail)
		}
	}
	requireCopied(t, p, "taken", 0)
	requireCopied(t, p, "taken", 1)
	requireCopied(t, p, "txns", 0)
	r.want(t, "g", kadm.Offset{Topic: "east.kept", At: 5})
	r.want(t, "g", kadm.Offset{Topic: "east.taken", At: 7 + foreignRecords})
	k.stop(t)
	report, _ := statusOf(t, "-c", file)
	for topic, mode := range modes {
		if got := topicOf(linkOf(report, "either"), topic).Mode; got != mode {
			t.Errorf("%s is in mode %s on record", topic, got)
		}
	}
	compared, out := compare(t, "-c", file)
	if compared.Failed > 0 || compared.Differences != int64(len(compared.Configs)) { // settings are those of before
		t.Errorf("klink compare: exit code %d:\n%s%s", out.code, out.out, out.errOut)
	}
	for _, topic := range compared.Topics {
		if string(topic.Mode) != modes[topic.SourceTopic] {
			t.Errorf("%s was compared in mode %s", topic.SourceTopic, topic.Mode)
		}
	}
}
