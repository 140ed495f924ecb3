package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

// What is read whole shows the same as what is folded in record by record.
func TestAWholeLogShowsWhatItsRecordsDo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for round := range 5 {
		var log []*kgo.Record
		put := func(k Key, value []byte) {
			kb, err := k.encode()
			if err != nil {
				t.Fatal(err)
			}
			at := wantAt.Add(time.Duration(len(log)) * time.Second)
			log = append(log, &kgo.Record{Key: kb, Value: value, Offset: int64(2 * len(log)), Timestamp: at})
		}
		for range 20 {
			r := wantState()
			r.Topic.SourceTopic, r.Topic.Partitions = fmt.Sprint("t", rng.IntN(3)), nil
			for p := range int32(1 + rng.IntN(3)*1500) {
				r.Topic.Partitions = append(r.Topic.Partitions, state.Partition{Partition: p, State: state.Active, TargetEnd: ptr(rng.Int64N(99)), Flags: []string{}})
			}
			keys, values := encodeState(r)
			for i := range keys {
				value, err := json.Marshal(values[i])
				if err != nil {
					t.Fatal(err)
				}
				if rng.IntN(5) == 0 {
					value = nil
				}
				put(keys[i], value)
			}
			l, _ := json.Marshal(linkStateValue{Version: versions[KindLinkState], State: string(state.Active), AsOf: wantAt})
			put(Key{Kind: KindLinkState, Link: "east-west"}, l)
		}
		one, whole := newView(), newView()
		w := &wholeLog{take: whole.take, states: make(map[string]*kgo.Record)}
		if err := one.take(log); err != nil {
			t.Fatal(err)
		}
		for rest := log; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			if err := w.add(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := whole.take(w.last()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(one.States("east-west"), whole.States("east-west")); d != "" {
			t.Fatalf("round %d: %s", round, d)
		}
		if !one.LastRecordAt().Equal(whole.LastRecordAt()) || whole.Problems() != one.Problems() {
			t.Fatalf("round %d: as of %v, %v: %+v", round, whole.LastRecordAt(), one.LastRecordAt(), whole.Problems())
		}
	}
}

// A state that is no state any more, and one that is empty, are told apart.
func TestAWholeLogTellsTombstonesFromNothing(t *testing.T) {
	k, err := (Key{Kind: KindState, Link: "l", Topic: "t"}).encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range [][]byte{nil, {}} {
		v := newView()
		w := &wholeLog{take: v.take, states: make(map[string]*kgo.Record)}
		if err := w.add([]*kgo.Record{{Key: k, Value: value, Offset: 7}}); err != nil {
			t.Fatal(err)
		}
		if err := v.take(w.last()); err != nil {
			t.Fatal(err)
		}
		if got, want := v.Problems().Malformed > 0, value != nil; got != want {
			t.Errorf("%v: malformed %v", value, got)
		}
	}
}

// A log that gives no answer within the patience is trouble that is told, however long
// its reader would wait in all.
func TestOpenEndsWhereNothingComes(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c)
	open(t, cl)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: -1})
	ctx := testContext(t)
	s, err := Open(ctx, Options{Client: newClient(t, c), Patience: time.Second, Logger: quiet()})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, kerr.KafkaStorageError) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}
