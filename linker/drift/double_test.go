package drift

import "testing"

func TestMaybeDouble(t *testing.T) {
	cursor := Position{Src: 100, Dst: 50, Seq: 7}
	for name, c := range map[string]struct {
		at            Position
		start, srcEnd int64
		want          int64
	}{
		"nothing deleted since":       {cursor, 50, 500, 0},
		"less deleted than there was": {cursor, 60, 500, 10},
		"more than the source has":    {cursor, 600, 130, 30},
		"the source has no more":      {cursor, 600, 100, 0},
		"a later copy tells":          {Position{Src: 120, Seq: 27}, 60, 500, 0},
		"earlier copies were lost":    {Position{Src: 90, Seq: 5}, 60, 500, 0},
	} {
		if got := MaybeDouble(cursor, c.at, c.start, c.srcEnd); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
