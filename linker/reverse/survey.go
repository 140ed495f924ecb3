package reverse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
	"klink/linker/topics"
)

// survey is all that a request follows from, and what was made of it.
type survey struct {
	req Request
	// old is the old link's control topic, next the new one's.
	old, next Records
	link      control.LinkRecord
	topics    []*looked
	groups    map[string]committed
	rights    Needed
	// number is the old link's next command as of the survey.
	number int32
	claims claims
	// definition is the new link's.
	definition Turned
}

// claims are what the links at the new target have on record of its topics.
type claims struct {
	// owner is the link that a topic is the target of, other than the new one.
	owner map[string]string
	// records are all of them, by target topic.
	records map[string][]control.TopicRecord
}

// claimsOf reads them. A topic that was taken out of a link belongs to it no more.
func claimsOf(r Records, next string) claims {
	c := claims{owner: make(map[string]string), records: make(map[string][]control.TopicRecord)}
	for _, l := range r.Report().Links {
		wanted := r.Intents(l.Name)
		for _, t := range r.Topics(l.Name) {
			c.records[t.TargetTopic] = append(c.records[t.TargetTopic], t)
			if l.Name != next && wanted.Of(t.SourceTopic).Want != intent.Removed {
				c.owner[t.TargetTopic] = l.Name
			}
		}
	}
	return c
}

// nothing stands for a cluster that has no control topic yet.
type nothing struct{}

func (nothing) Report() state.Report                               { return state.Report{} }
func (nothing) Link(string) (r control.LinkRecord, ok bool)        { return r, false }
func (nothing) Topic(_, _ string) (r control.TopicRecord, ok bool) { return r, false }
func (nothing) Topics(string) []control.TopicRecord                { return nil }
func (nothing) Ledger(_, _ string, _ int32) (r control.LedgerRecord, ok bool) {
	return r, false
}
func (nothing) Intents(string) intent.Intents                      { return intent.Intents{} }
func (nothing) Cuts(_, _ string) []control.CutRecord               { return nil }
func (nothing) Group(_, _ string) (r control.GroupRecord, ok bool) { return r, false }

// read reads a side's control topic; that there is none is an answer.
func read(ctx context.Context, s Side) (Records, error) {
	r, err := s.Records(ctx)
	var f *control.Fault
	if errors.As(err, &f) && f.Reason == state.TopicMissing {
		return nothing{}, nil
	}
	return r, err
}

// windows are those of a ledger as it is on record.
func windows(r control.LedgerRecord) []ledger.Window {
	x, err := ledger.Decode(r.Index)
	if err != nil {
		return nil
	}
	return x.Windows()
}

// survey finds out what can be done. It writes nothing.
func (r *Reverser) survey(ctx context.Context, req Request, old, next Records) (*survey, error) {
	s := &survey{req: req, old: old, next: next}
	var known bool
	if s.link, known = old.Link(req.Link); !known {
		return nil, fmt.Errorf("%w: %q", ErrUnknownLink, req.Link)
	}
	if s.link.Mode == checkpointMode {
		return nil, ErrOffsetsDrift
	}
	s.number, s.claims = old.Intents(req.Link).Next(), claimsOf(next, req.Next)
	s.choose()
	if err := r.meet(ctx, s); err != nil {
		return nil, err
	}
	var todo []*looked
	for _, t := range s.topics {
		if t.verdict == "" {
			todo = append(todo, t)
		}
	}
	if err := r.lookAt(ctx, s, todo); err != nil {
		return nil, err
	}
	for _, t := range s.topics {
		t.settle(s.rights.Markers)
		a := t.verdict.about()
		t.recreate = a.recreate && req.Recreate
		t.generation = s.generation(t)
	}
	if err := r.readGroups(ctx, s); err != nil {
		return nil, err
	}
	return s, s.define()
}

// generation is the one that a topic's producer ids get (H4).
func (s *survey) generation(t *looked) int32 {
	p := pair{target: t.was.SourceTopic, sourceID: t.was.TargetID}
	return p.generation(s.claims.records[t.was.SourceTopic], t.knows(s.link.TargetClusterID))
}

// define writes down the new link.
func (s *survey) define() (err error) {
	text := s.req.Definition
	if strings.TrimSpace(text) == "" {
		text = s.link.Definition
	}
	s.definition, err = TurnDefinition(text, s.req.Link, s.req.Next, s.renamed())
	return err
}

// choose picks the topics, and finds what the records alone say of them.
func (s *survey) choose() {
	names := slices.Clone(s.req.Topics)
	wanted := s.old.Intents(s.req.Link)
	if len(names) == 0 {
		for _, t := range s.old.Topics(s.req.Link) {
			if wanted.Of(t.SourceTopic).Want != intent.Removed {
				names = append(names, t.SourceTopic)
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t := &looked{}
		s.topics = append(s.topics, t)
		var known bool
		if t.was, known = s.old.Topic(s.req.Link, name); !known {
			t.was.SourceTopic = name
			t.verdict, t.detail = UnknownTopic, fmt.Sprintf("link %s has no topic %q on record", s.req.Link, name)
			continue
		}
		s.judge(t, wanted.Of(name))
	}
}

// judge looks at what is wanted of a topic on both sides, and at whose it is.
func (s *survey) judge(t *looked, want intent.Intent) {
	switch {
	case t.was.Mode == control.ModeCheckpoint:
		t.verdict, t.detail = OffsetsDrift, "it is in checkpoint mode"
		return
	case want.Reversed() && want.Cause.Next == s.req.Next:
		t.verdict = Reversed
		return
	case want.Reversed():
		t.verdict, t.detail = NameTaken, fmt.Sprintf("it is mirrored the other way already, by link %s", want.Cause.Next)
		return
	case want.Want != intent.Stopped:
		t.verdict, t.detail = NotStopped, fmt.Sprintf("what is wanted of it is %q", want.Want)
		return
	}
	for _, c := range s.old.Cuts(s.req.Link, want.Cause.Switch) {
		if c.Topic == t.was.SourceTopic {
			t.cut = c
		}
	}
	if owner, ok := s.claims.owner[t.was.SourceTopic]; ok { // H6
		t.verdict, t.detail = Owned, fmt.Sprintf("topic %s there is the target of link %s", t.was.SourceTopic, owner)
		return
	}
	if l, known := s.next.Link(s.req.Next); known && (l.SourceClusterID != s.link.TargetClusterID || l.TargetClusterID != s.link.SourceClusterID) {
		t.verdict, t.detail = NameTaken, fmt.Sprintf("link %s is on record there between other clusters", s.req.Next)
		return
	}
	there := s.next.Intents(s.req.Next).Of(t.was.TargetTopic)
	switch err := there.Allows(intent.Adopt); {
	case err != nil:
		t.verdict, t.detail = NameTaken, fmt.Sprintf("link %s has it on record there: %v", s.req.Next, err)
	case there.Want != intent.Stopped && there.Cause.Verb == intent.Adopt:
		// It was reversed before, and nothing but the last step but one of a turn
		// lets it go on.
		t.verdict = Begun
	}
}

// meet asks both clusters who they are and for the topics, and compares ids.
func (r *Reverser) meet(ctx context.Context, s *survey) error {
	var onOld, onNew []string
	for _, t := range s.topics {
		onOld = append(onOld, t.was.SourceTopic)
		if t.was.TargetTopic != "" {
			onNew = append(onNew, t.was.TargetTopic)
		}
	}
	old, err := see(ctx, r.o.Source.Admin, append(slices.Clone(onOld), control.TopicName))
	if err != nil {
		return fmt.Errorf("old source: %w", err)
	}
	promoted, err := see(ctx, r.o.Target.Admin, onNew)
	if err != nil {
		return fmt.Errorf("promoted side: %w", err)
	}
	err = topics.CheckClusters(topics.Clusters{Source: old.cluster, Target: promoted.cluster},
		topics.Clusters{Source: s.link.SourceClusterID, Target: s.link.TargetClusterID})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	s.rights = rightsOf(old, onOld, clusterOperations(ctx, r.o.Source.Admin))
	for _, t := range s.topics {
		if t.verdict == "" {
			t.compareIDs(old.topics, promoted.topics)
		}
	}
	return nil
}

// compareIDs makes sure that both topics are those that were mirrored.
func (t *looked) compareIDs(old, promoted map[string]seenTopic) {
	var there bool
	if t.promoted, there = promoted[t.was.TargetTopic]; !there || another(t.promoted.id, t.was.TargetID) {
		t.verdict, t.detail = TargetRecreated, fmt.Sprintf("topic %s of the promoted side has not the id %s that is on record", t.was.TargetTopic, t.was.TargetID)
		return
	}
	switch t.old, there = old[t.was.SourceTopic]; {
	case !there:
		t.verdict = FromStart
	case another(t.old.id, t.was.SourceID):
		t.verdict, t.detail = SourceRecreated, fmt.Sprintf("topic %s of the old source has the id %s, %s was mirrored", t.was.SourceTopic, t.old.id, t.was.SourceID)
	}
}

// another tells two known ids apart.
func another(a, b feed.TopicID) bool { return !a.IsZero() && !b.IsZero() && a != b }

// readGroups reads what the groups have on the old source, for the topics that are
// to go around.
func (r *Reverser) readGroups(ctx context.Context, s *survey) error {
	own := make(map[string]bool)
	for _, t := range s.turning() {
		own[t.was.SourceTopic] = true
	}
	if len(own) == 0 {
		return nil
	}
	var err error
	s.groups, err = groupOffsets(ctx, r.o.Source.Admin, r.o.Groups, own)
	return err
}

// turning are the topics that would go around now.
func (s *survey) turning() (all []*looked) {
	for _, t := range s.topics {
		if t.verdict != Reversed && t.verdict != Begun && (t.verdict.about().ok || t.recreate) {
			all = append(all, t)
		}
	}
	return all
}

// unnamed are the topics that the old link has yet to name its successor of.
func (s *survey) unnamed() []*looked {
	all := s.turning()
	for _, t := range s.topics {
		if t.verdict == Begun {
			all = append(all, t)
		}
	}
	return all
}

// barred tells whether any topic stands in the way.
func (s *survey) barred() bool {
	return slices.ContainsFunc(s.topics, func(t *looked) bool { return !t.verdict.about().ok && !t.recreate })
}
