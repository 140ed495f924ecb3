package pad

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEstimate(t *testing.T) {
	rates := Rates{OffsetsPerSecond: 1_000_000, BytesPerOffset: 0.8}
	for name, c := range map[string]struct {
		offsets int64
		rates   Rates
		want    Cost
	}{
		"nothing": {0, rates, Cost{Known: true}},
		"one": {1, rates, Cost{Offsets: 1, Pieces: 1, Trims: 1, Written: 0, Peak: 0,
			Took: time.Microsecond, Known: true, Settle: 2 * time.Minute}},
		"ten million": {10_000_000, rates, Cost{Offsets: 10_000_000, Pieces: 50, Trims: 1, Written: 8_000_000, Peak: 8_000_000,
			Took: 10 * time.Second, Known: true, Settle: 2 * time.Minute}},
		"a billion": {1_000_000_000, rates, Cost{Offsets: 1_000_000_000, Pieces: 5000, Trims: 100, Written: 800_000_000, Peak: 304_000_000,
			Took: 1000 * time.Second, Known: true, Settle: 2 * time.Minute}},
		"no rate": {1_000_000_000, Rates{BytesPerOffset: 0.8}, Cost{Offsets: 1_000_000_000, Pieces: 5000, Trims: 100,
			Written: 800_000_000, Peak: 800_000_000, Settle: 2 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Estimate(c.offsets, c.rates, Settings{})
			if err != nil || got != c.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestBytesPerOffset(t *testing.T) {
	large, err := BytesPerOffset(DefaultSettings().PieceOffsets)
	if err != nil || large < 0.5 || large > 0.9 {
		t.Errorf("%.3f bytes, %v", large, err)
	}
	if one, err := BytesPerOffset(1); err != nil || one < 61 {
		t.Errorf("%.3f bytes for a batch of one, %v", one, err)
	}
	if _, err := BytesPerOffset(0); err == nil {
		t.Error("a batch of none")
	}
	c, err := Estimate(100, Rates{}, Settings{})
	if err != nil || c.Written < 100 || c.Written > 400 {
		t.Errorf("%+v, %v", c, err)
	}
}

// The estimate is of what the padder does.
func TestEstimateAgainstARun(t *testing.T) {
	for _, goal := range []int64{1, 4, 5, 8, 9, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, "delete")
			s.requireDone(s.lead(padded(goal), quick()), goal, quick())
			c, err := Estimate(goal, Rates{BytesPerOffset: 1}, quick())
			if err != nil || c.Pieces != int64(s.pieces) || c.Trims != int64(s.trims) {
				t.Errorf("goal %d: estimated %d pieces and %d trims, were %d and %d (%v)", goal, c.Pieces, c.Trims, s.pieces, s.trims, err)
			}
		})
	}
}
