package e2e

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/readers"
)

// golden is a record of MirrorMaker 2's internal topics as its own classes write
// it (OffsetSync, Checkpoint, Heartbeat).
type golden struct{ topic, key, value string }

// goldenRecords lie on cluster c, which follows b, which follows a.
var goldenRecords = []golden{
	{"mm2-offset-syncs.b.internal", "00066f726465727300000003", "00000000000003e800000000000003de"},
	// Group billing, b.orders/3, 1000 to 990; an older one of the same key before it.
	{"b.checkpoints.internal", "000762696c6c696e670008622e6f726465727300000003", "000000000000000003e700000000000003dd0000"},
	{"b.checkpoints.internal", "000762696c6c696e670008622e6f726465727300000003", "000000000000000003e800000000000003de0000"},
	// Group grp-é, t/0, -1 to the largest offset, metadata md.
	{"b.checkpoints.internal", "00066772702dc3a900017400000000", "0000ffffffffffffffff7fffffffffffffff00026d64"},
	{"heartbeats", "000163000163", "00000000018bcfe56800"},
	{"b.heartbeats", "000162000163", "00000000018bcfe56800"},
	{"b.a.heartbeats", "000161000162", "00000000018bcfe56800"},
	// The same flow with another separator.
	{"mm2-offset-syncs-b-internal", "00066f726465727300000003", "00000000000003e800000000000003de"},
	{"b-checkpoints-internal", "000762696c6c696e670008622d6f726465727300000003", "000000000000000003e800000000000003de0000"},
	{"b-heartbeats", "000162000163", "00000000018bcfe56800"},
}

// writeGolden makes the topics as MirrorMaker 2 does and writes the records.
func writeGolden(t *testing.T, c lab.Cluster) {
	t.Helper()
	topics := map[string]bool{}
	var records []*kgo.Record
	for _, g := range goldenRecords {
		key, kerr := hex.DecodeString(g.key)
		value, verr := hex.DecodeString(g.value)
		if kerr != nil || verr != nil {
			t.Fatal(kerr, verr)
		}
		topics[g.topic] = true
		records = append(records, &kgo.Record{Topic: g.topic, Key: key, Value: value})
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		create(t, c, lab.TopicSpec{Name: topic, Configs: map[string]string{"cleanup.policy": "compact"}})
	}
	create(t, c, lab.TopicSpec{Name: "b.orders", Partitions: 4}, lab.TopicSpec{Name: "b-orders", Partitions: 4}, lab.TopicSpec{Name: "own"})
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(within(t, patience), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// goldenAnswers are what the client is to say of them, with the default
// separator and with "-".
var goldenAnswers = map[string]readers.RemoteAnswers{
	".": {
		Upstream:         []string{"a", "b"},
		CheckpointTopics: []string{"b.checkpoints.internal"},
		HeartbeatTopics:  []string{"b.a.heartbeats", "b.heartbeats", "heartbeats"},
		Hops:             map[string]int{"a": 2, "b": 1, "z": -1},
		Topics:           map[string][]string{"b": {"b.a.heartbeats", "b.heartbeats", "b.orders"}},
		Offsets: map[string]map[string][]readers.Translated{"b": {
			"billing": {{Topic: "b.orders", Partition: 3, Offset: 990}},
			"grp-é":   {{Topic: "t", Partition: 0, Offset: 1<<63 - 1, Metadata: "md"}},
		}},
	},
	"-": {
		Upstream:         []string{"b"},
		CheckpointTopics: []string{"b-checkpoints-internal"},
		HeartbeatTopics:  []string{"b-heartbeats", "heartbeats"},
		Hops:             map[string]int{"a": -1, "b": 1, "z": -1},
		Topics:           map[string][]string{"b": {"b-heartbeats", "b-orders"}},
		Offsets: map[string]map[string][]readers.Translated{"b": {
			"billing": {{Topic: "b-orders", Partition: 3, Offset: 990}},
		}},
	},
}

// TestMM2_JavaReadsGoldenRecords: MirrorMaker 2's own client, old and new, takes
// the golden records for what they are. It needs no klink: it shows that the
// judge of what klink writes judges right.
func TestMM2_JavaReadsGoldenRecords(t *testing.T) {
	t.Parallel()
	c := startOne(t, lab.KafkaOptions{})
	writeGolden(t, c)
	for _, version := range []string{install.Newest, install.Oldest} {
		for separator, want := range goldenAnswers {
			t.Run(version+" "+separator, func(t *testing.T) {
				t.Parallel()
				got, err := readers.Remote(within(t, 4*patience), readers.RemoteJob{
					Version: version, Bootstrap: c.Bootstrap(), Sources: []string{"a", "b", "z"},
					Settings: map[string]string{"replication.policy.separator": separator},
					Groups:   map[string][]string{"b": {"billing", "grp-é", "unknown"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("\ngot  %+v\nwant %+v", got, want)
				}
			})
		}
	}
}
