package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.yaml.in/yaml/v4"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/describe"
	"klink/linker/groups"
	"klink/linker/reverse"
)

// openReverse opens both clusters of the configuration's only link.
func openReverse(ctx context.Context, cfg *config.Config) (Reverser, error) {
	l := cfg.Links[0]
	promoted, err := openRecorded(ctx, cfg, l)
	if err != nil {
		return nil, fmt.Errorf("promoted side: %w", err)
	}
	// The old source needs the clients of a target: it becomes one.
	swapped := l
	swapped.Target = l.Source
	old, err := kafka.OpenTarget(kafka.Options{Link: swapped, FetchMemory: cfg.Limits.FetchMemory, Version: Version()})
	if err == nil {
		if err = reach(ctx, old.Ping); err != nil {
			old.Close()
		}
	}
	if err != nil {
		promoted.dst.Close()
		return nil, fmt.Errorf("old source: %w", err)
	}
	filter, err := groups.NewFilter(l.Groups.Include, l.Groups.Exclude)
	t := &turner{promoted: promoted, old: old, oldLeaders: leaders.New(old.Admin), newLeaders: leaders.New(promoted.dst.Admin)}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("groups.%w", err)
	}
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	t.Reverser = reverse.New(reverse.Options{Source: turnSide(old, t.oldLeaders, budget), Target: turnSide(promoted.dst, t.newLeaders, budget),
		Groups: filter.Selects, VisibleFills: l.GapFill == config.GapFillRecords, Version: Version(), By: operator()})
	return t, nil
}

// turner is a link with both its clusters, to be turned around.
type turner struct {
	*reverse.Reverser
	promoted   *recorded
	old        *kafka.Target
	oldLeaders *leaders.Map
	newLeaders *leaders.Map
}

func (t *turner) Close() {
	t.oldLeaders.Close()
	t.newLeaders.Close()
	t.old.Close()
	t.promoted.dst.Close()
}

func (t *turner) Topics(words []string) ([]string, error) {
	r, ok := t.promoted.view.LinkReport(t.promoted.name)
	if !ok {
		return nil, t.promoted.unknownLink()
	}
	return namedTopics(describe.Complete(r.Links[0], t.promoted.view), words)
}

// turnSide is one of the two clusters.
func turnSide(c *kafka.Target, m *leaders.Map, budget *fetcher.Budget) reverse.Side {
	return reverse.Side{Admin: c.Admin, Reader: producersReader{reader{fetcher.NewLogReader(c.Admin, m, budget)}},
		Records: func(ctx context.Context) (reverse.Records, error) {
			v, err := control.Read(ctx, c.Control)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Open: func(ctx context.Context) (reverse.Store, error) {
			s, err := control.Open(ctx, control.Options{Client: c.Control, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return nil, err
			}
			return s, nil
		}}
}

// producersReader is a reader that tells of producers as well.
type producersReader struct{ reader }

func (r producersReader) Producers(ctx context.Context, p feed.Partition, id feed.TopicID) ([]feed.Producer, error) {
	return r.log.Producers(ctx, p, id)
}

// definition is the link as its file has it, or as flags made it.
func definition(file string, l config.Link) (string, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	text, err := yaml.Marshal(map[string]any{"links": []any{map[string]any{
		"name":   l.Name,
		"source": map[string]any{"brokers": l.Source.Brokers},
		"target": map[string]any{"brokers": l.Target.Brokers},
		"topics": map[string]any{"include": l.Topics.Include},
		"groups": map[string]any{"include": l.Groups.Include},
	}}})
	if err != nil {
		return "", fmt.Errorf("write the link as YAML: %w", err)
	}
	return string(text), nil
}
