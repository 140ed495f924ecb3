package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/translate/exact"
)

// taken is what klink adopt --from-mm2 says.
type taken struct {
	Doubles int64
	Topics  []struct {
		SourceTopic string `json:"source_topic"`
		Adopted     bool
		Partitions  []struct {
			State          string
			ConnectOffset  *int64 `json:"connect_offset"`
			Next           int64  `json:"next_source_offset"`
			TranslatedFrom *int64 `json:"translated_from"`
			Doubles        int64
		}
	}
}

// takeoverSettings are MirrorMaker 2's: a flush each minute, as it comes.
const takeoverSettings = "takeover"

// startTakeover makes topics whose targets hold other data, and writes to them on the source.
func startTakeover(t *testing.T, topics ...string) (p pair, load *lab.Load, file string) {
	t.Helper()
	p = startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	for _, topic := range topics {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: 2, Configs: lab.KeepEverything()})
		create(t, p.dst, lab.TopicSpec{Name: "src." + topic, Partitions: 2, Configs: lab.KeepEverything()})
		produceForeign(t, p.dst, "src."+topic, 2)
	}
	now := time.Now()
	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: topics, Seed: 3, MaxBatch: 20,
		RecordsPerSecond: 2_000, From: now.Add(-time.Hour), To: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { load.Crash() })
	l := openLink("heir", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics...)
	l["mode"], l["checkpoint"], l["groups"] = "checkpoint", object{"source_alias": "src", "target_alias": "dst"}, object{"include": []string{"reader"}}
	return p, load, configFile(t, l)
}

// awaitCopies waits until MirrorMaker 2 has copied some records of each partition.
func awaitCopies(t *testing.T, p pair, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		for n := range int32(2) {
			eventually(t, 3*patience, fmt.Sprintf("copies of %s[%d]", topic, n), func() bool {
				return boundsOf(t, p.dst, "src."+topic)[n].End > foreignRecords+500
			})
		}
	}
}

// takeOver gives the command until MirrorMaker 2's workers count as gone.
func takeOver(t *testing.T, file string) (r taken) {
	t.Helper()
	var o outcome
	eventually(t, patience, "MirrorMaker 2 to count as gone", func() bool {
		o = command(t, "adopt", "--from-mm2", "-c", file, "--watch", "1s", "--yes", "-o", "json")
		return !strings.Contains(o.errOut, "MirrorMaker 2")
	})
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != 0 {
		t.Fatalf("%+v (%v)", o, err)
	}
	return r
}

// TestMM2_TakeoverStoppedUnderLoad: a MirrorMaker 2 is stopped while the source is
// written to, and klink goes on: every record is there once and in its order, and the
// map leads to the copies of both.
func TestMM2_TakeoverStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	p, load, file := startTakeover(t, "orders")
	mm2 := startMirrorMaker(t, p, takeoverSettings, "orders")
	awaitCopies(t, p, "orders")
	offsets := make(kadm.Offsets)
	offsets.AddOffset("orders", 0, 300, -1)
	if err := admin(t, p.src).CommitAllOffsets(within(t, patience), "reader", offsets); err != nil {
		t.Fatal(err)
	}
	if err := mm2.Terminate(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-mm2.Done():
	case <-within(t, patience).Done():
		t.Fatal("MirrorMaker 2 does not end")
	}
	r := takeOver(t, file)
	for n, x := range r.Topics[0].Partitions {
		if x.State != "PROVEN" || x.ConnectOffset == nil || *x.ConnectOffset+1 != x.Next || x.TranslatedFrom == nil || r.Doubles != 0 || !r.Topics[0].Adopted {
			t.Errorf("partition %d: %+v", n, x)
		}
	}
	k := startKlink(t, "-c", file)
	if r := load.Stop(); r.Err != nil {
		t.Fatal(r.Err)
	}
	for n := range int32(2) {
		requireTakenOver(t, p, "orders", n, 0)
	}
	if o := command(t, "compare", "-c", file); o.code != 0 {
		t.Errorf("klink compare finds: %+v", o)
	}
	k.stop(t)
	requireTakenMap(t, p, "orders", *r.Topics[0].Partitions[0].TranslatedFrom)
}

// TestMM2_TakeoverKilled: a MirrorMaker 2 is killed before it has committed anything.
// Where the target ends with its copies none is made again all the same; where others
// wrote behind them, no more than was said.
func TestMM2_TakeoverKilled(t *testing.T) {
	t.Parallel()
	p, load, file := startTakeover(t, "orders", "shared")
	mm2 := startMirrorMaker(t, p, takeoverSettings, "orders,shared")
	awaitCopies(t, p, "orders", "shared")
	if err := mm2.Kill(); err != nil {
		t.Fatal(err)
	}
	produceForeign(t, p.dst, "src.shared", 2)
	r := takeOver(t, file)
	if len(r.Topics) != 2 || !r.Topics[0].Adopted || !r.Topics[1].Adopted {
		t.Fatalf("%+v", r)
	}
	k := startKlink(t, "-c", file)
	if r := load.Stop(); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, topic := range r.Topics {
		for n, x := range topic.Partitions {
			t.Logf("%s[%d]: %+v", topic.SourceTopic, n, x)
			if proven := topic.SourceTopic == "orders"; proven != (x.State == "PROVEN") || proven && x.Doubles > 0 {
				t.Errorf("%s[%d]: %+v", topic.SourceTopic, n, x)
			}
			requireTakenOver(t, p, topic.SourceTopic, int32(n), x.Doubles)
		}
	}
	k.stop(t)
}

// requireTakenOver waits until the target holds the source's records, in their order,
// behind and between others'; up to doubles of them twice.
func requireTakenOver(t testing.TB, p pair, topic string, n int32, doubles int64) {
	t.Helper()
	want := visible(t, p.src, topic, n)
	var got []*kgo.Record
	eventually(t, 2*patience, fmt.Sprintf("all of %s[%d]", topic, n), func() bool {
		got = copiesAmong(visible(t, p.dst, "src."+topic, n))
		return len(got) > 0 && sameRecord(got[len(got)-1], want[len(want)-1]) && len(got) >= len(want)
	})
	if twice := int64(len(got) - len(want)); twice > doubles {
		t.Errorf("%s[%d]: %d of %d records are there twice, at most %d were said to be", topic, n, twice, len(want), doubles)
	}
	next := 0
	for _, g := range got {
		if next < len(want) && sameRecord(g, want[next]) {
			next++
		} else if doubles == 0 {
			t.Fatalf("%s[%d]: the copy at offset %d is not the record at offset %d of the source", topic, n, g.Offset, want[next].Offset)
		}
	}
	if next != len(want) {
		t.Errorf("%s[%d]: the record at offset %d is missing", topic, n, want[next].Offset)
	}
}

// copiesAmong are the records that are not others'.
func copiesAmong(all []*kgo.Record) (copies []*kgo.Record) {
	for _, r := range all {
		if string(r.Value) != "not copied" {
			copies = append(copies, r)
		}
	}
	return copies
}

// requireTakenMap: the map leads from each record at or above a source offset to its
// copy, whoever made it, and tells nothing of those below.
func requireTakenMap(t testing.TB, p pair, topic string, from int64) {
	t.Helper()
	view := recordedMaps(t, p.dst)
	if from > 300 {
		t.Errorf("the map begins at %d, and a group is at 300", from)
	}
	for _, place := range view.Places("heir")[:1] {
		m, _, err := view.Map(place)
		if err != nil {
			t.Fatal(err)
		}
		src, dst := visible(t, p.src, topic, place.Partition), copiesAmong(visible(t, p.dst, "src."+topic, place.Partition))
		for i, r := range src {
			want := exact.Answer{Offset: dst[i].Offset, Kind: exact.Exact}
			if a := m.ToTarget(r.Offset); r.Offset >= from && a != want || r.Offset < from && a.Kind != exact.None {
				t.Fatalf("offset %d leads to %+v, its copy is at %d", r.Offset, a, dst[i].Offset)
			}
		}
	}
}
