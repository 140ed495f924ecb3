package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"one", []float64{7}, 7},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := median(c.values); got != c.want {
				t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
			}
		})
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of none is %v, want NaN", got)
	}
}

func TestPercentileIsNearestRank(t *testing.T) {
	values := []float64{50, 15, 40, 20, 35}
	for p, want := range map[float64]float64{0: 15, 20: 15, 40: 20, 50: 35, 99: 50, 100: 50} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%v = %v, want %v", p, got, want)
		}
	}
	if values[0] != 50 {
		t.Error("the values were sorted in place")
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of none is %v, want NaN", got)
	}
}

func TestRatioOfNothing(t *testing.T) {
	if got := ratio(3, 2); got != 1.5 {
		t.Errorf("3/2 = %v", got)
	}
	if got := ratio(3, 0); !math.IsNaN(got) {
		t.Errorf("3/0 = %v, want NaN", got)
	}
}
