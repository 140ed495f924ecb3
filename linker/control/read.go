package control

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
)

// Read reads the control topic once, to its end, and writes nothing: for the
// commands that work while no daemon does. Describe and Read on the topic are
// all it needs. A cluster without the topic gives a *Fault with TOPIC_MISSING.
func Read(ctx context.Context, cl *kgo.Client) (*View, error) {
	t := ownlog.New(cl, TopicName)
	defer t.Close()
	if err := t.Locate(ctx); err != nil {
		return nil, err
	}
	v := newView()
	if err := readWhole(ctx, t, v.take); err != nil {
		return nil, err
	}
	return v, nil
}
