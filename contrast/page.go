package contrast

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed page.html
var pageText string

// page is parsed once; that it can be is tested.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"time":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"shifts": func(r Result) chart { return r.course("records", func(p Point) float64 { return float64(p.Shift) }) },
	"lags":   func(r Result) chart { return r.course("s", func(p Point) float64 { return p.DelaySeconds }) },
	"again":  Result.bars,
	"colour": func(i int) string { return colours[i%len(colours)] },
	"comma":  humanize.Comma,
	"legend": func() []string { return legend },
}).Parse(pageText))

// WritePage writes a result as one HTML page that needs nothing else: no scripts,
// no fonts, no pictures from elsewhere.
func WritePage(w io.Writer, r Result) error {
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// colours are of the modes, in their order.
var colours = []string{"#2563c9", "#2e8b57", "#c77700", "#b3261e"}

// The size of a picture in its own units, and what is left for the numbers beside
// it.
const (
	pictureWidth, pictureHeight = 900, 260
	leftMargin, bottomMargin    = 80, 30
	topMargin                   = 12
)

// chart is lines over time, one for each mode.
type chart struct {
	Width, Height int
	Lines         []line
	Across, Up    []mark
	Base, Left    float64 // where the axes are
}

// line is the course of one mode; Points are as SVG has them.
type line struct {
	Mode   int
	Name   string
	Points string
	Dots   []dot
}

type dot struct {
	X, Y float64
	Text string
}

// mark is a number at an axis.
type mark struct {
	At   float64
	Text string
}

// course draws a value of the points of all modes.
func (r Result) course(unit string, value func(Point) float64) chart {
	c := chart{Width: pictureWidth, Height: pictureHeight, Left: leftMargin, Base: pictureHeight - bottomMargin}
	var longest, highest float64
	for _, m := range r.Modes {
		for _, p := range m.Course {
			longest, highest = max(longest, p.Seconds), max(highest, value(p))
		}
	}
	longest, highest = max(longest, step.Seconds()), ceiling(highest)
	for i, m := range r.Modes {
		l := line{Mode: i, Name: m.Mode}
		var points []string
		for _, p := range m.Course {
			d := dot{X: c.x(p.Seconds / longest), Y: c.y(value(p) / highest), Text: fmt.Sprintf("%s: %.4g %s at %.1f s", m.Mode, value(p), unit, p.Seconds)}
			l.Dots = append(l.Dots, d)
			points = append(points, fmt.Sprintf("%.1f,%.1f", d.X, d.Y))
		}
		if l.Points = strings.Join(points, " "); l.Points != "" {
			c.Lines = append(c.Lines, l)
		}
	}
	const marks = 4
	for i := range marks + 1 {
		share := float64(i) / marks
		c.Across = append(c.Across, mark{c.x(share), fmt.Sprintf("%.3g s", longest*share)})
		c.Up = append(c.Up, mark{c.y(share), fmt.Sprintf("%.4g %s", highest*share, unit)})
	}
	return c
}

func (c chart) x(share float64) float64 {
	return leftMargin + share*(pictureWidth-leftMargin-topMargin)
}
func (c chart) y(share float64) float64 {
	return topMargin + (1-share)*(pictureHeight-bottomMargin-topMargin)
}

// ceiling is the least of 1, 2 and 5 times a power of ten that is not below v; 1 for
// nothing.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// bar is what one group read again in one mode.
type bar struct {
	Mode             int
	Name             string
	Y, Width, TextAt float64
	Records          int64
	NeverGiven       int64 // what the group went past
}

// barGroup is the bars of one group.
type barGroup struct {
	Group  string
	Y      float64
	Height int
	Bars   []bar
}

// barChart is all of them.
type barChart struct {
	Width, Height int
	Left          float64
	Groups        []barGroup
}

// bars draws what was read again by each group.
func (r Result) bars() barChart {
	const barHeight, gap, room = 18, 14, 220 // room is for the numbers behind the bars
	c := barChart{Width: pictureWidth, Left: leftMargin}
	most := int64(1)
	for _, m := range r.Modes {
		for _, g := range m.Groups {
			most = max(most, g.ReadAgain)
		}
	}
	y := 0
	for _, name := range r.groups() {
		group := barGroup{Group: name, Y: float64(y)}
		for i, m := range r.Modes {
			for _, g := range m.Groups {
				if g.Group != name {
					continue
				}
				const least = 1 // nothing can be seen, too
				b := bar{Mode: i, Name: m.Mode, Y: float64(y), Records: g.ReadAgain, NeverGiven: g.NeverGiven}
				b.Width = max(least, float64(g.ReadAgain)/float64(most)*(pictureWidth-leftMargin-room))
				b.TextAt = leftMargin + b.Width + 6
				group.Bars, y = append(group.Bars, b), y+barHeight
			}
		}
		group.Height = len(group.Bars) * barHeight
		c.Groups, y = append(c.Groups, group), y+gap
	}
	c.Height = max(y, barHeight)
	return c
}
