package app

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"klink/linker/control"
)

// With --target alone, commands that only read take the only link on record; those
// that write, and all of them where there are several, have it named.
func TestLinkThatNobodyNamed(t *testing.T) {
	dst := cluster(t, kfake.NumBrokers(1), kfake.ClusterID("DST"))
	put := func(link string) {
		putOn(t, dst, func(ctx context.Context, s *control.Store) error {
			return s.PutLink(ctx, control.LinkRecord{Link: link, Mode: "mirror", SourceClusterID: "SRC", TargetClusterID: "DST", AppliedAt: asOf})
		})
	}
	ask := func(command string, flags ...string) result {
		return execute(t.Context(), production(), append([]string{command, "--target", dst.ListenAddrs()[0], "-o", "json"}, flags...)...)
	}
	reading := map[string][]string{"translate": {"--group", "g"}, "status": {"--http", freeAddress(t)}, "describe": {"--http", freeAddress(t)}}
	writing := []string{"pause", "failover", "remove"}

	put("east")
	for command, flags := range reading {
		if r := ask(command, flags...); !strings.Contains(r.out, `"east"`) || strings.Contains(r.err, "--link") {
			t.Errorf("%s: %+v", command, r)
		}
	}
	for _, command := range writing {
		if r := ask(command, "--yes"); r.code != 1 || !strings.Contains(r.err, `choose the link with --link NAME; on record on the target: "east"`) || r.out != "" {
			t.Errorf("%s: %+v", command, r)
		}
	}
	put("west")
	for command, flags := range reading {
		if r := ask(command, flags...); r.code != 1 || !strings.Contains(r.err, `choose the link with --link NAME; on record on the target: "east", "west"`) || r.out != "" {
			t.Errorf("%s: %+v", command, r)
		}
		if r := ask(command, append(flags, "--link", "north")...); r.code != 1 || !strings.Contains(r.err, `knows no link of this name: "north"; on record there: "east", "west"`) {
			t.Errorf("%s: %+v", command, r)
		}
	}
}
