package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/remote"
)

// Restoration is a topic that is mirrored no more: what mirroring forced on it
// gives way to the source's own settings.
type Restoration struct {
	Target string
	// Source are the source's settings as last seen (Settings.OnRecord); nil where
	// they never were.
	Source Settings
}

// Restored is what became of one Restoration.
type Restored struct {
	Target  string
	Changed []Correction
	// Notes are sentences about what stayed as it is, and why.
	Notes []string
	// Err is a *remote.Fault; then nothing was changed, or not everything.
	Err error
}

// Restore brings the source's settings into force on topics of the target, in as
// few requests as their size allows (IncrementalAlterConfigs v0, KIP-339). It
// changes only what still has the value that mirroring forces: what somebody else
// set since stays, so it may be called again at any time. The answers are in the
// order of rs, one each.
func (t *Target) Restore(ctx context.Context, rs []Restoration) []Restored {
	out := make([]Restored, len(rs))
	names := make([]string, len(rs))
	for i, r := range rs {
		out[i].Target, names[i] = r.Target, r.Target
	}
	have, err := describeConfigs(ctx, t.cl, names)
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	var todo []*work
	at := make(map[*work]*Restored)
	for i, r := range rs {
		d, ok := have[r.Target]
		if !ok {
			d.err = remote.Classify("describe configs", "", errNoAnswer)
		}
		out[i].Changed, out[i].Notes, out[i].Err = restorations(r.Source, d)
		if len(out[i].Changed) > 0 {
			w := &work{plan: Plan{Target: r.Target}, out: &Outcome{Changed: out[i].Changed}}
			todo, at[w] = append(todo, w), &out[i]
		}
	}
	t.restore(ctx, todo, at)
	return out
}

// restore sets what was decided. Settings that a topic does not get all together
// are tried once more without those that it can do without.
func (t *Target) restore(ctx context.Context, todo []*work, at map[*work]*Restored) {
	for try := 0; len(todo) > 0; try++ {
		var again []*work
		for _, chunk := range chunks(todo) {
			answers, err := t.alterConfigs(ctx, chunk)
			for _, w := range chunk {
				if err == nil {
					w.conclude(at[w], answers[w.plan.Target])
				} else {
					w.conclude(at[w], err)
				}
				if at[w].Err != nil && try == 0 && w.lighten(at[w]) {
					again = append(again, w)
				}
			}
		}
		todo = again
	}
}

// conclude gives a restoration its outcome.
func (w *work) conclude(r *Restored, err error) {
	r.Changed, r.Err = w.out.Changed, nil
	if err == nil {
		return
	}
	text, _ := describe(w.out.Changed)
	r.Changed = nil
	r.Err = remote.Classify("set "+text+" on topic "+w.plan.Target, remote.Right("AlterConfigs", "topic", w.plan.Target), err)
}

// lighten leaves out what is not vital where the target refuses the settings; it
// reports whether that leaves something to try.
func (w *work) lighten(r *Restored) bool {
	if !errors.Is(r.Err, kerr.InvalidConfig) && !errors.Is(r.Err, kerr.PolicyViolation) {
		return false
	}
	before := len(w.out.Changed)
	w.out.Changed = slices.DeleteFunc(slices.Clone(w.out.Changed), func(c Correction) bool { return !vital(c.Key) })
	if n := len(w.out.Changed); n == 0 || n == before {
		return false
	}
	r.Notes = append(r.Notes, fmt.Sprintf("some settings are left as they are: %v", r.Err))
	return true
}

// restorations decides what is set. Settings that the source had from its brokers
// are set as well: the target's brokers may have others by default, and what
// counts is how the topic behaves.
func restorations(source Settings, d described) (set []Correction, notes []string, err error) {
	if source == nil {
		return nil, []string{"the source's settings are not on record (missing right there: DescribeConfigs on the topic): those that mirroring forces stay, so nothing is deleted by age or size"}, nil
	}
	unseen := false
	if d.err != nil {
		if !errors.Is(d.err, kerr.TopicAuthorizationFailed) {
			return nil, nil, d.err
		}
		unseen = true
		notes = append(notes, fmt.Sprintf("what is set now cannot be seen: %v", d.err))
	}
	for _, k := range forced {
		want, ok := source[k]
		have, there := d.settings[k]
		switch {
		case !ok || !there && !unseen: // the source never told, or this broker does not have it
		case unseen && !vital(k):
		case unseen:
			set = append(set, Correction{Key: k, Have: "unknown", Want: want.Value})
		case have.Value == want.Value:
		case have.Value != forcedValue(k, want.Value):
			notes = append(notes, fmt.Sprintf("%s=%s stays: it is neither what mirroring sets nor what the source had (%s)", k, have.Value, want.Value))
		default:
			set = append(set, Correction{Key: k, Have: have.Value, Want: want.Value})
		}
	}
	return set, notes, nil
}

// forcedValue is what mirroring sets where the source has a value; see
// configPlanner.force.
func forcedValue(key, source string) string {
	switch key {
	case keyCompress:
		return "producer"
	case keyTimestamps:
		return "CreateTime"
	case keyMaxMessage:
		n, _ := number(source)
		return strconv.FormatInt(max(leastMessageBytes, n), 10)
	case keyRetainMs, keyRetainSize:
		return "-1"
	default:
		return unlimited
	}
}
