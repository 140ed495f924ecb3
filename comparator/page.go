package comparator

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed page.html
var pageText string

// page is parsed once; that it can be is tested.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"picture": draw,
	"comma":   humanize.Comma,
	"bytes":   func(n int64) string { return humanize.IBytes(uint64(max(0, n))) },
	"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"millis":  moment,
	"ornull":  orNull,
	"kinds":   Kinds,
}).Parse(pageText))

// WritePage writes a result as one HTML page that needs nothing else: no
// scripts, no fonts, no pictures from elsewhere.
func WritePage(w io.Writer, r Result) error {
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func moment(ms *int64) string {
	if ms == nil {
		return "none"
	}
	return time.UnixMilli(*ms).UTC().Format(time.RFC3339Nano)
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// pictureWidth is in the picture's own units; the page scales it.
const pictureWidth = 1000

// picture shows both logs of a partition, one above the other, over their
// offsets.
type picture struct {
	Width              int
	Source, Target     bar
	Compared           bar
	Marks              []mark
	FirstOffset, After int64
}

// bar is a range of offsets in the picture's units.
type bar struct{ X, Width float64 }

// mark is a finding.
type mark struct {
	X      float64
	Kind   Kind
	Offset int64
}

// draw lays a partition out over the offsets that either side has; in checkpoint mode
// over those of the source, where the target is what was compared.
func draw(p PartitionResult) picture {
	if p.Mode == Checkpoint {
		p.TargetStart, p.TargetEnd = &p.From, &p.To
		p.Findings = slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool { return f.Kind == Extra })
	}
	pic := picture{Width: pictureWidth, FirstOffset: p.From, After: p.To}
	for _, o := range []*int64{p.SourceStart, p.TargetStart} {
		if o != nil {
			pic.FirstOffset = min(pic.FirstOffset, *o)
		}
	}
	for _, o := range []*int64{p.SourceEnd, p.TargetEnd} {
		if o != nil {
			pic.After = max(pic.After, *o)
		}
	}
	pic.Source, pic.Target = pic.bar(p.SourceStart, p.SourceEnd), pic.bar(p.TargetStart, p.TargetEnd)
	pic.Compared = pic.bar(&p.From, &p.To)
	for _, f := range p.Findings {
		pic.Marks = append(pic.Marks, mark{X: pic.x(f.Offset), Kind: f.Kind, Offset: f.Offset})
	}
	return pic
}

func (p *picture) x(offset int64) float64 {
	span := p.After - p.FirstOffset
	if span <= 0 {
		return 0
	}
	return float64(offset-p.FirstOffset) / float64(span) * pictureWidth
}

func (p *picture) bar(from, to *int64) bar {
	if from == nil || to == nil || *to <= *from {
		return bar{}
	}
	const least = 2 // what is there can be seen
	return bar{X: p.x(*from), Width: max(least, p.x(*to)-p.x(*from))}
}
