package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Screen is where the story is told.
type Screen struct {
	Out io.Writer
	// Logs is for klink's own log lines.
	Logs io.Writer
	// Size is of the terminal behind Out, in columns and lines; nil where Out is
	// none. Then the progress is a plain line each second.
	Size func() (columns, lines int)
	// Colour is whether Out may carry colours.
	Colour bool
}

const (
	// redrawEvery is how often a terminal's table is drawn again.
	redrawEvery = 250 * time.Millisecond
	// lineEvery is how often a plain line is written.
	lineEvery = time.Second
)

// view tells the story on a screen. On a terminal the progress is a table that
// is drawn over itself, and everything else is written above it.
type view struct {
	screen Screen

	mu    sync.Mutex // guards all below
	began time.Time
	death time.Time // zero while the source lives
	shown time.Time
	last  progress   // where the rates are counted from
	rates [2]float64 // records per second, produced and mirrored
	drawn []string   // the lines of the table on the terminal
}

// progress is a count at a time.
type progress struct {
	at                 time.Time
	produced, mirrored int64
}

func newView(s Screen) *view { return &view{screen: s} }

// start begins the clock of the progress.
func (v *view) start(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.began, v.last = at, progress{at: at}
}

// died says when the source did.
func (v *view) died(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.death = at
}

// due is whether the progress should be shown again.
func (v *view) due() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	every := lineEvery
	if v.screen.Size != nil {
		every = redrawEvery
	}
	return time.Since(v.shown) >= every
}

// show shows the progress.
func (v *view) show(f frame) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown = time.Now()
	now := progress{v.shown, f.produced, f.mirrored()}
	// Over a second at least: what comes in batches jumps about.
	if now.at.Sub(v.last.at) >= lineEvery-glance {
		v.rates, v.last = ratesOf(v.last, now), now
	}
	columns, lines := 0, 0
	if v.screen.Size != nil {
		columns, lines = v.screen.Size()
	}
	table := append(f.table(columns, v.screen.Colour), text.Trim(f.summary(v.clockLocked(), v.rates), columns))
	if lines < len(table)+2 { // no terminal, or too low to draw over
		v.writeLocked(f.line(v.clockLocked(), v.rates)+"\n", v.drawn)
		return
	}
	v.writeLocked("", table)
}

// clockLocked names the moment, by the source's death once that has come.
func (v *view) clockLocked() string {
	if v.death.IsZero() {
		return fmt.Sprintf("%4.1f s", time.Since(v.began).Seconds())
	}
	return fmt.Sprintf("%4.1f s, source dead for %.1f s", time.Since(v.began).Seconds(), time.Since(v.death).Seconds())
}

// ratesOf are records per second, produced and mirrored.
func ratesOf(from, to progress) [2]float64 {
	took := to.at.Sub(from.at).Seconds()
	return [2]float64{float64(to.produced-from.produced) / took, float64(to.mirrored-from.mirrored) / took}
}

// say writes a line of the story.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writeLocked(fmt.Sprintf(format, args...)+"\n", v.drawn)
}

// shout writes a line that must not be missed.
func (v *view) shout(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := "*** " + fmt.Sprintf(format, args...) + " ***"
	if v.screen.Colour {
		line = "\x1b[1;7m" + line + "\x1b[0m"
	}
	v.writeLocked(line+"\n", v.drawn)
}

// stop leaves the table on the terminal as it is; what comes is written below.
func (v *view) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drawn = nil
}

// writeLocked takes the table off the screen, writes what goes above it, and
// draws it again, or another one.
func (v *view) writeLocked(above string, table []string) {
	out := above
	if len(v.drawn) > 0 {
		// Up to the table's first line, and away with all from there.
		out = "\r" + text.CursorUp.Sprintn(len(v.drawn)) + "\x1b[J" + above
	}
	if len(table) > 0 {
		out += strings.Join(table, "\n") + "\n"
	}
	v.drawn = table
	_, _ = io.WriteString(v.screen.Out, out) // a closed terminal is no reason to stop
}

// logs is a writer of whole lines that go above the table.
func (v *view) logs() io.Writer { return logWriter{v} }

type logWriter struct{ view *view }

func (w logWriter) Write(line []byte) (int, error) {
	v := w.view
	v.mu.Lock()
	defer v.mu.Unlock()
	table := v.drawn
	v.writeLocked("", nil)
	n, err := v.screen.Logs.Write(line)
	v.writeLocked("", table)
	return n, err
}
