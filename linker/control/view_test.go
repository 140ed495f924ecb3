package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func topicLine(link, topic, target, since string) stored {
	return stored{fmt.Sprintf(`{"kind":"topic","link":%q,"topic":%q}`, link, topic),
		fmt.Sprintf(`{"version":1,"source_id":"","target_topic":%q,"target_id":"","partitions":1,"generation":0%s}`, target, since)}
}

func TestFirstToNameATargetTopicOwnsIt(t *testing.T) {
	a, b := topicLine("a", "orders", "orders", ""), topicLine("b", "orders", "orders", "")
	gone := func(r stored) stored { return stored{r.key, ""} }
	cases := map[string]struct {
		log  []stored
		want string
	}{
		"one":                          {[]stored{a}, "a"},
		"two":                          {[]stored{a, b}, "a"},
		"the first wrote again":        {[]stored{a, b, a}, "a"},
		"the loser took back":          {[]stored{a, b, gone(b), a}, "a"},
		"the owner took back":          {[]stored{a, b, gone(a)}, "b"},
		"both took back":               {[]stored{a, b, gone(a), gone(b)}, ""},
		"compacted, rewrite has since": {[]stored{topicLine("x", "x", "x", ""), b, topicLine("a", "orders", "orders", `,"since":0`)}, "a"},
		"the owner moved away":         {[]stored{a, b, topicLine("a", "orders", "dr.orders", "")}, "b"},
		"two topics of one link":       {[]stored{topicLine("a", "one", "orders", ""), topicLine("a", "orders", "orders", "")}, "a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, c.log...)
			owner, ok := v.TopicOwner("orders")
			if ok != (c.want != "") || owner.Link != c.want {
				t.Errorf("owner %q (%v), want %q", owner.Link, ok, c.want)
			}
			if name == "two topics of one link" && owner.SourceTopic != "one" {
				t.Errorf("owner is %q", owner.SourceTopic)
			}
		})
	}
}

func TestLastRecordOfAKeyWinsInAnyOrder(t *testing.T) {
	v := newView()
	key := []byte(`{"kind":"epoch","link":"l","topic":"t","partition":1,"epoch":2}`)
	for _, r := range []struct {
		offset int64
		first  int
	}{{9, 90}, {4, 40}, {9, 91}, {12, 120}, {11, 110}} {
		if err := v.apply(r.offset, time.Now(), key, fmt.Appendf(nil, `{"version":1,"first":%d}`, r.first)); err != nil {
			t.Fatal(err)
		}
	}
	tl := topicLine("l", "t", "t", "")
	if err := v.apply(20, time.Now(), []byte(tl.key), []byte(tl.value)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Epoch{{2, 120}}, v.Epochs("l", "t", 1)); d != "" {
		t.Error(d)
	}
}

func TestLineageBelongsToOneIncarnation(t *testing.T) {
	id := strings.Repeat("ab", 16)
	v := viewOf(t,
		topicLine("l", "t", "t", ""),
		stored{`{"kind":"epoch","link":"l","topic":"t","epoch":3}`, `{"version":1,"first":7}`},
		stored{`{"kind":"epoch","link":"l","topic":"t","source_id":"` + id + `","epoch":1}`, `{"version":1,"first":0}`},
		stored{`{"kind":"epoch","link":"l","topic":"t","source_id":"` + id + `","epoch":0}`, `{"version":1,"first":0}`},
		stored{`{"kind":"topic","link":"l","topic":"t"}`, `{"version":1,"source_id":"` + id + `","target_topic":"t"}`},
		stored{`{"kind":"epoch","link":"l","topic":"t","source_id":"` + id + `","epoch":0}`, ""},
	)
	if d := cmp.Diff([]Epoch{{1, 0}}, v.Epochs("l", "t", 0)); d != "" {
		t.Error(d)
	}
	if got := v.Epochs("l", "none", 0); got != nil {
		t.Errorf("lineage %v of a topic that is not on record", got)
	}
}

func TestReport(t *testing.T) {
	v := viewOf(t, fixtures(t)...)
	rep := v.Report()
	if rep.AsOf != time.UnixMilli(1_700_000_000_000+int64(len(fixtures(t))-1)) {
		t.Errorf("as of %v", rep.AsOf)
	}
	want := []state.Link{{Name: "east-west", Mode: "mirror", State: state.SourceUnavailable, Reason: "UNREACHABLE",
		Detail: wantLinkState.Detail, Hint: state.Unreachable.About().Hint, Topics: []state.Topic{wantState().Topic}, Groups: []state.Group{}}}
	if d := cmp.Diff(want, rep.Links); d != "" {
		t.Error(d)
	}

	if one, ok := v.LinkReport("east-west"); !ok || cmp.Diff(want, one.Links) != "" || !one.AsOf.Equal(wantState().AsOf) {
		t.Errorf("%v %+v", ok, one)
	}
	if _, ok := v.LinkReport("none"); ok {
		t.Error("a report of a link that is not on record")
	}

	// Without a state of its own the link shows its worst topic.
	v = viewOf(t,
		stored{`{"kind":"state","link":"z","topic":"b"}`, `{"version":1,"state":"HALTED","reason":"CORRUPT","parts":1}`},
		stored{`{"kind":"state","link":"z","topic":"a"}`, `{"version":1,"state":"ACTIVE","parts":1}`},
		stored{`{"kind":"link","link":"a"}`, `{"version":1,"mode":"mirror"}`})
	links := v.Report().Links
	if len(links) != 2 || links[0].Name != "a" || links[0].State != state.Pending {
		t.Fatalf("%+v", links)
	}
	if z := links[1]; z.State != state.Halted || z.Reason != "CORRUPT" || z.Topics[0].SourceTopic != "a" {
		t.Errorf("%+v", z)
	}
}
