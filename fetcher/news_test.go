package fetcher

import (
	"testing"
	"time"

	"klink/fetcher/feed"
)

// News that stand in for chunks that were recalled tell of the ends as of the answer
// that had them, however long ago: what the source took in since is not known.
func TestNewsAreAsOfTheirAnswer(t *testing.T) {
	s := newReading(feed.Start{Next: 5})
	s.ends, s.endsAt = ends{logStart: 1, lastStable: 7, highWatermark: 8}, time.Now().Add(-time.Minute)
	c := s.news()
	if !c.SeenAt.Equal(s.endsAt) || c.Next != 5 || c.LogStart != 1 || c.LastStable != 7 || c.HighWatermark != 8 {
		t.Errorf("%+v", c)
	}
}
