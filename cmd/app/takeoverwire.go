package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/maps"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
	"klink/translate/mm2"
	"klink/translate/takeover"
)

// comparesAtOnce is how many partitions are compared side by side.
const comparesAtOnce = 4

// openTakeover opens both clusters of the configuration's only link.
func openTakeover(ctx context.Context, cfg *config.Config) (Taker, error) {
	l := cfg.Links[0]
	if l.Mode != config.ModeCheckpoint {
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("link %s: --from-mm2 goes on in checkpoint mode, as MirrorMaker 2's copies are not at their sources' offsets: set mode: checkpoint, and checkpoint as MirrorMaker 2 had it", l.Name)}
	}
	matcher, err := newMatcher(l)
	if err != nil {
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("topics.%v", err)}
	}
	o := kafka.Options{Link: l, FetchMemory: cfg.Limits.FetchMemory, Version: Version()}
	src, err := kafka.OpenSource(o)
	if err != nil {
		return nil, err
	}
	dst, err := kafka.OpenTarget(o)
	if err != nil {
		src.Close()
		return nil, err
	}
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	t := &taker{link: l, names: policy(l), matcher: matcher, srcCluster: src, dstCluster: dst, record: maps.NewReader(dst.Admin)}
	t.src, t.dst = newTakeoverSide(src.Admin, budget), newTakeoverSide(dst.Admin, budget)
	if err := reach(ctx, src.Ping); err != nil {
		t.Close()
		return nil, fmt.Errorf("source: %w", err)
	}
	if err := reach(ctx, dst.Ping); err != nil {
		t.Close()
		return nil, fmt.Errorf("target: %w", err)
	}
	return t, nil
}

// taker implements Taker.
type taker struct {
	link       config.Link
	names      mm2.Policy
	matcher    *topics.Matcher
	srcCluster *kafka.Source
	dstCluster *kafka.Target
	src, dst   takeoverSide
	record     *maps.Reader
}

// Close implements Taker.
func (t *taker) Close() {
	t.record.Close()
	t.src.leaders.Close()
	t.dst.leaders.Close()
	t.srcCluster.Close()
	t.dstCluster.Close()
}

// takeoverPlace is a topic on both sides.
type takeoverPlace struct {
	srcID, dstID feed.TopicID
	partitions   int32
	// seeded are partitions that are on record already.
	seeded map[int32]bool
	// ends are the target's log ends as they were adopted by an earlier call.
	ends map[int32]int64
	// copied says that klink copies it by itself; "" where it does not.
	copied string
}

// Plan implements Taker. What moves is looked at first and last, so that what is read
// in between was still.
func (t *taker) Plan(ctx context.Context, req TakeoverRequest) (TakeoverResult, error) {
	r := TakeoverResult{Link: t.link.Name, SourceAlias: t.names.Source, OffsetsTopic: req.OffsetsTopic, Topics: []TakeoverTopic{}, Notes: []string{}}
	if r.OffsetsTopic == "" {
		r.OffsetsTopic = t.names.ConnectOffsetsTopic()
	}
	if err := t.nobodyRuns(ctx); err != nil {
		return r, err
	}
	if err := t.find(ctx, req, &r); err != nil {
		return r, err
	}
	f, err := t.facts(ctx, req, &r)
	if err != nil {
		return r, err
	}
	still, err := t.watch(ctx, &r)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := t.compare(ctx, req, f, &r); err != nil {
		return r, err
	}
	return r, still(ctx, req.Watch-time.Since(began))
}

// find lists the topics, and what is on record of them.
func (t *taker) find(ctx context.Context, req TakeoverRequest, r *TakeoverResult) error {
	found, err := topics.Discover(ctx, t.srcCluster.Admin, t.matcher)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	view, err := control.Read(ctx, t.dstCluster.Control)
	if err != nil && remote.ReasonOf(err) != state.TopicMissing {
		return fmt.Errorf("read what klink has on record: %w", err)
	}
	if view != nil {
		if last, _ := view.Worker(t.link.Name); joins(last, time.Now()) {
			return &InUseError{What: "a klink of this link started a moment ago", Hint: stopKlink}
		}
	}
	if err := t.record.Refresh(ctx); err != nil {
		return fmt.Errorf("read where copies lie: %w", err)
	}
	chosen, err := takeoverNames(found.Topics, t.link.Name, req.Topics)
	if err != nil {
		return err
	}
	var targets []string
	for _, s := range found.Topics {
		targets = append(targets, s.Target)
	}
	if err := t.dst.leaders.Refresh(ctx, targets...); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	for _, s := range found.Topics {
		if !slices.Contains(chosen, s.Name) {
			continue
		}
		x := TakeoverTopic{SourceTopic: s.Name, TargetTopic: s.Target, OK: true, Partitions: []TakeoverPartition{},
			place: takeoverPlace{srcID: s.ID, partitions: int32(len(s.Leaders))}}
		if err := t.look(view, s, &x); err != nil {
			return err
		}
		r.Topics = append(r.Topics, x)
	}
	return nil
}

// takeoverNames are the source topics that are meant by the words on the line.
func takeoverNames(all []topics.SourceTopic, link string, words []string) ([]string, error) {
	l := state.Link{Name: link}
	for _, s := range all {
		l.Topics = append(l.Topics, state.Topic{SourceTopic: s.Name, TargetTopic: s.Target})
	}
	chosen, err := chooseTopics(l, words)
	var names []string
	for _, c := range chosen {
		names = append(names, c.SourceTopic)
	}
	return names, err
}

// look tells what the target has of a topic, and what klink has on record of it.
func (t *taker) look(view *control.View, s topics.SourceTopic, x *TakeoverTopic) error {
	there, ok := t.dst.leaders.Topic(s.Target)
	switch {
	case s.Reason != "":
		x.fail(string(s.Reason), "source: "+s.Detail, "")
		return nil
	case !ok || errors.Is(there.Err, kerr.UnknownTopicOrPartition):
		x.Adopted, x.Detail = true, "is not on the target: klink makes it and copies it from its beginning"
		return nil
	case there.Err != nil:
		x.fail(string(remote.ReasonOf(there.Err)), "target: "+there.Err.Error(), "")
		return nil
	case len(there.Leaders) < len(s.Leaders):
		x.fail(reasonRefused, fmt.Sprintf("the target has %d partitions, the source %d", len(there.Leaders), len(s.Leaders)), "add partitions to the target topic")
		return nil
	}
	p := &x.place
	p.dstID, p.seeded = there.ID, map[int32]bool{}
	if view != nil {
		if a, ok := view.Adopt(t.link.Name, s.Name); ok && a.SourceID == s.ID {
			p.ends = a.Ends
		}
	}
	for n := range p.partitions {
		_, c, err := t.record.Map(t.mapPlace(*x, n))
		if err != nil {
			return err
		}
		p.seeded[n] = !c.At.IsZero()
		if p.seeded[n] && c.Adopted == 0 && p.ends[n] > 0 || p.seeded[n] && p.ends == nil {
			p.copied = fmt.Sprintf("klink copies this topic already: partition %d up to source offset %d", n, c.Src)
			return nil
		}
	}
	return nil
}

func (x *TakeoverTopic) fail(reason, detail, hint string) {
	x.OK, x.Reason, x.Detail, x.Hint = false, reason, detail, hint
}

// leave leaves alone a topic that klink copies by itself, where MirrorMaker 2 did not.
func (x *TakeoverTopic) leave(f takeoverFacts) {
	for n := range x.place.partitions {
		if known := f.of(x.SourceTopic, n, 0); known.Connect != takeover.Unknown || len(known.Syncs) > 0 {
			x.fail(reasonRefused, x.place.copied+", and MirrorMaker 2 copied it too", "leave it as it is; or klink remove the topic, delete the target topic, and let klink copy it anew")
			return
		}
	}
	x.Adopted, x.Detail = true, x.place.copied
}

func (t *taker) mapPlace(x TakeoverTopic, n int32) maps.Place {
	return maps.Place{Link: t.link.Name, Topic: x.SourceTopic, Partition: n, SourceID: x.place.srcID, TargetID: x.place.dstID}
}

// compare finds where MirrorMaker 2 left off with each partition.
func (t *taker) compare(ctx context.Context, req TakeoverRequest, f takeoverFacts, r *TakeoverResult) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(comparesAtOnce)
	for i := range r.Topics {
		x := &r.Topics[i]
		if x.place.copied != "" {
			x.leave(f)
		}
		if !x.OK || x.Adopted {
			continue
		}
		x.Partitions = make([]TakeoverPartition, x.place.partitions)
		for n := range x.place.partitions {
			g.Go(func() (err error) {
				x.Partitions[n], err = t.partition(ctx, f.of(x.SourceTopic, n, req.Depth), *x, n)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range r.Topics {
		judgeTakeover(&r.Topics[i])
	}
	return nil
}

// judgeTakeover says of a topic what follows from its partitions.
func judgeTakeover(x *TakeoverTopic) {
	if !x.OK || x.Adopted {
		return
	}
	left := false
	for _, p := range x.Partitions {
		left = left || p.State != stateAdopted && p.State != string(takeover.Untouched)
		if p.State == string(takeover.Refused) {
			x.fail(reasonRefused, fmt.Sprintf("partition %d: %s", p.Partition, p.Detail), "klink cannot go on with this topic; nothing of it is taken over")
			return
		}
	}
	x.Adopted = !left
}

// partition finds where one partition stands.
func (t *taker) partition(ctx context.Context, f takeover.Facts, x TakeoverTopic, n int32) (TakeoverPartition, error) {
	from, to := feed.Partition{Topic: x.SourceTopic, Partition: n}, feed.Partition{Topic: x.TargetTopic, Partition: n}
	src, err := t.src.log.Bounds(ctx, from, x.place.srcID)
	if err != nil {
		return TakeoverPartition{}, fmt.Errorf("source: %w", err)
	}
	dst, err := t.dst.log.Bounds(ctx, to, x.place.dstID)
	if err != nil {
		return TakeoverPartition{}, fmt.Errorf("target: %w", err)
	}
	f.Src, f.Dst = takeover.Bounds{Start: src.LogStart, End: src.HighWatermark}, takeover.Bounds{Start: dst.LogStart, End: dst.HighWatermark}
	p := TakeoverPartition{Partition: n, SourceStart: f.Src.Start, SourceEnd: f.Src.End, TargetStart: f.Dst.Start, TargetEnd: f.Dst.End}
	if f.Connect != takeover.Unknown {
		p.ConnectOffset = &f.Connect
	}
	s := takeover.Standing{State: takeover.Refused, Detail: fmt.Sprintf("a transaction is open on the target from offset %d on: wait until it is aborted, which takes MirrorMaker 2's transaction.timeout.ms at most", dst.LastStable)}
	switch {
	case x.place.seeded[n]:
		_, c, err := t.record.Map(t.mapPlace(x, n))
		p.State, p.Next, p.Detail = stateAdopted, c.Src, "is on record already"
		return p, err
	case dst.LastStable == dst.HighWatermark:
		s, err = takeover.Find(ctx, f, &comparedLog{pieces: pieces{log: t.src.log, at: from, id: x.place.srcID, end: f.Src.End}, withAborted: true},
			&comparedLog{pieces: pieces{log: t.dst.log, at: to, id: x.place.dstID, end: f.Dst.End}})
		if err != nil {
			return p, err
		}
	}
	p.standing = s
	p.State, p.Next, p.Doubles, p.Lost, p.Detail, p.Compared = string(s.State), s.Next, s.Doubles, s.Lost, s.Detail, s.Walk.Matched
	if s.Map != nil {
		for run := range s.Map.Runs() {
			p.TranslatedFrom = &run.Src
			break
		}
	}
	return p, nil
}

// stopKlink is what to do where a klink runs already.
const stopKlink = "stop it, and begin klink run after this command; one that was killed counts as running for half a minute after its start"

// nobodyRuns refuses while a klink of the link runs, or a worker of MirrorMaker 2.
func (t *taker) nobodyRuns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, g := range []struct{ group, who, hint string }{
		{workersGroup(t.link.Name), "a klink of this link runs", stopKlink},
		{t.names.Source + "-mm2", "MirrorMaker 2 runs", "stop all its workers; one that was killed leaves its group after its session timeout, 10 s by default"},
	} {
		n, err := membersOf(ctx, t.dstCluster.Admin, g.group)
		switch {
		case errors.Is(err, kerr.GroupAuthorizationFailed):
		case err != nil:
			return err
		case n > 0:
			return &InUseError{What: fmt.Sprintf("%s: group %s on the target has %s", g.who, g.group, quantity(n, "member")), Hint: g.hint}
		}
	}
	return nil
}

// takeoverSide reads one cluster.
type takeoverSide struct {
	leaders *leaders.Map
	log     *fetcher.LogReader
}
