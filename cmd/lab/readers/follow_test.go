package readers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestWhatAFollowerTells(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         []string
		err          string // "" is none
	}{
		{"records and commits", "@records t 0 5 9\n@commit t 0 9\n@records t 1 2 3\n", []string{"t/0 5-9", "t/0 =9", "t/1 2-3"}, ""},
		{"a client's log between", "12:00:00.000 INFO  Consumer: joined @ last\n@records t 0 0 1\n\tat Stack\n", []string{"t/0 0-1"}, ""},
		{"an end", "@commit t 0 9\n@end\n", []string{"t/0 =9"}, ""},
		{"no offset", "@error reset no commit for t/0\n", nil, "auto.offset.reset=none"},
		{"another error", "@error other broken\n@error reset later\n", nil, "broken"},
		{"a run backwards", "@records t 0 5 5\n", nil, "no run"},
		{"a field missing", "@records t 0 5\n", nil, "no line"},
		{"no number", "@commit t x 5\n", nil, "invalid syntax"},
	} {
		for _, size := range []int{1, 3, 1000} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", c.name, size), func(t *testing.T) {
				var got []string
				f := &told{options: FollowOptions{
					Delivered: func(r Run) { got = append(got, fmt.Sprintf("%s/%d %d-%d", r.Topic, r.Partition, r.First, r.Next)) },
					Committed: func(c Commit) { got = append(got, fmt.Sprintf("%s/%d =%d", c.Topic, c.Partition, c.Offset)) },
				}}
				for part := range slices.Chunk([]byte(c.output), size) {
					if n, err := f.Write(part); n != len(part) || err != nil {
						t.Fatal(n, err)
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("told %q, want %q", got, c.want)
				}
				err := f.failure()
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				if errors.Is(err, ErrReset) != (c.name == "no offset") {
					t.Errorf("%v: a reset: %t", err, errors.Is(err, ErrReset))
				}
				if f.hasEnded() != strings.Contains(c.output, "@end") {
					t.Error("the end was not taken as such")
				}
			})
		}
	}
}

func TestTheEndOfALogIsKept(t *testing.T) {
	var l logTail
	for i := range 10_000 {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	if text := l.tail(); len(text) > tailBytes || !strings.HasSuffix(text, "line 9999\n") || len(l.text) > 2*tailBytes {
		t.Errorf("%d bytes of %d: %q", len(text), len(l.text), text[max(0, len(text)-20):])
	}
}

func TestAProgramThatDoesNotCallMainDoesNotStartItself(t *testing.T) {
	if _, err := ownCommand(nil); err == nil {
		t.Error("it would begin all its tests again")
	}
}
