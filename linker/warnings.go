package linker

import (
	"context"
	"time"

	"klink/linker/state"
)

const (
	// warnEvery is how often it is looked whether a failover would miss a right. It
	// is to be known long before it is needed, and rights change seldom.
	warnEvery = time.Minute
	// warnFirst is when that is looked at first: once topics were found and made.
	warnFirst = 5 * time.Second
	// warnTimeout bounds a look.
	warnTimeout = 20 * time.Second
)

// warn looks from time to time whether the rights are there that a failover needs,
// and tells of those that are missing, once each.
func (l *Link) warn(ctx context.Context) {
	if l.o.Preflight == nil {
		return
	}
	for wait := warnFirst; sleep(ctx, wait); wait = warnEvery {
		l.warnOnce(ctx)
	}
}

func (l *Link) warnOnce(ctx context.Context) {
	var topics, groups []string
	for _, r := range l.store.Topics(l.o.Name) {
		topics = append(topics, r.TargetTopic)
	}
	if l.o.Groups != nil {
		for _, g := range l.o.Groups.Report() {
			groups = append(groups, g.Group)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, warnTimeout)
	defer cancel()
	now := l.o.Preflight(ctx, topics, groups)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	was := l.warnings
	l.warnings = now
	l.mu.Unlock()
	if news := unsaid(was, now); len(news) > 0 {
		l.log.Warn("rights are missing that a failover needs", "rights", news, "hint", "klink status says what will not be possible without them")
	}
}

// unsaid are the rights that are missing now and were not before. What the target
// does not tell is shown in the status alone.
func unsaid(was, now []state.Warning) (news []string) {
	said := make(map[string]bool, len(was))
	for _, w := range was {
		said[w.Right] = w.Known
	}
	for _, w := range now {
		if w.Known && !said[w.Right] {
			news = append(news, w.Right)
		}
	}
	return news
}
