package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"klink/cmd/config"
	"klink/comparator"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// openAuditBook opens what is on record of the configuration's links, and finds out
// whether it may be written.
func openAuditBook(ctx context.Context, cfg *config.Config) (AuditBook, error) {
	b := &auditBook{}
	for _, l := range cfg.Links {
		r, err := openRecorded(ctx, cfg, l)
		if err == nil {
			b.links = append(b.links, r)
			err = writable(ctx, r)
		}
		if err != nil {
			b.Close()
			return nil, fmt.Errorf("link %s: %w", l.Name, err)
		}
	}
	return b, nil
}

// writable makes sure that a link is on record, and that more can be put there.
func writable(ctx context.Context, r *recorded) error {
	if _, ok := r.view.LinkReport(r.name); !ok {
		return r.unknownLink()
	}
	s, err := openControl(ctx, r)
	if err == nil {
		s.Close()
	}
	return err
}

// openControl opens a control topic that was read before, so that this does not
// make it.
func openControl(ctx context.Context, r *recorded) (*control.Store, error) {
	within, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return control.Open(within, control.Options{Client: r.dst.Control, Patience: lookTimeout, Logger: slog.New(slog.DiscardHandler)})
}

// auditBook is the record of some links.
type auditBook struct{ links []*recorded }

// Close closes the clients.
func (b *auditBook) Close() {
	for _, r := range b.links {
		r.dst.Close()
	}
}

// Put implements AuditBook.
func (b *auditBook) Put(ctx context.Context, r comparator.Result, dry bool) (all []RecordedLink, err error) {
	for _, l := range b.links {
		one, failed := putAudits(ctx, l, r, dry)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("link %s: %w", l.name, failed))
		}
		all = append(all, one)
	}
	return all, err
}

func putAudits(ctx context.Context, r *recorded, result comparator.Result, dry bool) (RecordedLink, error) {
	out := RecordedLink{Link: r.name, DryRun: dry, LeftOut: []RecordLeftOut{}}
	if dry {
		due, left := auditsOf(result, r.name, r.view)
		out.Partitions, out.LeftOut = len(due), append(out.LeftOut, left...)
		return out, nil
	}
	s, err := openControl(ctx, r) // what is on record may be other than before
	if err != nil {
		return out, err
	}
	defer s.Close()
	due, left := auditsOf(result, r.name, s)
	out.LeftOut = append(out.LeftOut, left...)
	follow := start(ctx, s.Run)
	defer func() {
		follow.stop()
		<-follow.done
	}()
	for _, a := range due {
		if err := putAudit(ctx, s, a); err != nil {
			return out, err
		}
		out.Partitions++
	}
	return out, nil
}

func putAudit(ctx context.Context, s *control.Store, a control.AuditRecord) error {
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	return s.PutAudit(ctx, a)
}

// mirrorsOnRecord is what a record of audits is held against.
type mirrorsOnRecord interface {
	Topic(link, sourceTopic string) (control.TopicRecord, bool)
	Audit(link, sourceTopic string, partition int32) (control.AuditRecord, bool)
}

// auditsOf makes records of what a comparison found of a link's partitions. Only what
// is about the very topics that are on record, and came to its end, is one.
func auditsOf(r comparator.Result, link string, on mirrorsOnRecord) (due []control.AuditRecord, left []RecordLeftOut) {
	for _, t := range r.Topics {
		if t.Link != link {
			continue
		}
		if reason := unrecordable(t, link, on); reason != "" {
			left = append(left, RecordLeftOut{SourceTopic: t.SourceTopic, Reason: reason})
			continue
		}
		for _, p := range t.Partitions {
			if p.Error != "" {
				left = append(left, RecordLeftOut{SourceTopic: t.SourceTopic, Partition: &p.Partition, Reason: "it was not compared to the end"})
				continue
			}
			a, known := on.Audit(link, t.SourceTopic, p.Partition)
			if !known {
				a = control.AuditRecord{Link: link, Topic: t.SourceTopic, SourceID: feed.TopicID(t.SourceID), TargetID: feed.TopicID(t.TargetID), Partition: p.Partition}
			}
			a.Take(passOf(r, p))
			due = append(due, a)
		}
	}
	return due, left
}

// unrecordable is why nothing of a topic can be put on record, "" where it can.
func unrecordable(t comparator.TopicResult, link string, on mirrorsOnRecord) string {
	is, known := on.Topic(link, t.SourceTopic)
	switch {
	case t.Error != "":
		return "it was not compared"
	case !known:
		return "the link has no such mirror on record"
	case is.TargetTopic != t.TargetTopic || is.SourceID != feed.TopicID(t.SourceID) || is.TargetID != feed.TopicID(t.TargetID):
		return errOtherMirror.Error()
	default:
		return ""
	}
}

// passOf is a partition's result as the audit has it.
func passOf(r comparator.Result, p comparator.PartitionResult) state.AuditPass {
	pass := auditPass(p)
	pass.Began, pass.Ended = r.AsOf.UTC(), r.AsOf.Add(time.Duration(r.Seconds*float64(time.Second))).UTC()
	if r.ResumedFrom != nil {
		pass.Began = r.ResumedFrom.UTC()
	}
	return pass
}
