package app

import (
	"strings"
	"testing"

	"klink/linker/reverse"
)

func TestWayHomeWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		n     reverse.Needed
		right string
		known bool
		says  string
	}{
		"all there":    {reverse.Needed{Markers: reverse.Yes}, "", false, ""},
		"one missing":  {reverse.Needed{Missing: []string{"Write on topic a"}, Markers: reverse.Yes}, "source: Write on topic a", true, "klink reverse"},
		"many missing": {reverse.Needed{Missing: []string{"A", "B", "C"}, Markers: reverse.No}, "source: A", true, "2 other rights, such as B"},
		"not told":     {reverse.Needed{Unknown: []string{"x"}, Markers: reverse.Unknown}, "source: Alter (or ClusterAction) on cluster", false, "does not tell"},
	} {
		t.Run(name, func(t *testing.T) {
			got := wayHomeWarnings(c.n)
			if (len(got) == 0) != (c.right == "") {
				t.Fatalf("%+v", got)
			}
			if len(got) > 0 && (got[0].Right != c.right || got[0].Known != c.known || !strings.Contains(got[0].Detail, c.says) || got[0].Hint == "") {
				t.Errorf("%+v", got[0])
			}
		})
	}
}
