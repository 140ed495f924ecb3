package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"klink/cmd/lab"
	"klink/linker/control"
	"klink/linker/state"
)

// TestG4_Repairs: what people order of mirrors that are halted, unwanted or without
// a record does on a real broker what it says, and nothing else.
func TestG4_Repairs(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	topics := []string{"accepted", "kept", "recreated"}
	for i, topic := range topics {
		fill(t, p.src, uint64(i+1), 400, lab.TopicSpec{Name: topic, Partitions: 2})
	}
	file := configFile(t, openLink("repairs", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics...))
	k := startKlink(t, "-c", file)
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}

	k.recreates(t, p, file, "recreated")
	k.accepts(t, p, file, "accepted")
	// Removed while it is mirrored: its target topic stays, and stays as it is.
	ordered(t, "remove", "kept", "-c", file, "--yes")
	was := digestsOf(t, p.dst, "kept")
	writeMore(t, p, "kept", 11)
	k.stop(t)

	// The record is lost: what klink wrote is not written to before it is adopted.
	remove(t, p.dst, control.TopicName)
	k = startKlink(t, "-c", file)
	k.awaitTopic(t, "recreated", state.Halted, state.NotAdopted)
	k.awaitTopic(t, "kept", state.Halted, state.NotAdopted)
	onRecord(t, file, "recreated", state.Halted)
	onRecord(t, file, "kept", state.Halted)
	was.requireUntouched(t, p.dst, "kept")
	ordered(t, "adopt", "recreated", "kept", "-c", file, "--yes", "--timeout", "50s")
	for i, topic := range []string{"recreated", "kept"} {
		writeMore(t, p, topic, uint64(21+i))
		k.awaitTopic(t, topic, state.Active, "")
	}
	requireSameView(t, p, "recreated", "kept")
	k.stop(t)

	// With no klink on it the link goes as a whole.
	ordered(t, "remove", "-c", file, "--yes")
	if o := command(t, "status", "-c", file); o.code != 1 || !strings.Contains(o.errOut, "knows no link of this name") {
		t.Errorf("%+v", o)
	}
}

// recreates deletes a target topic and mirrors it anew.
func (k *klink) recreates(t *testing.T, p pair, file, topic string) {
	t.Helper()
	id := topicID(t, p.dst, topic)
	if o := command(t, "repair", "--recreate", topic, "-c", file, "--dry-run"); o.code != 0 || topicID(t, p.dst, topic) != id {
		t.Errorf("%+v", o)
	}
	ordered(t, "repair", "--recreate", topic, "-c", file, "--yes", "--timeout", "50s")
	if topicID(t, p.dst, topic) == id {
		t.Error("the target topic is the one of before")
	}
	k.awaitTopic(t, topic, state.Active, "")
	requireSameView(t, p, topic)
}

// accepts goes on behind what somebody else wrote.
func (k *klink) accepts(t *testing.T, p pair, file, topic string) {
	t.Helper()
	at := foreignRecord(t, p.dst, topic, 0)
	k.awaitHalt(t, topic, 0, state.ForeignWrite)
	onRecord(t, file, topic, state.Halted)
	a := ordered(t, "repair", "--accept", topic, "--partition", "0", "-c", file, "--yes", "--timeout", "50s")
	if !strings.HasPrefix(a.Topics[0].Detail, "offsets ") {
		t.Errorf("%+v", a)
	}
	writeMore(t, p, topic, 31)
	k.awaitTopic(t, topic, state.Active, "")
	o := command(t, "describe", topic, "-c", file, "--ledger")
	if o.code != 0 || !strings.Contains(o.out, "accepted") {
		t.Errorf("offset %d is not on record as accepted: %+v", at, o)
	}
}

// onRecord waits until a topic's state is on record on the target, which is what
// commands from elsewhere see: some seconds after the klink itself.
func onRecord(t testing.TB, file, topic string, want state.State) {
	t.Helper()
	eventually(t, patience, topic+" to be on record as "+string(want), func() bool {
		var r state.Report
		o := command(t, "status", topic, "-c", file, "--http", "127.0.0.1:1", "-o", "json")
		return json.Unmarshal([]byte(o.out), &r) == nil && len(r.Links) == 1 && len(r.Links[0].Topics) == 1 && r.Links[0].Topics[0].State == want
	})
}

// orderAnswer is what remove, repair and adopt print as JSON.
type orderAnswer struct {
	Topics []struct {
		SourceTopic string `json:"source_topic"`
		OK          bool
		Detail      string
	}
	Failed int
}

// ordered runs a command that must do all it says.
func ordered(t testing.TB, args ...string) (a orderAnswer) {
	t.Helper()
	o := command(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(o.out), &a); err != nil || o.code != 0 || a.Failed != 0 {
		t.Fatalf("klink %s: %v, %+v", strings.Join(args, " "), err, o)
	}
	return a
}

func writeMore(t testing.TB, p pair, topic string, seed uint64) {
	t.Helper()
	produce(t, p.src, lab.LoadOptions{Topics: []string{topic}, Seed: seed, Total: 300, MaxBatch: 20})
}

func topicID(t testing.TB, c lab.Cluster, topic string) string {
	t.Helper()
	ts, err := admin(t, c).ListTopics(within(t, patience), topic)
	if err != nil || ts[topic].Err != nil {
		t.Fatalf("%v, %v", err, ts[topic].Err)
	}
	return ts[topic].ID.String()
}
