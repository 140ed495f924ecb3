package control

import (
	"slices"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// Report builds what status shows from the control topic alone, for when the
// daemon does not answer. AsOf is the time of the newest record: nothing in the
// report is younger than that.
func (v *View) Report() state.Report {
	rep := state.Report{AsOf: v.lastAt, Links: []state.Link{}}
	for _, name := range v.linkNames() {
		rep.Links = append(rep.Links, v.linkReport(name, v.lastAt))
	}
	return rep
}

// LinkReport is Report for one link. AsOf is the time of the link's own newest
// record about its state, or of when its sources were last seen to be as it says:
// another link's say nothing of it. ok is false where
// nothing is on record.
func (v *View) LinkReport(name string) (rep state.Report, ok bool) {
	if !slices.Contains(v.linkNames(), name) {
		return state.Report{}, false
	}
	asOf := v.linkStates[name].AsOf
	for _, s := range v.States(name) {
		if s.AsOf.After(asOf) {
			asOf = s.AsOf
		}
	}
	for _, w := range v.sights[name] {
		if w.At.After(asOf) {
			asOf = w.At
		}
	}
	if asOf.IsZero() {
		asOf = v.links[name].AppliedAt // no klink has mirrored it yet, as after klink reverse
	}
	return state.Report{AsOf: asOf, Links: []state.Link{v.linkReport(name, asOf)}}, true
}

func (v *View) linkReport(name string, asOf time.Time) state.Link {
	l := state.Link{Name: name, State: state.Pending, Topics: []state.Topic{}, Groups: v.groupReports(name, asOf)}
	if r, ok := v.links[name]; ok {
		l.Mode = r.Mode
	}
	wanted := v.Intents(name)
	for _, s := range v.States(name) {
		s.Topic = orderedTopic(wanted.Of(s.Topic.SourceTopic), s.Topic)
		if len(l.Topics) == 0 || s.Topic.State.Severity() > l.State.Severity() {
			l.State, l.Reason = s.Topic.State, s.Topic.Reason
		}
		l.Topics = append(l.Topics, s.Topic)
	}
	ShowAudits(l.Topics, v.Audits(name), asOf)
	ShowFences(name, l.Topics, v)
	if s, ok := v.linkStates[name]; ok {
		l.Mode, l.State, l.Reason, l.Detail = s.Mode, s.State, string(s.Reason), s.Detail
	}
	l.Hint = hintOf(l.Reason)
	if i := wanted.Link(); i.Want == intent.Paused && l.State == state.Active {
		l.State, l.Reason, l.Detail, l.Hint = state.Paused, "", i.Detail(), i.Hint()
	}
	return l
}

// linkNames lists every link of which anything is on record, sorted.
func (v *View) linkNames() []string {
	set := make(map[string]struct{})
	for n := range v.links {
		set[n] = struct{}{}
	}
	for n := range v.linkStates {
		set[n] = struct{}{}
	}
	for k := range v.states {
		set[k.link] = struct{}{}
	}
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
