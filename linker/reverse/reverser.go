package reverse

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"klink/fetcher/feed"
)

// Reverser turns links around.
type Reverser struct {
	o Options
	// before is called ahead of each step that writes; tests end a run there.
	before func(step) error
}

// New returns a Reverser. It dials nothing.
func New(o Options) *Reverser {
	o.setDefaults()
	return &Reverser{o: o, before: func(step) error { return nil }}
}

// Check finds out what Do would do, and writes nothing. An error means that nothing
// is known; what stands in the way of single topics is in the result.
func (r *Reverser) Check(ctx context.Context, req Request) (Result, error) {
	s, err := r.prepare(ctx, &req)
	if err != nil {
		return Result{}, err
	}
	res := r.result(s)
	res.DryRun = true
	if s.barred() {
		return res, nil
	}
	return res, s.checkFile()
}

// Do turns the topics around, all of them or none: where any stands in the way
// nothing is written, and the result tells. After an error any part may have been
// done; the same request again finishes it (H3).
func (r *Reverser) Do(ctx context.Context, req Request) (Result, error) {
	s, err := r.prepare(ctx, &req)
	if err != nil {
		return Result{}, err
	}
	res := r.result(s)
	if s.barred() {
		return res, nil
	}
	if err := s.checkFile(); err != nil {
		return Result{}, err
	}
	if len(s.unnamed()) > 0 {
		moved, err := r.write(ctx, s)
		if err != nil || moved {
			return r.result(s), err
		}
		res.Groups = groupList(s.groups)
	}
	if req.Write != "" {
		if err := WriteFile(req.Write, res.Definition); err != nil {
			return res, fmt.Errorf("%w: %w", ErrUnwritten, err)
		}
		res.Written = req.Write
	}
	return res, nil
}

// checkFile finds out ahead of all else that the file cannot be written.
func (s *survey) checkFile() error {
	if s.req.Write == "" {
		return nil
	}
	return CheckFile(s.req.Write, s.definition.File)
}

// prepare reads both control topics and surveys.
func (r *Reverser) prepare(ctx context.Context, req *Request) (*survey, error) {
	req.setDefaults()
	if err := req.validate(); err != nil {
		return nil, err
	}
	old, err := r.o.Target.Records(ctx)
	if err != nil {
		return nil, fmt.Errorf("promoted side: read the control topic: %w", err)
	}
	next, err := read(ctx, r.o.Source)
	if err != nil {
		return nil, fmt.Errorf("old source: read the control topic: %w", err)
	}
	return r.survey(ctx, *req, old, next)
}

// result puts a survey into words.
func (r *Reverser) result(s *survey) Result {
	res := Result{Link: s.req.Link, Next: s.req.Next, AsOf: r.o.Now().UTC(), Topics: make([]Topic, 0, len(s.topics)),
		Groups: groupList(s.groups), MissingRights: s.rights.Missing, UnknownRights: s.rights.Unknown, Definition: s.definition.File}
	for _, t := range s.topics {
		x := t.result()
		if !x.OK {
			res.Failed++
		}
		res.Topics = append(res.Topics, x)
	}
	return res
}

// renamed lists the topics of the new link: those that go around now, and those
// that it has already.
func (s *survey) renamed() (all []Renamed) {
	own := make(map[string]bool)
	add := func(source, target string) {
		if !own[source] {
			own[source] = true
			all = append(all, Renamed{Source: source, Target: target})
		}
	}
	for _, t := range s.topics {
		if t.verdict.about().ok || t.verdict.about().recreate {
			add(t.was.TargetTopic, t.was.SourceTopic)
		}
	}
	wanted := s.old.Intents(s.req.Link)
	for _, t := range s.next.Topics(s.req.Next) {
		// Reversed earlier, and not by this request.
		if i := wanted.Of(t.TargetTopic); i.Reversed() && i.Cause.Next == s.req.Next {
			add(t.SourceTopic, t.TargetTopic)
		}
	}
	return all
}

func (t *looked) result() Topic {
	a := t.verdict.about()
	x := Topic{SourceTopic: t.was.SourceTopic, TargetTopic: t.was.TargetTopic, OK: a.ok || t.recreate, Verdict: t.verdict,
		Detail: t.detail, Recreate: t.recreate, Partitions: make([]Partition, 0, len(t.partitions))}
	if !x.OK {
		x.Hint = a.hint
	}
	for n := range t.partitions {
		p := t.partitions[n].result(int32(n))
		if p.Tail != nil {
			x.TailRecords += p.Tail.Records
		}
		x.Partitions = append(x.Partitions, p)
	}
	return x
}

func (p *lookedPartition) result(n int32) Partition {
	f := &p.facts
	x := Partition{Partition: n, Verdict: p.verdict, Detail: p.detail, CutEnd: known(f.Cut.End), FenceOffset: known(f.Cut.Fence)}
	if p.err != nil {
		return x
	}
	x.SourceStart, x.SourceEnd, x.TargetStart, x.TargetEnd = known(f.Old.Start), known(f.Again.End), known(f.New.Start), known(f.New.End)
	x.ComparedFrom, x.Equal = known(f.Found.From), f.Found.Equal
	if t := f.Found.Tail; t.Count > 0 {
		x.Tail = &Tail{Records: t.Count, From: t.From, End: t.End, FirstAt: when(t.First), LastAt: when(t.Last)}
	}
	return x
}

func known(offset int64) *int64 {
	if offset == feed.Unknown {
		return nil
	}
	return &offset
}

// newID makes the random part of a command's key.
func newID() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", errors.Join(errors.New("make a random id"), err)
	}
	return hex.EncodeToString(b[:]), nil
}
