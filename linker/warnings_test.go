package linker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func TestWarningsAreSaidOnce(t *testing.T) {
	markers, write := state.Warning{Right: "markers", Known: true}, state.Warning{Right: "write", Known: true}
	untold := state.Warning{Right: "write"}
	for name, c := range map[string]struct {
		was, now []state.Warning
		want     []string
	}{
		"none":             {nil, nil, nil},
		"new":              {nil, []state.Warning{markers, write}, []string{"markers", "write"}},
		"said before":      {[]state.Warning{markers}, []state.Warning{markers, write}, []string{"write"}},
		"granted":          {[]state.Warning{markers, write}, []state.Warning{write}, nil},
		"not told":         {nil, []state.Warning{untold}, nil},
		"was not told":     {[]state.Warning{untold}, []state.Warning{write}, []string{"write"}},
		"missing no more":  {[]state.Warning{write}, []state.Warning{untold}, nil},
		"granted and lost": {nil, []state.Warning{markers}, []string{"markers"}},
	} {
		if diff := cmp.Diff(c.want, unsaid(c.was, c.now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
