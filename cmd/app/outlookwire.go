package app

import (
	"context"
	"sync"

	"klink/cmd/config"
	"klink/fetcher"
	"klink/linker"
	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/survey"
	"klink/linker/topics"
)

// outlookBytes is about how much is read of the source to tell whether topics can keep
// their offsets: the mirror waits for it, unlike for klink plan.
const outlookBytes = 64 << 20

// outlook is the linker's port to package survey: what klink run does with a topic is
// what klink plan says of it.
type outlook struct {
	o survey.PlanOptions

	mu    sync.Mutex // guards store
	store *control.Store
}

// outlookOptions are what an outlook on a link's topics reads by.
type outlookOptions struct {
	link     config.Link
	side     *side
	matcher  *topics.Matcher
	src, dst *fetcher.LogReader
}

func newOutlook(o outlookOptions) *outlook {
	p := planOptions(o.link)
	p.Src, p.Dst, p.Matcher, p.From = o.side.src.Admin, o.side.dst.Admin, o.matcher, startFrom{o.link.Start, o.src}
	p.SrcReader, p.DstReader = &pacedReader{reader{o.src}, limiter(o.link.Limits.BytesPerSecond)}, reader{o.dst}
	p.SampleBytes = outlookBytes
	return &outlook{o: p}
}

// use takes the control topic, once it is open.
func (l *outlook) use(s *control.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = s
}

// Unkept implements linker.Outlook.
func (l *outlook) Unkept(ctx context.Context, sources []string) (map[string]linker.Unkept, *linker.Trouble) {
	wanted := make(map[string]bool, len(sources))
	for _, t := range sources {
		wanted[t] = true
	}
	o := l.o
	o.Only = func(source, _ string) bool { return wanted[source] }
	l.mu.Lock()
	if l.store != nil {
		o.Records = l.store
	}
	l.mu.Unlock()
	r, err := survey.Plan(ctx, o)
	if err != nil {
		return nil, &linker.Trouble{Reason: remote.ReasonOf(err), Detail: "look whether offsets can be kept: " + err.Error(), OnSource: true}
	}
	out := make(map[string]linker.Unkept, len(r.Topics))
	for _, t := range r.Topics {
		why, known := t.Unkept()
		if known {
			out[t.SourceTopic] = linker.Unkept{Why: why}
		} else {
			out[t.SourceTopic] = linker.Unkept{Unknown: why}
		}
	}
	return out, nil
}
