package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/describe"
	"klink/linker/remote"
	"klink/linker/state"
)

// describeTargets describes the links of a configuration from their targets. The
// error is a *PartlyError where the result can be used all the same.
func describeTargets(ctx context.Context, cfg *config.Config, req DescribeRequest) (describe.Result, error) {
	report := state.Report{Links: []state.Link{}}
	if req.Report != nil {
		report.AsOf = req.Report.AsOf
	}
	open := map[string]*recorded{}
	defer func() {
		for _, r := range open {
			r.dst.Close()
		}
	}()
	for _, l := range cfg.Links {
		r, err := openRecorded(ctx, cfg, l)
		if err != nil {
			return describe.Result{}, fmt.Errorf("link %s: %w", l.Name, err)
		}
		r.takeOnly()
		open[r.name] = r
		own, err := r.stated(req.Report)
		if err != nil {
			return describe.Result{}, fmt.Errorf("link %s: %w", l.Name, err)
		}
		if req.Report == nil && (report.AsOf.IsZero() || own.AsOf.Before(report.AsOf)) {
			report.AsOf = own.AsOf
		}
		report.Links = append(report.Links, describe.Complete(own.Links[0], r.view))
	}
	report, err := req.Choose(report)
	if err != nil {
		return describe.Result{}, err
	}
	out := describe.Result{AsOf: report.AsOf, Links: []describe.Link{}}
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	var failed PartlyError
	for _, l := range report.Links {
		d := describe.Describe(l, open[l.Name].view, req.Detail)
		if req.Exact {
			open[l.Name].scan(ctx, &d, scanOptions{req.Detail, budget, &failed})
		}
		out.Links = append(out.Links, d)
	}
	if len(failed.Errs) > 0 {
		return out, &failed
	}
	return out, nil
}

// recorded is a target with what is on record there.
type recorded struct {
	name string
	// unnamed: nobody said what the link is called on record.
	unnamed bool
	dst     *kafka.Target
	view    *control.View
}

// openRecorded reads a target's control topic.
func openRecorded(ctx context.Context, cfg *config.Config, l config.Link) (*recorded, error) {
	dst, err := kafka.OpenTarget(kafka.Options{Link: l, FetchMemory: cfg.Limits.FetchMemory, Version: Version()})
	if err != nil {
		return nil, err
	}
	r := &recorded{name: l.Name, unnamed: cfg.Unnamed, dst: dst}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err = dst.Ping(ctx); err == nil {
		r.view, err = control.Read(ctx, dst.Control)
	}
	if remote.ReasonOf(err) == state.TopicMissing {
		err = fmt.Errorf("the target has no control topic %s: no klink has run there yet, or it was lost (%w)", control.TopicName, err)
	}
	if err != nil {
		dst.Close()
		return nil, err
	}
	return r, nil
}

// stated returns the link's part of the running klink's report, else what was
// recorded last.
func (r *recorded) stated(running *state.Report) (state.Report, error) {
	if running != nil {
		for _, l := range running.Links {
			if l.Name == r.name {
				return state.Report{AsOf: running.AsOf, Links: []state.Link{l}}, nil
			}
		}
	}
	if own, ok := r.view.LinkReport(r.name); ok {
		return own, nil
	}
	return state.Report{}, r.unknownLink()
}

// takeOnly has a command that writes nothing mean the only link on record, where
// nobody named one. One that writes has to be told: what the target has may be
// somebody else's.
func (r *recorded) takeOnly() {
	links := r.view.Report().Links
	if _, ok := r.view.LinkReport(r.name); !ok && r.unnamed && len(links) == 1 {
		r.name, r.unnamed = links[0].Name, false
	}
}

// unknownLink is about a target that other links, or none, write to.
func (r *recorded) unknownLink() error {
	known := r.view.Report()
	if r.unnamed && len(known.Links) > 0 {
		return fmt.Errorf("choose the link with --%s NAME; on record on the target: %s", flagLink, linkNames(known))
	}
	return unknownLink(r.name, known)
}

// unknownLink says that there is no link of a name. known is what is on record.
func unknownLink(name string, known state.Report) error {
	return fmt.Errorf("the target's control topic %s knows no link of this name: %q; on record there: %s", control.TopicName, name, linkNames(known))
}

// linkNames lists the links of a report.
func linkNames(r state.Report) string {
	var names []string
	for _, l := range r.Links {
		names = append(names, strconv.Quote(l.Name))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// scanOptions say how ledgers are brought forward, and where failures go.
type scanOptions struct {
	detail describe.Detail
	budget *fetcher.Budget
	failed *PartlyError
}

// scan brings the ledgers of a link forward by the target's logs.
func (r *recorded) scan(ctx context.Context, d *describe.Link, o scanOptions) {
	m := leaders.New(r.dst.Admin)
	defer m.Close()
	read := wholeReader{reader{fetcher.NewLogReader(r.dst.Admin, m, o.budget)}}
	for i := range d.Topics {
		t := &d.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if err := p.Scan(ctx, read, o.detail); err != nil {
				o.failed.Where = append(o.failed.Where, fmt.Sprintf("%s/%d", t.TargetTopic, p.Partition.Partition))
				o.failed.Errs = append(o.failed.Errs, err)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// wholeReader reads up to the high watermark: what is no copy stands beyond a
// foreign transaction as well.
type wholeReader struct{ reader }

func (r wholeReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	return r.log.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: from, MaxBytes: maxBytes})
}
