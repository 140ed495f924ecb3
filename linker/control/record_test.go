package control

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/state"
)

func ptr[T any](v T) *T { return &v }

func seqID(first byte) feed.TopicID {
	var id feed.TopicID
	for i := range id {
		id[i] = first + byte(i)
	}
	return id
}

type stored struct{ key, value string }

// fixtures are bytes that a klink of version 1 has written. They must decode
// for ever; the file is never changed, only added to.
func fixtures(t testing.TB) []stored {
	t.Helper()
	return fixturesOf(t, "testdata/v1.tsv")
}

func fixturesOf(t testing.TB, file string) []stored {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []stored
	for line := range strings.Lines(string(b)) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("no tab in %q", line)
		}
		out = append(out, stored{k, v})
	}
	return out
}

func viewOf(t testing.TB, records ...stored) *View {
	t.Helper()
	v := newView()
	for i, r := range records {
		var value []byte
		if r.value != "" {
			value = []byte(r.value)
		}
		at := time.UnixMilli(1_700_000_000_000 + int64(i))
		if err := v.apply(int64(i), at, []byte(r.key), value); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

var (
	wantLink = LinkRecord{Link: "east-west", Mode: "mirror", SourceClusterID: "src-id", TargetClusterID: "dst-id",
		KlinkVersion: "0.1.0", AppliedAt: time.Date(2026, 1, 2, 3, 4, 5, 6e8, time.UTC)}
	wantLinkState = LinkStateRecord{Link: "east-west", Mode: "mirror", State: state.SourceUnavailable,
		Reason: state.Unreachable, Detail: "no broker of 127.0.0.1:19092 answers",
		AsOf: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}
	wantDashed  = TopicRecord{Link: "east-west", SourceTopic: "a-1-2", SourceID: seqID(0), TargetTopic: "a-1-2", Partitions: 3}
	wantSettled = TopicRecord{Link: "east-west", SourceTopic: "settled", SourceID: seqID(0), TargetTopic: "settled", TargetID: seqID(16),
		Partitions: 1, Compacted: true, SourceConfigs: NewConfigs(map[string]Config{
			"retention.ms": {Value: "604800000"}, "cleanup.policy": {Value: "compact", Explicit: true}})}
	wantPad = PadRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 3, TargetID: seqID(16), From: 0, Goal: 5_000_000_000,
		Reason: ledger.Padded, Stage: "writing"}
	wantOverrun = PadRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), TargetID: seqID(16), From: 40, Goal: 50,
		Reason: ledger.Retention, Stage: "settling", RestorePolicy: "compact", TrimmedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Done: true}
	wantLedger = LedgerRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 3, TargetID: seqID(16),
		AsOf: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Index: ledger.Stored{End: 5_000_000_900, Windows: []ledger.StoredWindow{
			{From: 0, End: 5_000_000_000, Reason: ledger.Padded},
			{From: 5_000_000_010, End: 5_000_000_500, Counts: map[ledger.Reason]int64{ledger.Marker: 12, ledger.Aborted: 7, ledger.Recoded: 100}}}}}
	wantBlock  = block{line: lineKey{topicKey{"east-west", "orders"}, seqID(0), 3}, blockKey: blockKey{"host-1-00ff", 65536}, end: 131072}
	wantOrders = TopicRecord{Link: "east-west", SourceTopic: "orders", SourceID: seqID(0),
		TargetTopic: "dr.orders", TargetID: seqID(16), Partitions: 12, Generation: 2}
)

func wantState() StateRecord {
	asOf := time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC)
	return StateRecord{Link: "east-west", AsOf: asOf, Topic: state.Topic{SourceTopic: "orders", TargetTopic: "dr.orders",
		Mode: "mirror", State: state.Halted, Reason: "FOREIGN_WRITE", Hint: state.ForeignWrite.About().Hint, Partitions: []state.Partition{
			{Partition: 0, Mode: "mirror", State: state.Active, SourceStart: ptr[int64](0), SourceEnd: ptr[int64](100),
				SourceHighWatermark: ptr[int64](100), OpenRecords: ptr[int64](0), TargetStart: ptr[int64](0), TargetEnd: ptr[int64](100),
				LagRecords: ptr[int64](0), LagSeconds: ptr(0.0), Filled: 4, Flags: []string{}, Worker: "w1",
				AsOf: state.Seen{Time: time.Date(2026, 1, 2, 3, 4, 6, 5e8, time.UTC)}},
			{Partition: 1, State: state.Halted, Reason: "FOREIGN_WRITE", Detail: "base offset 51 instead of 50",
				Hint: state.ForeignWrite.About().Hint, TargetEnd: ptr[int64](51), Flags: []string{"UNGUARDED"}, AsOf: state.Seen{Time: asOf}},
		}}}
}

func TestVersion1StillDecodes(t *testing.T) {
	v := viewOf(t, fixtures(t)...)
	if p := v.Problems(); p.Malformed != 0 {
		t.Fatalf("%d malformed, last %v", p.Malformed, p.LastErr)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	link, _ := v.Link("east-west")
	check("link", link, wantLink)
	ls, _ := v.LinkState("east-west")
	check("link state", ls, wantLinkState)
	check("topics", v.Topics("east-west"), []TopicRecord{wantDashed, wantOrders, wantSettled})
	check("epochs of 3", v.Epochs("east-west", "orders", 3), []Epoch{{5, 1234567890123}})
	check("epochs of 0", v.Epochs("east-west", "orders", 0), []Epoch{{0, 0}})
	check("states", v.States("east-west"), []StateRecord{wantState()})
	worker, _ := v.Worker("east-west")
	check("worker", worker, wantWorker)
	check("counters", v.CounterEnd("east-west", "orders", seqID(0), 3), int32(131072))
	check("counters of another incarnation", v.CounterEnd("east-west", "orders", seqID(1), 3), int32(0))
	pad, _ := v.Pad("east-west", "orders", 3)
	check("pad", pad, wantPad)
	overrun, _ := v.Pad("east-west", "orders", 0)
	check("overrun", overrun, wantOverrun)
	check("ledger", v.Ledgers("east-west"), []LedgerRecord{wantLedger})
}

var wantWorker = WorkerRecord{Link: "east-west", Worker: "host-1-00ff", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// While the version is 1 the same bytes come out again, or keys written by this
// klink would not supersede those of the last one.
func TestVersion1IsWrittenToTheByte(t *testing.T) {
	var got []stored
	add := func(k Key, v any) {
		t.Helper()
		kb, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		vb, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, stored{string(kb), string(vb)})
	}
	add(encodeLink(wantLink))
	add(encodeLinkState(wantLinkState))
	add(encodeTopic(wantDashed, nil))
	add(encodeTopic(wantOrders, ptr[int64](7)))
	add(encodeEpoch(EpochRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 3, Epoch: Epoch{5, 1234567890123}}))
	add(encodeEpoch(EpochRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0)}))
	s := wantState()
	s.Topic.Partitions[0].Flags = nil
	s.Topic.Partitions[1].AsOf = state.Seen{}
	keys, values := encodeState(s)
	for i := range keys {
		add(keys[i], values[i])
	}
	add(encodeWorker(wantWorker))
	add(encodeTopic(wantSettled, nil))
	add(encodeCounters(wantBlock))
	add(encodePad(wantPad))
	add(encodePad(wantOverrun))
	add(encodeLedger(wantLedger))
	if d := cmp.Diff(fixtures(t), got, cmp.AllowUnexported(stored{})); d != "" {
		t.Errorf("(-stored +written):\n%s", d)
	}
}

func TestNewerVersionsAreRefusedByName(t *testing.T) {
	cases := map[string]stored{
		"known kind":                  {`{"kind":"topic","link":"l","topic":"t"}`, `{"version":3}`},
		"known kind, other key form":  {`{"kind":"topic","link":"l","topic":"t","cluster":"x"}`, `{"version":3}`},
		"known kind, other body":      {`{"kind":"epoch","link":"l"}`, `{"version":3,"first":"none"}`},
		"unknown kind, newer version": {`{"kind":"later","link":"l"}`, `{"version":2}`},
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			err := newView().apply(0, time.Now(), []byte(r.key), []byte(r.value))
			var newer *NewerError
			if !errors.Is(err, ErrNewer) || !errors.As(err, &newer) {
				t.Fatalf("got %v", err)
			}
			if newer.Version < 2 || newer.Known != newer.Version-1 && newer.Known != newer.Version-2 || newer.Kind == "" || newer.Key == "" {
				t.Errorf("names too little: %+v", newer)
			}
		})
	}
}

func TestUnknownAndMalformedRecords(t *testing.T) {
	good := stored{`{"kind":"link","link":"l"}`, `{"version":1,"mode":"mirror"}`}
	cases := map[string]struct {
		r         stored
		malformed int64
	}{
		"unknown kind of this version": {stored{`{"kind":"later","link":"l","from":3}`, `{"version":1,"x":[1]}`}, 0},
		"unknown kind removed":         {stored{`{"kind":"later","link":"l","from":3}`, ""}, 0},
		"unknown field":                {stored{`{"kind":"link-state","link":"l"}`, `{"version":1,"mood":"good"}`}, 0},
		"key is no JSON":               {stored{`orders`, `{"version":1}`}, 1},
		"key without kind":             {stored{`{"link":"l"}`, `{"version":1}`}, 1},
		"key in another form":          {stored{`{"link":"l","kind":"link"}`, `{"version":1}`}, 1},
		"value is no JSON":             {stored{`{"kind":"link","link":"m"}`, `mirror`}, 1},
		"value without version":        {stored{`{"kind":"link","link":"m"}`, `{}`}, 1},
		"bad topic id":                 {stored{`{"kind":"topic","link":"l","topic":"t"}`, `{"version":1,"target_topic":"t","source_id":"12"}`}, 1},
		"topic of no known mode":       {stored{`{"kind":"topic","link":"l","topic":"t"}`, `{"version":2,"target_topic":"t","mode":"other"}`}, 1},
		"no target topic":              {stored{`{"kind":"topic","link":"l","topic":"t"}`, `{"version":1}`}, 1},
		"counters the wrong way round": {stored{`{"kind":"counters","link":"l","topic":"t","first":7,"worker":"w"}`, `{"version":1,"end":7}`}, 1},
		"counters beyond the limit":    {stored{`{"kind":"counters","link":"l","topic":"t","worker":"w"}`, `{"version":1,"end":268435457}`}, 1},
		"counters of nobody":           {stored{`{"kind":"counters","link":"l","topic":"t"}`, `{"version":1,"end":7}`}, 1},
		"pad the wrong way round":      {stored{`{"kind":"pad","link":"l","topic":"t"}`, `{"version":1,"from":8,"goal":7,"reason":"padded"}`}, 1},
		"pad for no reason":            {stored{`{"kind":"pad","link":"l","topic":"t"}`, `{"version":1,"goal":7,"reason":"marker"}`}, 1},
		"ledger that ends too early":   {stored{`{"kind":"ledger","link":"l","topic":"t"}`, `{"version":1,"end":3,"windows":[{"from":2,"end":4}]}`}, 1},
		"epoch before the log":         {stored{`{"kind":"epoch","link":"l","topic":"t"}`, `{"version":1,"first":-4}`}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, good, c.r)
			if got := v.Problems(); got.Malformed != c.malformed || (c.malformed > 0) != (got.LastErr != nil) {
				t.Errorf("problems %+v, want %d malformed", got, c.malformed)
			}
			if l, ok := v.Link("l"); !ok || l.Mode != "mirror" {
				t.Error("the good record is gone")
			}
		})
	}
}

func TestNamesThatAreNotUTF8AreRefused(t *testing.T) {
	for _, k := range []Key{{Kind: KindTopic, Link: "l", Topic: "a\xff"}, {Kind: KindCounters, Link: "l", Worker: "a\xff"},
		{Kind: KindCommand, Link: "l", ID: "a\xff"}, {Kind: KindCut, Link: "l", Switch: "a\xff"}, {Kind: KindGroup, Link: "l", Group: "a\xff"}} {
		if _, err := k.encode(); err == nil {
			t.Error("two such names could become one key")
		}
	}
}

func TestEveryNameIsAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key{Kind: KindTopic, Link: rapid.String().Draw(t, "link"), Topic: rapid.String().Draw(t, "topic"),
			Partition: rapid.Int32().Draw(t, "partition"), Epoch: rapid.Int32().Draw(t, "epoch"),
			First: rapid.Int32().Draw(t, "first"), Worker: rapid.String().Draw(t, "worker"),
			Number: rapid.Int32().Draw(t, "number"), ID: rapid.String().Draw(t, "id"),
			Switch: rapid.String().Draw(t, "switch"), Group: rapid.String().Draw(t, "group")}
		b, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeKey(b)
		if err != nil || got != k || !got.isCanonical(b) {
			t.Fatalf("%#v became %#v (%v)", k, got, err)
		}
	})
}

func TestStateOfManyPartitionsIsCut(t *testing.T) {
	r := wantState()
	r.Topic.Partitions = nil
	for i := range int32(2*partitionsPerPart + 1) {
		r.Topic.Partitions = append(r.Topic.Partitions, state.Partition{Partition: i, State: state.Active,
			Detail: strings.Repeat("d", 200), TargetEnd: ptr(int64(i)), Flags: []string{}, AsOf: state.Seen{Time: r.AsOf}})
	}
	v := newView()
	put := func(r StateRecord, at int64) {
		keys, values := encodeState(r)
		for i := range keys {
			kb, _ := keys[i].encode()
			vb, _ := json.Marshal(values[i])
			if len(vb) > 900_000 {
				t.Fatalf("part %d has %d bytes", i, len(vb))
			}
			if err := v.apply(at+int64(i), r.AsOf, kb, vb); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(r, 0)
	if d := cmp.Diff([]StateRecord{r}, v.States("east-west")); d != "" {
		t.Error(d)
	}
	r.Topic.Partitions = r.Topic.Partitions[:3]
	put(r, 10)
	if got := v.States("east-west")[0].Topic.Partitions; len(got) != 3 {
		t.Errorf("%d partitions after the topic shrank to 3", len(got))
	}
}

// What is put together once is put together anew after any of its records changed or
// went, and States is never the same memory.
func TestRecordedStatesFollowTheirRecords(t *testing.T) {
	v, at := newView(), int64(0)
	apply := func(k Key, value any) {
		kb, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		var vb []byte
		if value != nil {
			if vb, err = json.Marshal(value); err != nil {
				t.Fatal(err)
			}
		}
		if at++; v.apply(at, wantAt, kb, vb) != nil {
			t.Fatal("not applied")
		}
	}
	r := wantState()
	put := func() {
		keys, values := encodeState(r)
		for i := range keys {
			apply(keys[i], values[i])
		}
	}
	check := func(want ...StateRecord) {
		t.Helper()
		for range 2 {
			if d := cmp.Diff(want, v.Recorded("east-west")); d != "" {
				t.Error(d)
			}
			for _, s := range v.States("east-west") {
				s.Topic.Partitions[0].Detail = "changed by the caller"
			}
		}
	}
	check()
	put()
	check(r)
	r.Topic.Partitions = slices.Clone(r.Topic.Partitions)
	r.Topic.Partitions[0].TargetEnd = ptr[int64](4711)
	put()
	check(r)
	r.Topic.Partitions[1].Hint, r.Topic.Hint = "of this very halt", "of this very topic"
	put()
	check(r)
	keys, _ := encodeState(r)
	apply(keys[0], nil)
	check()
	put()
	check(r)
}

// Whatever the bytes: no panic; a record is applied, counted or refused as
// newer; and what was good before stays readable.
func FuzzApply(f *testing.F) {
	for _, r := range slices.Concat(fixtures(f), wantedFixtures(f)) {
		f.Add([]byte(r.key), []byte(r.value))
	}
	f.Add([]byte(`{"kind":"topic"}`), []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		v := viewOf(t, fixtures(t)...)
		err := v.apply(1000, time.Now(), key, value)
		if err != nil && !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
		v.Report()
		v.Intents("east-west")
		v.Groups("east-west")
		v.Cuts("east-west", "")
		for _, r := range v.Topics("east-west") {
			v.TopicOwner(r.TargetTopic)
			v.Epochs(r.Link, r.SourceTopic, 3)
			v.Pad(r.Link, r.SourceTopic, 3)
			v.Acks(r.Link, r.SourceTopic)
			v.CounterEnd(r.Link, r.SourceTopic, r.SourceID, 3)
		}
		if v.Problems().Malformed > 0 && len(v.Topics("east-west")) != 3 {
			t.Fatal("a malformed record changed something")
		}
	})
}
