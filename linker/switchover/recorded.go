package switchover

import (
	"context"

	"klink/linker/control"
	"klink/linker/intent"
)

// Recorded is a Store of what was read once, for a failover whose control topic
// can be read and not be written. Every Put fails with cause, as does CatchUp:
// what is read may be old.
func Recorded(v *control.View, cause error) Store { return recorded{v, cause} }

// recorded has the reading half from the view.
type recorded struct {
	*control.View
	cause error
}

func (r recorded) CatchUp(context.Context) error { return r.cause }

func (r recorded) Changed() <-chan struct{} { return nil }

func (r recorded) PutCommand(context.Context, intent.Command) error { return r.cause }

func (r recorded) PutCuts(context.Context, []control.CutRecord) error { return r.cause }

func (r recorded) ReserveCounters(context.Context, control.CounterRequest) (int32, error) {
	return 0, r.cause
}
