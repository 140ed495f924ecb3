package topics

import (
	"slices"

	"klink/linker/state"
)

// Recorded is what klink remembers of a mirror that was begun before.
type Recorded struct {
	// Source are settings of the source topic as last seen, by name; see
	// Settings.OnRecord. Nil for a mirror that is new.
	Source map[string]string
	// PolicyHeld is true while the target topic's cleanup.policy is padding's
	// business: it may differ from the source's, and is put back by who changed
	// it.
	PolicyHeld bool
	// Drifts is true in checkpoint mode, where a target cannot follow the source's log
	// start and deletes by itself, as with CopyRetention.
	Drifts bool
}

// followed are the settings that T6 is about.
var followed = append([]string{keyCleanup}, cleaning...)

// follow gives the settings in which the source changed since they were
// recorded, and in which the target is not as the source now (T6). A target that
// differed all along was made so by its owner.
//
// The record is asked only here, when the target was described before: padding
// puts its goal on record before it changes the policy, so that a policy that it
// changed is never seen without the goal.
func (w *work) follow(have Settings) []Correction {
	if w.plan.Recorded == nil || w.plan.Source.Configs == nil {
		return nil
	}
	rec := w.plan.Recorded()
	var out []Correction
	for _, k := range followed {
		now, ok := w.plan.Source.Configs[k]
		was, recorded := rec.Source[k]
		cur, there := have[k]
		_, overridden := w.plan.Overrides[k]
		switch {
		case !ok || !recorded || !there || overridden || same(k, was, now.Value):
		case k == keyCleanup && rec.PolicyHeld:
			w.out.Unfollowed = append(w.out.Unfollowed, k)
		case same(k, cur.Value, now.Value):
		default:
			out = append(out, Correction{Key: k, Have: cur.Value, Want: now.Value,
				Critical: k == keyCleanup && compacts(cur.Value) && !compacts(now.Value)})
		}
	}
	return out
}

// unfollow notes what of the corrections was to follow the source.
func (w *work) unfollow(failed []Correction) {
	for _, c := range failed {
		if slices.Contains(followed, c.Key) {
			w.out.Unfollowed = append(w.out.Unfollowed, c.Key)
		}
	}
}

func same(key, a, b string) bool {
	if key == keyCleanup {
		return samePolicy(a, b)
	}
	return a == b
}

// refuseCleanup holds back records from a topic whose cleaner would remove what
// the source keeps, unless that is about to be corrected.
func (w *work) refuseCleanup(have Settings) {
	src, known := w.plan.Source.Configs[keyCleanup]
	dst := have[keyCleanup].Value
	if _, corrected := changed(w.out.Changed, keyCleanup); !known || corrected {
		return
	}
	if compacts(dst) && !compacts(src.Value) {
		w.out.refuse(state.TopicRefused, "the target topic's cleanup.policy is %q and the source's %q: the target would remove records that the source keeps; set cleanup.policy=%s on topic %s",
			dst, src.Value, src.Value, w.plan.Target)
	}
}

func changed(cs []Correction, key string) (Correction, bool) {
	if i := slices.IndexFunc(cs, func(c Correction) bool { return c.Key == key }); i >= 0 {
		return cs[i], true
	}
	return Correction{}, false
}
