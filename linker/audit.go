package linker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

const (
	// auditLook is how often a partition is looked for that is to be compared.
	auditLook = time.Second
	// auditRest is from the beginning of one comparison of a partition to the next at
	// least, so that short logs are not read without end.
	auditRest = time.Minute
	// auditRecordEvery is how often a result is renewed on record where it is as
	// before: each is a write, and a link may have thousands of partitions.
	auditRecordEvery = 5 * time.Minute
	// auditWatch is how often it is looked whether a partition that is being compared
	// is mirrored here still.
	auditWatch = 2 * time.Second
)

// audits is what the comparisons of this process showed.
type audits struct {
	mu    sync.Mutex // guards all below
	known map[*partition]*audited
}

// audited is what is known of one partition.
type audited struct {
	control.AuditRecord
	// tried is when the newest comparison of this process began, put when the result
	// was recorded.
	tried, put time.Time
}

// since is when the newest comparison of any process began.
func (a *audited) since() time.Time {
	if a.tried.IsZero() && a.Last != nil {
		return a.Last.Began
	}
	return a.tried
}

// of returns what is known of a partition, at first from the record: what an
// earlier process told of is told.
func (a *audits) of(p *partition, store Store) *audited {
	a.mu.Lock()
	k := a.known[p]
	a.mu.Unlock()
	if k != nil {
		return k
	}
	k = &audited{}
	r, ok := store.Audit(p.link, p.src.Topic, p.src.Partition)
	if ok && r.Last != nil && r.SourceID == p.srcID && r.TargetID == feed.TopicID(p.dst.ID) {
		k.AuditRecord, k.put = r, r.Last.Ended
	} else {
		k.AuditRecord = control.AuditRecord{Link: p.link, Topic: p.src.Topic, SourceID: p.srcID, Partition: p.src.Partition, TargetID: feed.TopicID(p.dst.ID)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = make(map[*partition]*audited)
	}
	a.known[p] = k
	return k
}

// keep forgets partitions that are not mirrored here any more.
func (a *audits) keep(ps []*partition) {
	mine := make(map[*partition]bool, len(ps))
	for _, p := range ps {
		mine[p] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.known {
		if !mine[p] {
			delete(a.known, p)
		}
	}
}

// records copies what is known of partitions.
func (a *audits) records(ps []*partition) (all []control.AuditRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range ps {
		if k := a.known[p]; k != nil && (k.Last != nil || k.Error != "") {
			all = append(all, k.AuditRecord)
		}
	}
	return all
}

// audit compares the partitions that are mirrored here, one after the other and
// again and again, until ctx ends.
func (l *Link) audit(ctx context.Context) {
	for sleep(ctx, auditLook) {
		for {
			p, k := l.auditDue(time.Now())
			if p == nil || ctx.Err() != nil {
				break
			}
			l.auditOne(ctx, p, k)
		}
	}
}

// auditDue picks the partition that was not compared for the longest time. What
// another process compared is not waited for: much may have happened since.
func (l *Link) auditDue(now time.Time) (due *partition, known *audited) {
	ps := l.partitions()
	l.audits.keep(ps)
	for _, p := range ps {
		if _, ok := p.shown.auditable(); !ok {
			continue
		}
		k := l.audits.of(p, l.store)
		if now.Sub(k.tried) >= auditRest && (due == nil || k.since().Before(known.since())) {
			due, known = p, k
		}
	}
	return due, known
}

// auditable returns the target's end where nothing is known to be wrong.
func (s *shown) auditable() (end int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dstEnd, s.dstEnd != feed.Unknown && (s.pos.State == state.Active || s.pos.State == state.CatchingUp)
}

// auditRequest asks for a comparison of what is mirrored by now.
func (p *partition) auditRequest(end int64) AuditRequest {
	r := AuditRequest{Src: p.src, SrcID: p.srcID, Dst: p.dstPartition(), DstID: feed.TopicID(p.dst.ID), End: end}
	if p.drift != nil {
		r.Copies = p.drift.copies.clone()
		r.End, _ = r.Copies.End()
	}
	return r
}

// auditOne compares one partition. What was read while it went elsewhere, or came
// into trouble, counts for nothing.
func (l *Link) auditOne(ctx context.Context, p *partition, k *audited) {
	k.tried = time.Now()
	end, ok := p.shown.auditable()
	if !ok {
		return
	}
	pass, err, whole := l.auditWhileMirrored(ctx, p, p.auditRequest(end))
	if !whole {
		return
	}
	if err != nil {
		l.auditFailed(p, k, err)
		return
	}
	recorded, _ := l.store.Audit(p.link, p.src.Topic, p.src.Partition)
	l.audits.mu.Lock()
	k.join(recorded)
	news := k.take(pass)
	record := k.AuditRecord
	l.audits.mu.Unlock()
	l.auditCount.passed(p.src, pass)
	news.tell(p.log, record)
	if news.changed() || pass.Ended.Sub(k.put) >= auditRecordEvery {
		l.auditRecorded(ctx, k, record)
	}
}

// auditWhileMirrored ends the comparison early where the partition is not mirrored
// here any more; whole is false then.
func (l *Link) auditWhileMirrored(ctx context.Context, p *partition, r AuditRequest) (pass state.AuditPass, err error, whole bool) {
	inner, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for sleep(inner, auditWatch) {
			if !l.auditsStill(p) {
				cancel()
			}
		}
	})
	pass, err = l.o.Audit.Audit(inner, r)
	whole = inner.Err() == nil && l.auditsStill(p)
	cancel()
	watching.Wait()
	return pass, err, whole
}

func (l *Link) auditsStill(p *partition) bool {
	_, ok := p.shown.auditable()
	return ok && slices.Contains(l.partitions(), p)
}

// auditFailed shows that a comparison came to no end, and tells it once.
func (l *Link) auditFailed(p *partition, k *audited, err error) {
	l.audits.mu.Lock()
	first := k.Error == ""
	k.Error = err.Error()
	l.audits.mu.Unlock()
	l.auditCount.failed(p.src)
	if first {
		p.log.Warn("the audit could not compare the partition and tries again", "error", err)
	}
}

func (l *Link) auditRecorded(ctx context.Context, k *audited, r control.AuditRecord) {
	ctx, end := outlive(ctx, leaveTimeout)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := l.store.PutAudit(ctx, r); err != nil {
		l.log.Debug("an audit is not recorded", "topic", r.Topic, "partition", r.Partition, "error", err)
		return // as it was not: the next result is
	}
	k.put = time.Now()
}

// auditNews is what a comparison showed that the one before did not.
type auditNews struct {
	// findings are new ones; more says that there are more of the known kinds.
	findings []state.AuditFinding
	more     bool
	// cleared: there were differences, and there are none any more.
	cleared bool
	// fewer: the same or less is found, but not as much as before.
	fewer bool
}

func (n auditNews) changed() bool { return len(n.findings) > 0 || n.more || n.cleared || n.fewer }

// join takes over what somebody else recorded since: klink compare.
func (a *audited) join(recorded control.AuditRecord) {
	if recorded.Newer(a.AuditRecord) {
		recorded.Error = a.Error
		a.AuditRecord = recorded
	}
}

// take folds a comparison in.
func (a *audited) take(pass state.AuditPass) (n auditNews) {
	was := cmp.Or(a.Last, &state.AuditPass{})
	for _, f := range pass.First {
		known := func(o state.AuditFinding) bool { return o.Kind == f.Kind && o.Offset == f.Offset }
		if !slices.ContainsFunc(was.First, known) {
			n.findings = append(n.findings, f)
		}
	}
	n.more, n.fewer = pass.Findings > was.Findings, pass.Findings > 0 && pass.Findings < was.Findings
	n.cleared = was.Findings > 0 && pass.Findings == 0
	a.Take(pass)
	return n
}

// tell logs what is new: each finding once, in one line for a comparison.
func (n auditNews) tell(log *slog.Logger, r control.AuditRecord) {
	switch {
	case n.cleared:
		log.Info("the audit finds no difference any more", "from", r.Last.From, "end", r.Last.To)
	case len(n.findings) > 0:
		f := n.findings[0]
		log.Error("the target differs from the source", "findings", r.Last.Findings, "new", len(n.findings), "kind", f.Kind, "offset", f.Offset,
			"detail", f.Detail, "hint", "klink compare "+r.Topic+" shows all there is to it")
	case n.more:
		log.Error("the target differs from the source in more places", "findings", r.Last.Findings,
			"hint", "klink compare "+r.Topic+" shows all there is to it")
	}
}

// auditRecords is what comparing the link's partitions last showed: of those that
// are mirrored here what this process knows, unless something newer is on record.
func (l *Link) auditRecords(store Store) []control.AuditRecord {
	all := store.Audits(l.o.Name)
	at := make(map[feed.Partition]int, len(all))
	for i, r := range all {
		at[feed.Partition{Topic: r.Topic, Partition: r.Partition}] = i
	}
	for _, own := range l.audits.records(l.partitions()) {
		i, found := at[feed.Partition{Topic: own.Topic, Partition: own.Partition}]
		switch {
		case !found:
			all = append(all, own)
		case all[i].Newer(own):
			all[i].Error = own.Error
		default:
			all[i] = own
		}
	}
	return all
}
