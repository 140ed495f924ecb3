package switchover

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
)

// NewGroups asks a cluster for committed offsets (OffsetFetch). It needs Describe
// on the groups.
func NewGroups(dst *kgo.Client) Groups { return committed{kadm.NewClient(dst)} }

type committed struct{ cl *kadm.Client }

// Committed implements the port. The error joins those of single groups.
func (c committed) Committed(ctx context.Context, groups []string) (map[string]map[feed.Partition]int64, error) {
	out := make(map[string]map[feed.Partition]int64, len(groups))
	var errs []error
	for name, got := range c.cl.FetchManyOffsets(ctx, groups...) {
		if got.Err != nil {
			errs = append(errs, got.Err)
			continue
		}
		offsets := make(map[feed.Partition]int64)
		whole := true
		got.Fetched.Each(func(o kadm.OffsetResponse) {
			if o.Err != nil {
				errs, whole = append(errs, o.Err), false
				return
			}
			offsets[feed.Partition{Topic: o.Topic, Partition: o.Partition}] = o.At
		})
		if whole {
			out[name] = offsets
		}
	}
	return out, errors.Join(errs...)
}
