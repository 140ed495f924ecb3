package maps

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
	"klink/linker/state"
	"klink/translate/exact"
)

// Reader reads the maps of a target as they are by now, and writes nothing.
// Describe and Read on the topic are all it needs. It is safe for concurrent use.
type Reader struct {
	cl *kgo.Client

	mu      sync.Mutex // guards all below; held over requests
	log     *ownlog.Log
	located bool
	view    *View
}

// NewReader makes a reader; it dials nothing. Close must be called on it.
func NewReader(cl *kgo.Client) *Reader {
	return &Reader{cl: cl, log: ownlog.New(cl, TopicName), view: newView()}
}

// Close ends the reader; not the client.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Close()
}

// Refresh reads what was put on record since the last time. A cluster without the
// topic has no maps. The error is a *ownlog.Fault; or ownlog.ErrLost, once, where the
// topic was deleted: what was read of it is forgotten then.
func (r *Reader) Refresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.located {
		if err := r.log.Locate(ctx); missing(err) {
			return nil
		} else if err != nil {
			return err
		}
		r.located = true
	}
	err := r.log.ReadToEnd(ctx, r.view.take)
	if errors.Is(err, ownlog.ErrLost) {
		r.log.Close()
		r.log, r.located, r.view = ownlog.New(r.cl, TopicName), false, newView()
	}
	return err
}

func missing(err error) bool {
	var f *ownlog.Fault
	return errors.As(err, &f) && f.Reason == state.TopicMissing
}

// Map gives what was on record of a partition at the last Refresh; see View.Map.
func (r *Reader) Map(p Place) (*exact.Map, Cursor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.Map(p)
}

// Places are the partitions of a link at the last Refresh; see View.Places.
func (r *Reader) Places(link string) []Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.Places(link)
}
