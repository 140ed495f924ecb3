package fill

import (
	"fmt"

	"klink/linker/state"
)

// Waiting is why a fill takes long; the zero value: it does not wait (any more).
type Waiting struct {
	// Reason is FILL_UNKNOWN, or NOT_ENOUGH_REPLICAS where only the followers are
	// waited for.
	Reason state.Reason
	Detail string
}

// waits notes why the machine waits for a doubt; "" keeps the words of before.
func (m *machine) waits(detail string) {
	if detail == "" && m.waiting.Reason == state.FillUnknown {
		return
	}
	if detail == "" {
		detail = fmt.Sprintf("markers of a former owner may be on their way to offsets %d to %d", m.at, m.limit-1)
	}
	m.waiting = Waiting{Reason: state.FillUnknown, Detail: detail}
}

// lags notes that the followers are waited for, unless there is a doubt.
func (m *machine) lags(e Ends) {
	if m.open {
		return
	}
	m.waiting = Waiting{Reason: state.NotEnoughReplicas,
		Detail: fmt.Sprintf("the log ends at %d, of which the followers have all below %d", e.LogEnd, e.HighWatermark)}
}
