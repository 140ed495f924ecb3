package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"klink/linker/control"
)

func TestWhoDidNotConfirm(t *testing.T) {
	heard := time.Unix(1_000, 0)
	m := &mirror{TopicRecord: control.TopicRecord{SourceTopic: "a"}}
	for name, c := range map[string]struct {
		seen sight
		n    int
		want string
	}{
		"one":       {sight{worker: "w1", heard: heard}, 1, "1 partition, a/0: its worker w1 was last heard of 1m5s ago, at 1970-01-01T00:16:40Z"},
		"several":   {sight{worker: "w1", heard: heard}, 3, "3 partitions, such as a/0: its worker w1 was last heard of 1m5s ago, at 1970-01-01T00:16:40Z"},
		"undated":   {sight{worker: "w1"}, 1, "1 partition, a/0: its worker is w1"},
		"nobody":    {sight{}, 1, "1 partition, a/0: no klink has ever reported on it"},
		"a clock's": {sight{worker: "w1", heard: heard.Add(time.Hour)}, 1, "1 partition, a/0: its worker w1 was last heard of 0s ago, at 1970-01-01T01:16:40Z"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := make([]*fate, c.n)
			for i := range fs {
				fs[i] = &fate{part: part{m: m, n: int32(i)}, seen: c.seen}
			}
			if got := unconfirmed(fs, heard.Add(65*time.Second)); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestPromoteOfOneTopicWithoutAWorker: no other topic is to blame, and it says what to do.
func TestPromoteOfOneTopicWithoutAWorker(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.alive = false
		r, err := w.open("cli").Promote(context.Background(), Request{Timeout: 3 * time.Second})
		x := r.Topics[0]
		if !errors.Is(err, ErrRefused) || x.OK || x.Reason != silentWorker || !strings.Contains(x.Hint, "klink run") || !strings.Contains(x.Hint, "klink failover") ||
			!strings.Contains(x.Detail, "w1 was last heard of") {
			t.Errorf("%v: %+v", err, x)
		}
	})
	play(t, []string{"a"}, func(w *world) { // a trouble of no topic in particular
		w.wantsGroups = true
		r, err := w.open("cli").Promote(context.Background(), Request{Timeout: 3 * time.Second})
		if x := r.Topics[0]; !errors.Is(err, ErrRefused) || x.OK || x.Detail != err.Error() {
			t.Errorf("%v: %+v", err, x)
		}
	})
}
