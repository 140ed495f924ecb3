package linker

import (
	"testing"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/topics"
)

func configs(kv ...string) control.Configs {
	m := make(map[string]control.Config)
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = control.Config{Value: kv[i+1], Explicit: true}
	}
	return control.NewConfigs(m)
}

func TestRenew(t *testing.T) {
	one, two := feed.TopicID{1}, feed.TopicID{2}
	old := control.TopicRecord{Link: "l", SourceTopic: "a", SourceID: one, TargetTopic: "a", TargetID: feed.TopicID{9},
		Partitions: 2, Generation: 3, Compacted: true, SourceConfigs: configs("x", "1")}
	with := func(change func(*control.TopicRecord)) control.TopicRecord { r := old; change(&r); return r }
	for name, c := range map[string]struct {
		rec   control.TopicRecord
		found Found
		want  control.TopicRecord
	}{
		"new": {control.TopicRecord{Link: "l"}, Found{Topic: "a", ID: one, Target: "b", Partitions: 2, Compacted: true, OnRecord: configs("x", "1")},
			control.TopicRecord{Link: "l", SourceTopic: "a", SourceID: one, TargetTopic: "b", Partitions: 2, Compacted: true, SourceConfigs: configs("x", "1")}},
		"once compacted, now not visible": {old, Found{Topic: "a", ID: one, Target: "a", Partitions: 2}, old},
		"grown and changed": {old, Found{Topic: "a", ID: one, Target: "a", Partitions: 5, OnRecord: configs("x", "2")},
			with(func(r *control.TopicRecord) { r.Partitions, r.SourceConfigs = 5, configs("x", "2") })},
		"compacted from now on": {with(func(r *control.TopicRecord) { r.Compacted = false }), Found{Topic: "a", ID: one, Target: "a", Partitions: 2, Compacted: true}, old},
		"made again": {old, Found{Topic: "a", ID: two, Target: "a", Partitions: 2},
			with(func(r *control.TopicRecord) { r.SourceID, r.Compacted, r.SourceConfigs = two, false, "" })},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renew(c.rec, c.found); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestKeep(t *testing.T) {
	for name, c := range map[string]struct {
		before, now control.Configs
		unfollowed  []string
		want        control.Configs
	}{
		"first sight":      {"", configs("p", "1"), nil, configs("p", "1")},
		"not visible":      {configs("p", "1"), "", []string{"p"}, ""},
		"followed":         {configs("p", "1", "q", "1"), configs("p", "2"), nil, configs("p", "2")},
		"one is not":       {configs("p", "1", "q", "1"), configs("p", "2", "q", "2"), []string{"p"}, configs("p", "1", "q", "2")},
		"nothing was seen": {"", configs("p", "2"), []string{"p"}, configs("p", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keep(c.before, c.now, c.unfollowed); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	own := owners([]control.TopicRecord{{SourceTopic: "a", TargetTopic: "x"}, {SourceTopic: "b", TargetTopic: "b"}})
	if s, ok := own("x"); s != "a" || !ok {
		t.Errorf("x belongs to %q, %v", s, ok)
	}
	if s, ok := own("a"); ok {
		t.Errorf("a belongs to %q", s)
	}
}

// TestRecordsRememberTheSource: what promotion and the check of holes need is
// on record, and a mirror that is padded keeps what is not followed yet.
func TestRecordsRememberTheSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		set := func(f func(*Found)) {
			w.mu.Lock()
			f(&w.found[0])
			w.mu.Unlock()
		}
		set(func(f *Found) { f.Compacted, f.OnRecord = true, configs("cleanup.policy", "compact") })
		l, end := w.run(t)
		look := func() control.TopicRecord {
			t.Helper()
			topicReport(t, l, "a")
			r, _ := w.Topic("l", "a")
			return r
		}
		if r := look(); !r.Compacted || r.SourceConfigs != configs("cleanup.policy", "compact") {
			t.Errorf("%+v", r)
		}
		w.mu.Lock()
		w.padding = true
		w.mu.Unlock()
		set(func(f *Found) { f.Compacted, f.OnRecord = false, configs("cleanup.policy", "delete") })
		if r := look(); !r.Compacted || r.SourceConfigs != configs("cleanup.policy", "compact") {
			t.Errorf("while padded: %+v", r)
		}
		if got := l.recorded("a"); !got.PolicyHeld || got.Source["cleanup.policy"] != "compact" {
			t.Errorf("recorded %+v", got)
		}
		w.mu.Lock()
		w.padding, w.unfollowed = false, []string{"cleanup.policy"}
		w.mu.Unlock()
		if r := look(); r.SourceConfigs != configs("cleanup.policy", "compact") {
			t.Errorf("not followed: %+v", r)
		}
		w.mu.Lock()
		w.unfollowed = nil
		w.mu.Unlock()
		if r := look(); !r.Compacted || r.SourceConfigs != configs("cleanup.policy", "delete") {
			t.Errorf("followed: %+v", r)
		}
		l.mu.Lock()
		if f := l.topics["a"].found; !f.Compacted {
			t.Error("a topic that was compacted counts as one that never was")
		}
		l.mu.Unlock()
		set(func(f *Found) { f.OnRecord = "" })
		if r := look(); r.SourceConfigs != configs("cleanup.policy", "delete") {
			t.Errorf("not visible: %+v", r)
		}
		end()
		if got := l.recorded("unknown"); got.Source != nil {
			t.Errorf("recorded %+v", got)
		}
	})
}

func TestOnRecord(t *testing.T) {
	got := onRecord(topics.Settings{"retention.ms": {Value: "5", Explicit: true}, "segment.ms": {Value: "9"}})
	if got != configs("retention.ms", "5") || onRecord(nil) != "" {
		t.Errorf("%s", got)
	}
}
