package state

import "testing"

// What is not known is never 0 (S3), and ends that cross leave nothing open.
func TestOpenRecords(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, c := range []struct{ stable, high, want *int64 }{
		{n(120), n(480), n(360)}, {n(480), n(480), n(0)}, {n(481), n(480), n(0)}, {nil, n(480), nil}, {n(120), nil, nil},
	} {
		got := OpenRecords(c.stable, c.high)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v", got)
		}
	}
}
