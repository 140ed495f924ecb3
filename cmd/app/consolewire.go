package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/linker/control"
	"klink/linker/describe"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
)

// openConsole reads what is on record of the configuration's only link.
func openConsole(ctx context.Context, cfg *config.Config) (Console, error) {
	r, err := openRecorded(ctx, cfg, cfg.Links[0])
	if err != nil {
		return nil, err
	}
	if _, ok := r.view.LinkReport(r.name); !ok {
		r.dst.Close()
		return nil, r.unknownLink()
	}
	return &console{recorded: r}, nil
}

// console is the target of a link. Before Open it tells what was read once.
type console struct {
	*recorded
	store  *control.Store
	follow *task
}

// Open opens the control topic for writing and follows it. The topic was read
// just before, so that this does not make it.
func (c *console) Open(ctx context.Context) error {
	if c.store != nil {
		return nil
	}
	s, err := openControl(ctx, c.recorded)
	if err != nil {
		return err
	}
	c.store, c.follow = s, start(context.WithoutCancel(ctx), s.Run)
	return nil
}

func (c *console) Close() {
	if c.store != nil {
		c.follow.stop()
		<-c.follow.done
		c.store.Close()
	}
	c.dst.Close()
}

// Link completes what is reported by what is on record. Once the topic is followed
// only the states are of interest, and they come from there.
func (c *console) Link() state.Link {
	reports := c.view.Report()
	if c.store != nil {
		reports = c.store.Report()
	}
	for _, l := range reports.Links {
		if l.Name != c.name {
			continue
		}
		if c.store == nil {
			l = describe.Complete(l, c.view)
		}
		return l
	}
	return state.Link{Name: c.name}
}

func (c *console) Mirror(sourceTopic string) (control.TopicRecord, bool) {
	if c.store == nil {
		return c.view.Topic(c.name, sourceTopic)
	}
	return c.store.Topic(c.name, sourceTopic)
}

func (c *console) Accepted(sourceTopic string, partition int32) (from, end int64, ok bool) {
	ledgerOf := c.view.Ledger
	if c.store != nil {
		ledgerOf = c.store.Ledger
	}
	r, found := ledgerOf(c.name, sourceTopic, partition)
	x, err := ledger.Decode(r.Index)
	if !found || err != nil {
		return 0, 0, false
	}
	for _, w := range x.Windows() {
		if slices.ContainsFunc(w.Counts, func(n ledger.Count) bool { return n.Reason == ledger.Accepted }) {
			from, end, ok = w.From, w.End, true
		}
	}
	return from, end, ok
}

// traces is what is on record of what a link wrote to its targets.
type traces interface {
	Epochs(link, sourceTopic string, partition int32) []control.Epoch
	Pad(link, sourceTopic string, partition int32) (control.PadRecord, bool)
	Adopt(link, sourceTopic string) (control.AdoptRecord, bool)
}

func (c *console) Wrote(sourceTopic string, partition int32) bool {
	var on traces = c.view
	if c.store != nil {
		on = c.store
	}
	_, padded := on.Pad(c.name, sourceTopic, partition)
	_, adopted := on.Adopt(c.name, sourceTopic)
	_, _, accepted := c.Accepted(sourceTopic, partition)
	return padded || adopted || accepted || len(on.Epochs(c.name, sourceTopic, partition)) > 0
}

func (c *console) Commands() []intent.Command {
	if c.store == nil {
		return c.view.Commands(c.name)
	}
	return c.store.Commands(c.name)
}

func (c *console) Acks(sourceTopic string) []control.AckRecord {
	if c.store == nil {
		return c.view.Acks(c.name, sourceTopic)
	}
	return c.store.Acks(c.name, sourceTopic)
}

func (c *console) Changed() <-chan struct{} { return c.store.Changed() }

func (c *console) Give(ctx context.Context, cmd intent.Command) error {
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	return c.store.PutCommand(ctx, cmd)
}

// giveTimeout bounds the writing of a command.
const giveTimeout = 30 * time.Second

// joinTime is how long a klink that just started may take to be in its link's
// group: the coordinator of a young cluster makes the group's log first.
const joinTime = 30 * time.Second

// Workers asks the coordinator of the link's group. A klink that has just started
// may not be in it yet, but is on record.
func (c *console) Workers(ctx context.Context) (int, error) {
	n, err := membersOf(ctx, c.dst.Admin, workersGroup(c.name))
	if err == nil && n == 0 && joins(c.started(), time.Now()) {
		return 1, nil
	}
	return n, err
}

// started is the klink of the link that started last and did not end by itself.
func (c *console) started() control.WorkerRecord {
	last, _ := c.view.Worker(c.name)
	if c.store != nil {
		last, _ = c.store.Worker(c.name)
	}
	return last
}

// joins tells whether a klink may be about to join its group: it is on record, and
// started a short while ago.
func joins(last control.WorkerRecord, now time.Time) bool {
	age := now.Sub(last.At)
	return last.Worker != "" && age < joinTime && age > -joinTime
}

// membersOf asks for the number of members of a group; one that nobody knows has 0.
func membersOf(ctx context.Context, cl *kgo.Client, group string) (int, error) {
	described, err := kadm.NewClient(cl).DescribeGroups(ctx, group)
	if err == nil {
		err = described.Error()
	}
	switch {
	case errors.Is(err, kerr.GroupIDNotFound): // brokers since 4.0 (KIP-1043); older ones call it Dead
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("describe group %s: %w", group, err)
	}
	return len(described[group].Members), nil
}
