package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"klink/cmd/config"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/translate"
	"klink/translate/exact"
)

// mapsAtOnce is how many partitions' logs are read at a time.
const mapsAtOnce = 8

// byMap translates by klink's own map.
func (t *translation) byMap(ctx context.Context) error {
	reading, cancel := t.req.readTimeout(ctx)
	defer cancel()
	view, err := control.Read(reading, t.dst.Control)
	switch {
	case remote.ReasonOf(err) == state.TopicMissing:
		return fmt.Errorf("the target has no control topic %s: no klink has run there yet; for what a MirrorMaker 2 wrote, give --from-mm2 (%w)", control.TopicName, err)
	case err != nil:
		return t.req.inTime(reading, err)
	}
	report, err := t.onRecord(view)
	if err != nil {
		return err
	}
	m := &mapped{translation: t, view: view, report: report, lines: map[translate.Partition]translate.Line{}, details: map[translate.Partition]string{}}
	offsets, err := m.offsets(reading)
	if err != nil {
		return t.req.inTime(reading, err)
	}
	unknown := unknownOf(reading)
	m.readLines(reading, offsets)
	for _, g := range offsets.names() {
		var answers []translate.Answer
		for p, c := range offsets[g] {
			if line := m.lines[p]; t.req.Back {
				answers = append(answers, line.ToSource(c))
			} else {
				answers = append(answers, line.ToTarget(c))
			}
		}
		slices.SortFunc(answers, func(a, b translate.Answer) int { return a.Source.Compare(b.Source) })
		t.add(g, answers, m.details)
	}
	t.finish(offsets.names(), unknown)
	return nil
}

// onRecord is what is on record of the link: of the only one where none is named.
func (t *translation) onRecord(view *control.View) (state.Report, error) {
	r := &recorded{name: t.link.Name, unnamed: t.cfg.Unnamed, dst: t.dst, view: view}
	if r.takeOnly(); t.req.Policy.Source == t.link.Name {
		t.req.Policy.Source = r.name // the alias is the link's name by default
	}
	t.link.Name, t.result.Link = r.name, r.name
	return r.stated(nil)
}

// mapped is a translation by klink's map.
type mapped struct {
	*translation
	view   *control.View
	report state.Report

	mu sync.Mutex // guards all below
	// lines and details go by the partition that a group's offset is of: the source's,
	// or for the way back the target's.
	lines   map[translate.Partition]translate.Line
	details map[translate.Partition]string
}

// offsets gathers what is known of the groups' offsets: what the cluster tells that
// they work at, else what is on record, else what checkpoints say.
func (m *mapped) offsets(ctx context.Context) (groupOffsets, error) {
	told, ok, err := m.committed(ctx)
	if err != nil || ok && len(told.failed) == 0 || m.req.Back {
		return told.offsets, err
	}
	out := groupOffsets{}
	maps.Copy(out, told.offsets)
	// A group that the source does not have is not there, whatever is on record.
	untold := func(group string) bool {
		return m.req.Groups.Selects(group) && out[group] == nil && (!ok || told.failed[group] != nil)
	}
	m.recorded(out, untold)
	if len(m.req.Groups.Unmatched(out.names())) > 0 {
		m.checkpointed(ctx, out, untold)
	}
	return out, nil
}

// recorded adds the offsets that klink keeps of the groups that it carries over.
func (m *mapped) recorded(into groupOffsets, wanted func(group string) bool) {
	sources := make(map[string]string)
	for _, r := range m.view.Topics(m.link.Name) {
		sources[r.TargetTopic] = r.SourceTopic
	}
	for _, r := range m.view.Groups(m.link.Name) {
		if !wanted(r.Group) {
			continue
		}
		offsets := map[translate.Partition]translate.Commit{}
		for _, o := range r.Offsets {
			source, ok := sources[o.Topic]
			if ok && o.SourceOffset != feed.Unknown {
				offsets[translate.Partition{Topic: source, Number: o.Partition}] = translate.Commit{Offset: o.SourceOffset,
					Origin: translate.Recorded, At: o.At, AsOf: m.report.AsOf}
			}
		}
		if len(offsets) > 0 {
			into[r.Group] = offsets
		}
	}
}

// checkpointed adds the source offsets in checkpoints.
func (m *mapped) checkpointed(ctx context.Context, into groupOffsets, wanted func(group string) bool) {
	c, err := translate.ReadCheckpoints(ctx, m.dst.Admin, m.req.Policy.CheckpointsTopic())
	switch {
	case errors.Is(err, translate.ErrNoTopic):
		return
	case err != nil:
		m.note("the checkpoints cannot be read: %v", err)
		return
	}
	m.result.read(c.Read)
	if !c.Complete {
		m.note("the checkpoints were not read to their end and are not used")
		return
	}
	names := &translate.MirrorMaker{Policy: m.req.Policy}
	for _, g := range c.Groups() {
		if !wanted(g) {
			continue
		}
		into[g] = map[translate.Partition]translate.Commit{}
		for p, cp := range c.Of(g) {
			if cp.Up >= 0 {
				into[g][names.Source(p)] = translate.Commit{Offset: cp.Up, Origin: translate.Checkpointed, At: cp.At, AsOf: c.Newest}
			}
		}
	}
}

// readLines finds out where the copies lie of all partitions that groups have offsets
// of.
func (m *mapped) readLines(ctx context.Context, offsets groupOffsets) {
	topics := m.topics()
	for _, g := range offsets {
		for p := range g {
			line := m.unmirrored(p)
			if r, ok := topics[p.Topic]; ok && m.wants(r) {
				line = translate.Line{Source: translate.Partition{Topic: r.SourceTopic, Number: p.Number}, Target: translate.Partition{Topic: r.TargetTopic, Number: p.Number}}
			}
			m.lines[p] = line
		}
	}
	m.readBounds(ctx)
	read := m.newCopies()
	defer read.close()
	g := new(errgroup.Group)
	g.SetLimit(mapsAtOnce)
	for p, line := range maps.Clone(m.lines) {
		if line.Trouble == "" {
			g.Go(func() error { m.readMap(ctx, read, p, topics[p.Topic]); return nil })
		}
	}
	_ = g.Wait() // the functions return no errors
}

// topics are those on record, by the name that groups know them by.
func (m *mapped) topics() map[string]control.TopicRecord {
	out := make(map[string]control.TopicRecord)
	for _, r := range m.view.Topics(m.link.Name) {
		if m.req.Back {
			out[r.TargetTopic] = r
		} else {
			out[r.SourceTopic] = r
		}
	}
	return out
}

// readBounds asks where the logs of mirrored partitions begin and end: on the target,
// and for the way back on the source if it answers.
func (m *mapped) readBounds(ctx context.Context) {
	var src, dst []translate.Partition
	for _, line := range m.lines {
		if line.Trouble == "" {
			src, dst = append(src, line.Source), append(dst, line.Target)
		}
	}
	targetLogs, sourceLogs := boundsAt(ctx, m.dst.Admin, dst), map[translate.Partition]translate.Bounds{}
	if m.src != nil && m.req.Back {
		sourceLogs = boundsAt(ctx, m.src.Admin, src)
	}
	for p, line := range m.lines {
		line.SourceLog, line.TargetLog = translate.NoBounds(), translate.NoBounds()
		if b, ok := targetLogs[line.Target]; ok {
			line.TargetLog = b
		}
		if b, ok := sourceLogs[line.Source]; ok {
			line.SourceLog = b
		}
		m.lines[p] = line
	}
}

// unmirrored is a partition of a topic that the link does not mirror, or that is not
// asked for.
func (m *mapped) unmirrored(p translate.Partition) translate.Line {
	line := translate.Line{Source: p, Target: translate.Partition{Number: p.Number}, Trouble: translate.NotMirrored}
	if m.req.Back {
		line.Source, line.Target = line.Target, line.Source
	}
	return line
}

func (m *mapped) wants(r control.TopicRecord) bool {
	return m.req.Only == nil || m.req.Only(r.SourceTopic, r.TargetTopic)
}

// readMap reads where a partition's copies lie.
func (m *mapped) readMap(ctx context.Context, read *copiesReader, p translate.Partition, r control.TopicRecord) {
	found, _, err := read.onRecord(ctx, read.cluster, r, p.Number)
	m.mu.Lock()
	defer m.mu.Unlock()
	line := m.lines[p]
	switch {
	case err != nil && endedEarly(ctx):
		line.Trouble = translate.Incomplete
	case err != nil && line.TargetLog.Missing:
		line.Trouble = translate.NotMirrored
	case err != nil:
		line.Trouble, m.details[line.Source] = translate.MapUnreadable, err.Error()
	case found == nil && m.drifts(r.SourceTopic):
		line.Map = &exact.Map{} // in checkpoint mode, and nothing is on record yet
	default:
		line.Map = found
	}
	m.lines[p] = line
}

// drifts tells whether a topic is mirrored in checkpoint mode.
func (m *mapped) drifts(topic string) bool {
	l := m.report.Links[0]
	for _, t := range l.Topics {
		if t.SourceTopic == topic && t.Mode != "" {
			return t.Mode == string(config.ModeCheckpoint)
		}
	}
	return l.Mode == string(config.ModeCheckpoint)
}

// copiesReader tells where copies lie by what is on the target.
type copiesReader struct {
	*targetCopies
	leaders *leaders.Map
	cluster string
}

func (m *mapped) newCopies() *copiesReader {
	r := &copiesReader{leaders: leaders.New(m.dst.Admin)}
	r.targetCopies = newTargetCopies(m.link.Name, m.dst, r.leaders, fetcher.NewBudget(int64(m.cfg.Limits.FetchMemory)))
	if l, ok := m.view.Link(m.link.Name); ok {
		r.cluster = l.SourceClusterID
	}
	return r
}

func (r *copiesReader) close() {
	r.targetCopies.close()
	r.leaders.Close()
}
