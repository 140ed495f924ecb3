package topics

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func TestEveryKeyHasOneRule(t *testing.T) {
	rules := map[string]int{keyCleanup: 1}
	for _, k := range copied {
		rules[k]++
	}
	for _, k := range forced {
		rules[k]++
	}
	for k, why := range neverCopied {
		rules[k]++
		if why == "" {
			t.Errorf("%s: no reason", k)
		}
	}
	for k, n := range rules {
		if n != 1 {
			t.Errorf("%s has %d rules", k, n)
		}
	}
	// All topic configs of Kafka 3.4 to 4.3 (TopicConfig and QuotaConfig).
	for _, k := range []string{"segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes", "flush.messages", "flush.ms",
		"retention.bytes", "retention.ms", "remote.storage.enable", "local.retention.ms", "local.retention.bytes", "remote.log.copy.disable",
		"remote.log.delete.on.disable", "max.message.bytes", "index.interval.bytes", "file.delete.delay.ms", "delete.retention.ms",
		"min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio", "cleanup.policy", "unclean.leader.election.enable",
		"min.insync.replicas", "compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "preallocate",
		"message.format.version", "message.timestamp.type", "message.timestamp.difference.max.ms", "message.timestamp.before.max.ms",
		"message.timestamp.after.max.ms", "message.downconversion.enable", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"} {
		if rules[k] == 0 {
			t.Errorf("%s has no rule", k)
		}
	}
}

func explicit(kv ...string) Settings {
	s := make(Settings)
	for i := 0; i < len(kv); i += 2 {
		s[kv[i]] = Setting{Value: kv[i+1], Explicit: true}
	}
	return s
}

func inherited(s Settings, kv ...string) Settings {
	for i := 0; i < len(kv); i += 2 {
		s[kv[i]] = Setting{Value: kv[i+1]}
	}
	return s
}

// known are the keys of a modern broker with some more and some less.
func known(keys ...string) map[string]bool {
	m := make(map[string]bool)
	for _, k := range append(append([]string{keyCleanup, keyCompress, keyTimestamps, keyMaxMessage, keyRetainMs, keyRetainSize}, copied...), keys...) {
		m[k] = true
	}
	return m
}

func TestPlanConfigs(t *testing.T) {
	base := func(more ...string) map[string]string {
		m := map[string]string{keyCompress: "producer", keyTimestamps: "CreateTime", keyBefore: unlimited, keyAfter: unlimited,
			keyRetainMs: "-1", keyRetainSize: "-1", keyMaxMessage: "1048588"}
		for i := 0; i < len(more); i += 2 {
			if m[more[i]] = more[i+1]; more[i+1] == "" {
				delete(m, more[i])
			}
		}
		return m
	}
	modern := known(keyBefore, keyAfter)
	for name, c := range map[string]struct {
		in      ConfigInput
		want    map[string]string
		dropped []string
		notes   int
	}{
		"plain topic":        {ConfigInput{Source: Settings{}, Known: modern}, base(), nil, 0},
		"source not visible": {ConfigInput{Known: modern}, base(), nil, 1},
		"copied":             {ConfigInput{Source: explicit("segment.bytes", "1000000", "flush.ms", "7"), Known: modern}, base("segment.bytes", "1000000", "flush.ms", "7"), nil, 0},
		"broker defaults are no wish of the topic": {ConfigInput{Source: inherited(Settings{}, "segment.bytes", "1000000", "confluent.x", "1"), Known: modern}, base(), nil, 0},
		"but the cleanup policy is":                {ConfigInput{Source: inherited(Settings{}, keyCleanup, "compact"), Known: modern}, base(keyCleanup, "compact"), nil, 0},
		"forced over the source's": {ConfigInput{Source: explicit(keyCompress, "zstd", keyTimestamps, "LogAppendTime", keyRetainMs, "1000", keyRetainSize, "5",
			keyBefore, "1", keyAfter, "1", keyDifference, "1"), Known: modern}, base(), nil, 0},
		"tombstones of a topic that compacts": {ConfigInput{Source: inherited(explicit(keyCleanup, "compact,delete", keyMinLag, "5"), keyTombstones, "60000", "segment.ms", "7"), Known: modern},
			base(keyCleanup, "compact,delete", keyMinLag, "5", keyTombstones, "60000"), nil, 0},
		"tombstones overridden": {ConfigInput{Source: inherited(explicit(keyCleanup, "compact"), keyTombstones, "60000"), Known: modern, Overrides: map[string]string{keyTombstones: "7"}},
			base(keyCleanup, "compact", keyTombstones, "7"), nil, 0},
		"tombstones of one that does not":  {ConfigInput{Source: inherited(explicit(keyCleanup, "delete"), keyTombstones, "60000"), Known: modern}, base(keyCleanup, "delete"), nil, 0},
		"a lag that the target has not":    {ConfigInput{Source: inherited(explicit(keyCleanup, "compact"), keyMaxLag, "5"), Known: map[string]bool{keyBefore: true, keyAfter: true}}, base(keyCleanup, "compact"), nil, 0},
		"start not followed":               {ConfigInput{Source: inherited(explicit(keyRetainMs, "1000"), keyRetainSize, "5"), Known: modern, CopyRetention: true}, base(keyRetainMs, "1000", keyRetainSize, "5"), nil, 0},
		"start not followed, not visible":  {ConfigInput{Known: modern, CopyRetention: true}, base(), nil, 2},
		"start not followed, half visible": {ConfigInput{Source: explicit(keyRetainSize, "5"), Known: modern, CopyRetention: true}, base(keyRetainSize, "5"), nil, 0},
		"larger messages":                  {ConfigInput{Source: explicit(keyMaxMessage, "5000000"), Known: modern}, base(keyMaxMessage, "5000000"), nil, 0},
		"smaller messages":                 {ConfigInput{Source: explicit(keyMaxMessage, "1000"), Known: modern}, base(), nil, 0},
		"larger by default":                {ConfigInput{Source: inherited(Settings{}, keyMaxMessage, "5000000"), Known: modern}, base(keyMaxMessage, "5000000"), nil, 0},
		"larger by override":               {ConfigInput{Source: Settings{}, Known: modern, Overrides: map[string]string{keyMaxMessage: "2000000"}}, base(keyMaxMessage, "2000000"), nil, 0},
		"override below the source":        {ConfigInput{Source: explicit(keyMaxMessage, "5000000"), Known: modern, Overrides: map[string]string{keyMaxMessage: "2000000"}}, base(keyMaxMessage, "5000000"), nil, 0},
		"never copied": {ConfigInput{Source: explicit("unclean.leader.election.enable", "true", "follower.replication.throttled.replicas", "0:1", "remote.storage.enable", "true", "compression.zstd.level", "9"), Known: modern},
			base(), []string{"compression.zstd.level", "follower.replication.throttled.replicas", "remote.storage.enable", "unclean.leader.election.enable"}, 0},
		"a vendor's":             {ConfigInput{Source: explicit("confluent.placement.constraints", "{}"), Known: modern}, base(), []string{"confluent.placement.constraints"}, 0},
		"overridden is not lost": {ConfigInput{Source: explicit("confluent.x", "1", "segment.ms", "5"), Known: modern, Overrides: map[string]string{"confluent.x": "2", "segment.ms": "9"}}, base("confluent.x", "2", "segment.ms", "9"), nil, 0},
		"target knows less":      {ConfigInput{Source: explicit("segment.bytes", "1"), Known: map[string]bool{keyBefore: true, keyAfter: true}}, base(), []string{"segment.bytes"}, 0},
		"before 3.6":             {ConfigInput{Source: Settings{}, Known: known(keyDifference)}, base(keyBefore, "", keyAfter, "", keyDifference, unlimited), nil, 0},
		"3.6 to 3.9":             {ConfigInput{Source: Settings{}, Known: known(keyDifference, keyBefore, keyAfter)}, base(keyDifference, unlimited), nil, 0},
		"target does not tell":   {ConfigInput{Source: explicit("segment.ms", "5")}, base("segment.ms", "5"), nil, 0},
		"in sync fits":           {ConfigInput{Source: explicit(keyInsync, "2"), Known: modern, Replicas: 2}, base(keyInsync, "2"), nil, 0},
		"in sync never":          {ConfigInput{Source: explicit(keyInsync, "2"), Known: modern, Replicas: 1}, base(), []string{keyInsync}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := PlanConfigs(c.in)
			set := make(map[string]string)
			last := ""
			for _, kv := range got.Set {
				if kv.Key <= last {
					t.Errorf("%s after %s", kv.Key, last)
				}
				set[kv.Key], last = kv.Value, kv.Key
			}
			if d := cmp.Diff(c.want, set); d != "" {
				t.Error(d)
			}
			var dropped []string
			for _, x := range got.Dropped {
				dropped = append(dropped, x.Key)
				if x.Why == "" {
					t.Errorf("%s: no reason", x.Key)
				}
			}
			if d := cmp.Diff(c.dropped, dropped); d != "" {
				t.Error(d)
			}
			if len(got.Notes) != c.notes {
				t.Errorf("notes %q", got.Notes)
			}
		})
	}
}

func TestCorrections(t *testing.T) {
	plan := PlanConfigs(ConfigInput{Source: explicit(keyMaxMessage, "500000", "segment.ms", "5", keyCleanup, "compact")})
	good := func(kv ...string) Settings {
		s := explicit(keyCompress, "producer", keyTimestamps, "CreateTime", keyBefore, unlimited, keyAfter, unlimited,
			keyRetainMs, "-1", keyRetainSize, "-1", keyMaxMessage, "1048588", "segment.ms", "77", keyCleanup, "delete")
		for i := 0; i < len(kv); i += 2 {
			s[kv[i]] = Setting{Value: kv[i+1]}
		}
		return s
	}
	for name, c := range map[string]struct {
		have Settings
		want []Correction
	}{
		"nothing":                        {good(), nil},
		"more room for messages is kept": {good(keyMaxMessage, "9000000"), nil},
		"codec":                          {good(keyCompress, "zstd"), []Correction{{keyCompress, "zstd", "producer", true}}},
		"append time":                    {good(keyTimestamps, "LogAppendTime"), []Correction{{keyTimestamps, "LogAppendTime", "CreateTime", true}}},
		"retention":                      {good(keyRetainMs, "604800000"), []Correction{{keyRetainMs, "604800000", "-1", false}}},
		"less than we like":              {good(keyMaxMessage, "600000"), []Correction{{keyMaxMessage, "600000", "1048588", false}}},
		"less than the source":           {good(keyMaxMessage, "1000"), []Correction{{keyMaxMessage, "1000", "1048588", false}}},
		"an older broker":                {explicit(keyCompress, "producer"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Corrections(plan, c.have)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestValidateOverrides(t *testing.T) {
	for k, v := range map[string]string{"segment.ms": "1", "confluent.x": "y", keyMaxMessage: "5"} {
		if err := ValidateOverrides(map[string]string{k: v}); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	for k, v := range map[string]string{keyRetainMs: "1", keyCompress: "producer", keyCleanup: "compact", keyMaxMessage: "5MiB"} {
		var re *RuleError
		if err := ValidateOverrides(map[string]string{k: v}); !errors.As(err, &re) || re.Field != "configs."+k {
			t.Errorf("%s: %v", k, err)
		}
	}
}

func TestCheckClusters(t *testing.T) {
	for name, c := range map[string]struct {
		now, recorded Clusters
		want          error
	}{
		"first time":        {Clusters{"a", "b"}, Clusters{}, nil},
		"as before":         {Clusters{"a", "b"}, Clusters{"a", "b"}, nil},
		"one cluster":       {Clusters{"a", "a"}, Clusters{}, ErrSameCluster},
		"source now target": {Clusters{"b", "b"}, Clusters{"a", "b"}, ErrSameCluster},
		"other source":      {Clusters{"c", "b"}, Clusters{"a", "b"}, ErrClusterChanged},
		"other target":      {Clusters{"a", "c"}, Clusters{"a", "b"}, ErrClusterChanged},
		"source unknown":    {Clusters{"", "b"}, Clusters{"a", "b"}, nil},
		"both unknown":      {Clusters{"", ""}, Clusters{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckClusters(c.now, c.recorded); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPlanAll(t *testing.T) {
	topic := func(name, target string) SourceTopic { return SourceTopic{Name: name, Target: target, Replicas: 3} }
	long := fmt.Sprintf("%0250d", 1)
	found := []SourceTopic{topic("a", "a"), topic("b", "x"), topic("c", "x"), topic("d", "owned"), topic("e", "owned"),
		topic("f", long), {Name: "g", Target: "g", Reason: state.NoLeader, Detail: "d"}}
	owner := func(target string) (string, bool) { return "e", target == "owned" }
	got := make(map[string]state.Reason)
	for _, p := range PlanAll(found, PlanOptions{Owner: owner, ReplicationFactor: 2}) {
		got[p.Source.Name] = p.Reason
		if p.Replicas != 2 || (p.Reason != "") != (p.Detail != "") {
			t.Errorf("%+v", p)
		}
	}
	want := map[string]state.Reason{"a": "", "b": state.TopicRefused, "c": state.TopicRefused, "d": state.TopicRefused, "e": "",
		"f": state.TopicRefused, "g": state.NoLeader}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p := PlanAll(found[:1], PlanOptions{})[0]; p.Replicas != 3 || p.CopyRetention || p.Recorded != nil {
		t.Errorf("%+v: the source has 3 replicas", p)
	}
	recorded := func(source string) Recorded { return Recorded{PolicyHeld: source == "c"} }
	for _, p := range PlanAll(found, PlanOptions{CopyRetention: true, Recorded: recorded}) {
		if !p.CopyRetention || p.Recorded().PolicyHeld != (p.Source.Name == "c") {
			t.Errorf("%+v", p)
		}
	}
}
