package topics

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/state"
)

// Existing asks a cluster which of the named topics are there. One that may not
// be described counts as there: whether it is cannot be told, and what is there
// must not be taken for gone.
func Existing(ctx context.Context, cl *kgo.Client, names []string) (map[string]bool, error) {
	out := make(map[string]bool, len(names))
	if len(names) == 0 {
		return out, nil
	}
	answer, err := metadata(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.topics {
		out[t.Name] = t.Reason != state.TopicMissing
	}
	return out, nil
}
