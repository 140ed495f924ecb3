package linker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// lastSight is when the only worker on record last saw the source, zero for never.
func (w *world) lastSight(t *testing.T, worker string) time.Time {
	t.Helper()
	all := w.Sights("l")
	if len(all) == 0 {
		return time.Time{}
	}
	if len(all) > 1 || all[0].Worker != worker {
		t.Fatalf("sights %+v, want one of %s", all, worker)
	}
	return all[0].At
}

// TestG9_SightsOfAnIdleSource: what is on record of a source in which nothing happens
// is as of the last seconds, while it is seen, and no longer.
func TestG9_SightsOfAnIdleSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		var away atomic.Bool
		w.mended = make(chan struct{})
		w.fault = func(p feed.Partition, next int64) *feed.Fault {
			if away.Load() {
				return feed.NewFault(feed.Unreachable, p, next, nil)
			}
			return nil
		}
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		for range 100 {
			time.Sleep(time.Minute)
			if unseen := time.Since(w.lastSight(t, "w")); unseen > sightEvery+recordEvery {
				t.Fatalf("unseen for %s by the record", unseen)
			}
		}
		w.mu.Lock()
		if most := int(2 * 100 * time.Minute / sightEvery); w.sightPuts > most {
			t.Errorf("%d sights were written, more than %d", w.sightPuts, most)
		}
		recorded := w.states["a"].Topic.Partitions
		w.mu.Unlock()
		if len(w.Sights("l")[0].Topics["a"].Except) > 0 || time.Since(recorded[0].AsOf.Time) < time.Hour {
			t.Errorf("%+v of %+v", w.Sights("l"), recorded)
		}

		away.Store(true)
		left := time.Now()
		time.Sleep(time.Hour)
		if at := w.lastSight(t, "w"); at.After(left) || left.Sub(at) > sightEvery+recordEvery {
			t.Errorf("seen at %s on record, and the source went at %s", at, left)
		}
		if p := w.States("l")[0].Topic.Partitions[0]; p.State != state.SourceUnavailable || p.AsOf.After(left) || left.Sub(p.AsOf.Time) > time.Second {
			t.Errorf("recorded as the source went at %s: %+v", left, p)
		}
		away.Store(false)
		close(w.mended)
		time.Sleep(time.Minute)
		if unseen := time.Since(w.lastSight(t, "w")); unseen > sightEvery+recordEvery {
			t.Errorf("unseen for %s although the source is back", unseen)
		}
		time.Sleep(3 * time.Second) // between two
		end()
		if unseen := time.Since(w.lastSight(t, "w")); unseen > time.Second {
			t.Errorf("the last word is %s old", unseen)
		}
	})
}

// What a process that is gone said stays until another one has recorded what was its
// own; what it cannot know, it does not repeat.
func TestSightsOfAProcessThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		at := w.lastSight(t, "w")
		w.down = &Trouble{Reason: state.Unreachable, Detail: "source: refused"}
		l = w.link(t, "x")
		end = w.start(t, l)
		time.Sleep(time.Hour)
		if now := w.lastSight(t, "w"); !now.Equal(at) {
			t.Errorf("the word of the one before is of %s, was of %s", now, at)
		}
		w.mu.Lock()
		w.down = nil
		w.sights = append(w.sights, control.SightRecord{Link: "l", Worker: "y", At: at})
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		time.Sleep(2 * sightEvery)
		if unseen := time.Since(w.lastSight(t, "x")); unseen > sightEvery+recordEvery {
			t.Errorf("unseen for %s by the record", unseen)
		}
		end()
	})
}

// awayReader reads of a source whose brokers do not answer.
type awayReader struct{}

func (awayReader) Bounds(_ context.Context, p feed.Partition, _ feed.TopicID) (feed.Bounds, error) {
	return feed.Bounds{}, feed.NewFault(feed.Unreachable, p, feed.Unknown, nil)
}

func (r awayReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, _ int64, _ int32) (*feed.Chunk, error) {
	_, err := r.Bounds(ctx, p, id)
	return nil, err
}

// A process that takes over while the source does not answer keeps on record what the
// one before it saw last, and when.
func TestG9_LastSightingOutlivesItsProcess(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*world, *Link)
		want   state.State
	}{
		{"the partition does not answer", func(_ *world, l *Link) { l.o.SrcReader = awayReader{} }, state.SourceUnavailable},
		{"the topic may not be seen", func(w *world, _ *Link) {
			w.found[0].Trouble = &Trouble{Reason: state.NoPermission, OnSource: true}
		}, state.SourceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 1, 2)
				l, end := w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				end()
				before := w.States("l")[0].Topic.Partitions
				time.Sleep(time.Hour)
				l = w.link(t, "x")
				c.change(w, l)
				end = w.start(t, l)
				time.Sleep(time.Minute)
				for i, p := range w.States("l")[0].Topic.Partitions {
					was := before[i]
					if p.State != c.want || p.SourceEnd == nil || *p.SourceEnd != *was.SourceEnd || *p.SourceHighWatermark != *was.SourceHighWatermark ||
						!p.AsOf.Equal(was.AsOf.Time) || p.LagRecords != nil {
						t.Errorf("%+v, was %+v", p, was)
					}
				}
				end()
			})
		})
	}
}
