package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"klink/linker/control"
	"klink/linker/intent"
)

// giveCommands lets every store give n commands of one link, all at once, and
// returns the ids of those that were told that they count, by number.
func giveCommands(t testing.TB, ctx context.Context, n int, stores ...*control.Store) map[int32]string {
	t.Helper()
	const link = "rivals"
	told := make(map[int32]string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for given := 0; given < n; {
				c := intent.Command{Link: link, Number: s.Intents(link).Next(), ID: fmt.Sprintf("%d-%d", i, given),
					Verb: intent.Pause, Topics: []string{fmt.Sprint("topic-", i)}}
				err := s.PutCommand(ctx, c)
				var lost *control.LostError
				if errors.As(err, &lost) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				given++
				mu.Lock()
				if told[c.Number] != "" {
					t.Errorf("%s and %s are both number %d", told[c.Number], c.ID, c.Number)
				}
				told[c.Number] = c.ID
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return told
}

// checkCommands looks for every command that was told it counts, and for no
// other, in what a reader says.
func checkCommands(t testing.TB, told map[int32]string, read func(link string) []intent.Command) {
	t.Helper()
	cmds := read("rivals")
	if len(cmds) != len(told) {
		t.Errorf("%d commands count, %d were told so", len(cmds), len(told))
	}
	for _, c := range cmds {
		if told[c.Number] != c.ID {
			t.Errorf("number %d is %q, and %q was told so", c.Number, c.ID, told[c.Number])
		}
	}
}
