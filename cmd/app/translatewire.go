package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/translate"
)

// translateGroups translates offsets of groups of the configuration's only link.
func translateGroups(ctx context.Context, cfg *config.Config, req TranslateRequest) (TranslateResult, error) {
	t := &translation{link: cfg.Links[0], cfg: cfg, req: req, result: newTranslateResult(cfg.Links[0].Name, req)}
	defer t.close()
	var err error
	if t.dst, err = kafka.OpenTarget(kafka.Options{Link: t.link, FetchMemory: cfg.Limits.FetchMemory, Version: Version()}); err != nil {
		return t.result, err
	}
	if err := reach(ctx, t.dst.Ping); err != nil {
		return t.result, fmt.Errorf("target: %w", err)
	}
	if err := t.openSource(ctx); err != nil {
		return t.result, err
	}
	if req.MirrorMaker {
		err = t.byMirrorMaker(ctx)
	} else {
		err = t.byMap(ctx)
	}
	return t.result, err
}

// translation is one run of klink translate.
type translation struct {
	link   config.Link
	cfg    *config.Config
	req    TranslateRequest
	result TranslateResult
	dst    *kafka.Target
	// src is nil where the source is not known or does not answer.
	src *kafka.Source
}

func (t *translation) close() {
	if t.src != nil {
		t.src.Close()
	}
	if t.dst != nil {
		t.dst.Close()
	}
}

func (t *translation) note(format string, a ...any) {
	t.result.Notes = append(t.result.Notes, fmt.Sprintf(format, a...))
}

// openSource opens the source if it answers: everything can be had without it.
func (t *translation) openSource(ctx context.Context) error {
	if len(t.link.Source.Brokers) == 0 {
		return nil
	}
	src, err := kafka.OpenSource(kafka.Options{Link: t.link, FetchMemory: t.cfg.Limits.FetchMemory, Version: Version()})
	if err != nil {
		return err
	}
	if err := reach(ctx, src.Ping); err != nil {
		src.Close()
		t.note("the source does not answer: %v", err)
		return nil
	}
	t.src = src
	return nil
}

// committed asks for what the groups have committed where they work: at the source,
// or for the way back at the target. ok is false where the source tells nothing.
func (t *translation) committed(ctx context.Context) (c committed, ok bool, err error) {
	switch {
	case t.req.Back:
		if c, err = committedAt(ctx, t.dst.Admin, t.req.Groups); err != nil {
			return c, false, fmt.Errorf("target: %w", err)
		}
	case t.src == nil:
		return c, false, nil
	default:
		if c, err = committedAt(ctx, t.src.Admin, t.req.Groups); err != nil {
			t.note("the source does not tell what groups have committed: %v", err)
			return committed{}, false, nil
		}
	}
	for _, g := range slices.Sorted(maps.Keys(c.failed)) {
		t.note("%v", c.failed[g])
	}
	return c, true, nil
}

// add adds a group, as far as its topics are wanted.
func (t *translation) add(group string, answers []translate.Answer, details map[translate.Partition]string) {
	if t.req.Only != nil {
		answers = slices.DeleteFunc(answers, func(a translate.Answer) bool { return !t.req.Only(a.Source.Topic, a.Target.Topic) })
	}
	t.result.group(group, answers, details)
}

// finish adds what was asked for and is not there, and why nothing is known of it.
func (t *translation) finish(known []string, why translate.Reason) {
	for _, pattern := range t.req.Groups.Unmatched(known) {
		t.result.unknownGroup(pattern, why)
	}
}

// unknownOf is why nothing is known of a group, once all was read that tells of one:
// where that ended early, it is not known either whether there is such a group.
func unknownOf(reading context.Context) translate.Reason {
	if endedEarly(reading) {
		return translate.Incomplete
	}
	return translate.NoGroup
}

// byMirrorMaker translates by a MirrorMaker 2's topics.
func (t *translation) byMirrorMaker(ctx context.Context) error {
	reading, cancel := t.req.readTimeout(ctx)
	defer cancel()
	o := translate.MirrorMakerOptions{Target: t.dst.Admin, Policy: t.req.Policy}
	if t.src != nil {
		o.Source = t.src.Admin
	}
	m, err := translate.ReadMirrorMaker(reading, o)
	switch {
	case errors.Is(err, translate.ErrNoTopic):
		return fmt.Errorf("no MirrorMaker 2 has written for the source alias %q, or its topics may not be described: there is neither %s nor %s",
			t.req.Policy.Source, t.req.Policy.CheckpointsTopic(), t.req.Policy.OffsetSyncsOnTarget())
	case err != nil:
		return t.req.inTime(reading, err)
	}
	t.tellReads(m)
	if m.NothingRead() {
		return t.req.inTime(reading, reading.Err())
	}
	unknown := unknownOf(reading)
	told, _, err := t.committed(ctx)
	if err != nil {
		return err
	}
	offsets, names := told.offsets, told.offsets.names()
	if !t.req.Back {
		for _, g := range m.Groups() {
			if t.req.Groups.Selects(g) && !slices.Contains(names, g) {
				names = append(names, g)
			}
		}
		slices.Sort(names)
	}
	for _, g := range names {
		asked := translate.Asked{Group: g, Offsets: offsets[g]}
		if t.req.Back {
			t.add(g, m.ToSource(t.boundedBack(ctx, m, asked)), nil)
			continue
		}
		asked.Bounds = boundsAt(ctx, t.dst.Admin, m.Targets(g, asked.Offsets))
		t.add(g, m.ToTarget(asked), nil)
	}
	t.finish(names, unknown)
	return nil
}

// boundedBack adds the bounds of the source's logs, if it answers.
func (t *translation) boundedBack(ctx context.Context, m *translate.MirrorMaker, asked translate.Asked) translate.Asked {
	if t.src == nil {
		return asked
	}
	var ps []translate.Partition
	for p := range asked.Offsets {
		ps = append(ps, m.Source(p))
	}
	asked.Bounds = boundsAt(ctx, t.src.Admin, ps)
	return asked
}

// tellReads says how a MirrorMaker 2's topics were read.
func (t *translation) tellReads(m *translate.MirrorMaker) {
	if m.Checkpoints != nil {
		t.result.read(m.Checkpoints.Read)
	} else {
		t.note("there is no topic %s", t.req.Policy.CheckpointsTopic())
	}
	switch {
	case m.Syncs != nil:
		t.result.read(m.Syncs.Read)
	case m.SyncsTrouble != nil:
		t.note("the offset syncs cannot be read: %v", m.SyncsTrouble)
	default:
		t.note("there are no offset syncs: neither %s on the target nor, where the source was asked, %s there",
			t.req.Policy.OffsetSyncsOnTarget(), t.req.Policy.OffsetSyncsOnSource())
	}
}
