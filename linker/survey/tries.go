package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/remote"
	"klink/linker/state"
)

// try is one experiment. It is done where all its needs hold, else its facts are
// left open with the reason.
type try struct {
	needs []Fact
	facts []Fact
	do    func(*prober, context.Context)
}

// tries stand in the order in which they must be done.
var tries = []try{
	{nil, []Fact{AppendBase, AppendRaw}, (*prober).tryAppends},
	{[]Fact{AppendBase}, []Fact{LogEndExact}, (*prober).tryLogEnd},
	{[]Fact{AppendBase, LogEndExact}, []Fact{SequenceChecked}, (*prober).trySequence},
	{[]Fact{AppendBase, LogEndExact}, []Fact{DuplicateAnswered}, (*prober).tryDuplicate},
	{[]Fact{AppendBase}, []Fact{ProducersListed}, (*prober).tryProducers},
	{[]Fact{LogEndExact}, []Fact{MarkersAllowed}, (*prober).tryMarker},
	{[]Fact{MarkersAllowed}, []Fact{MarkersCounted, MarkersInvisible}, (*prober).tryMarkers},
	{[]Fact{MarkersCounted}, []Fact{MarkersOrdered}, (*prober).tryOrder},
	{[]Fact{MarkersAllowed}, []Fact{SequenceAfterMarkers}, (*prober).tryAfterMarkers},
	{[]Fact{MarkersAllowed, SequenceAfterMarkers}, []Fact{FenceHolds}, (*prober).tryFence},
	{[]Fact{AppendBase}, []Fact{AppendTimeCleared}, (*prober).tryAppendTime},
	{nil, []Fact{SettingsChangeable}, (*prober).trySettings},
	{[]Fact{AppendBase, LogEndExact}, []Fact{PadsTaken}, (*prober).tryPads},
	{[]Fact{AppendBase}, nil, (*prober).measureAppends},
	{[]Fact{MarkersCounted}, nil, (*prober).measureMarkers},
	{[]Fact{PadsTaken}, nil, (*prober).measurePads},
	{[]Fact{LogEndExact}, []Fact{TrimMovesStart}, (*prober).tryTrim},
	{[]Fact{TrimMovesStart, AppendBase}, []Fact{StartKept}, (*prober).tryStart},
}

func (p *prober) tryAll(ctx context.Context) {
	for _, t := range tries {
		if ctx.Err() != nil {
			return
		}
		i := slices.IndexFunc(t.needs, func(f Fact) bool { return p.answer(f) != Yes })
		if i < 0 {
			t.do(p, ctx)
			continue
		}
		for _, f := range t.facts {
			p.note(f, Unknown, "not tried without %s", t.needs[i])
		}
	}
}

func (p *prober) answer(f Fact) Answer {
	i := slices.IndexFunc(p.found, func(x Finding) bool { return x.Fact == f })
	if i < 0 {
		return Unknown
	}
	return p.found[i].Holds
}

func (p *prober) note(f Fact, holds Answer, format string, args ...any) {
	p.found = append(p.found, Finding{Fact: f, Holds: holds, Detail: fmt.Sprintf(format, args...)})
}

// fail notes an error. One that may pass by itself leaves the fact open (S2).
func (p *prober) fail(f Fact, right string, err error) {
	err = needsRight(err)
	found := Finding{Fact: f, Holds: No, Detail: err.Error()}
	var own *remote.Fault
	var answered *kerr.Error
	switch {
	case errors.As(err, &own) && own.Right != "":
		found.MissingRight = own.Right
	case remote.ReasonOf(err) == state.NoPermission:
		found.MissingRight = right
	case errors.Is(err, appender.ErrUnsupported):
	case !errors.As(err, &answered), answered.Retriable:
		found.Holds = Unknown
	}
	p.found = append(p.found, found)
}

// failAppend notes what became of an append instead of what was wanted.
func (p *prober) failAppend(f Fact, r appender.Result) {
	switch {
	case r.Outcome == appender.Misplaced:
		p.note(f, No, "answered with offset %d where the log ended at %d", r.Base, p.next)
	case r.Outcome == appender.Appended, r.Err == nil:
		p.note(f, No, "the batch was %s", r.Outcome)
	default:
		p.fail(f, "", r.Err)
	}
}

// unmoved notes whether the log end is where it was.
func (p *prober) unmoved(ctx context.Context, f Fact, detail string) {
	end, err := p.end(ctx)
	switch {
	case err != nil:
		p.fail(f, "", err)
	case end != p.next:
		p.note(f, No, "%s, and yet the log end moved from %d to %d", detail, p.next, end)
		p.next = end
	default:
		p.note(f, Yes, "%s", detail)
	}
}

// The records of the first two appends.
const (
	firstRecords  = 3
	secondRecords = 2
)

func (p *prober) tryAppends(ctx context.Context) {
	now := time.Now()
	second, err := zstdBatch(secondRecords, now)
	if err != nil {
		p.fail(AppendBase, "", err)
		return
	}
	var sent [][]byte
	for _, s := range []struct {
		batch   []byte
		records int32
	}{{plainBatch(firstRecords, now), firstRecords}, {second, secondRecords}} {
		r, bytes := p.append(ctx, p.guard, s.batch, s.records)
		if r.Outcome != appender.Appended {
			p.failAppend(AppendBase, r)
			p.note(AppendRaw, Unknown, "not tried without %s", AppendBase)
			return
		}
		sent = append(sent, bytes)
	}
	p.note(AppendBase, Yes, "")
	p.compareStored(ctx, sent)
}

// compareStored reads the batches back. Base offset and leader epoch, which lie
// outside the checksum, are the broker's to set.
func (p *prober) compareStored(ctx context.Context, sent [][]byte) {
	t, id := p.partition()
	c, err := p.o.Reader.Read(ctx, t, id, 0, appendBytes)
	if err != nil {
		p.fail(AppendRaw, scratchRight("Read"), err)
		return
	}
	defer c.Release()
	if len(c.Batches) != len(sent) {
		p.note(AppendRaw, No, "%d batches were sent and %d are stored", len(sent), len(c.Batches))
		return
	}
	const lengthAt, epochAt, magicAt = 8, 12, 16
	for i, got := range c.Batches {
		if want := sent[i]; len(got) != len(want) || !bytes.Equal(got[lengthAt:epochAt], want[lengthAt:epochAt]) || !bytes.Equal(got[magicAt:], want[magicAt:]) {
			p.note(AppendRaw, No, "batch %d was stored with other bytes", i)
			return
		}
	}
	p.note(AppendRaw, Yes, "plain and zstd")
}

func (p *prober) tryLogEnd(ctx context.Context) {
	end, err := p.end(ctx)
	switch {
	case err != nil:
		p.fail(LogEndExact, "", err)
	case end != p.next:
		p.note(LogEndExact, No, "%d offsets were written and the end is said to be %d", p.next, end)
	default:
		p.note(LogEndExact, Yes, "")
	}
}

func (p *prober) trySequence(ctx context.Context) {
	wrong := *p.guard
	wrong.sequence += 5
	if r, _ := p.append(ctx, &wrong, plainBatch(1, time.Now()), 1); r.Outcome != appender.OutOfOrder {
		p.failAppend(SequenceChecked, r)
		return
	}
	p.unmoved(ctx, SequenceChecked, "refused")
}

func (p *prober) tryDuplicate(ctx context.Context) {
	again := *p.guard
	again.sequence -= secondRecords
	old := p.next - secondRecords
	// The same sequences make it the same batch, whatever its bytes.
	r, _ := p.append(ctx, &again, plainBatch(secondRecords, time.Now()), secondRecords)
	if r.Outcome != appender.Duplicate {
		p.failAppend(DuplicateAnswered, r)
		return
	}
	if r.Base != old {
		p.note(DuplicateAnswered, No, "answered with offset %d instead of %d", r.Base, old)
		return
	}
	p.unmoved(ctx, DuplicateAnswered, "")
}

func (p *prober) tryProducers(ctx context.Context) {
	got, err := p.o.Target.ProducerState(ctx, p.s.target, p.guard.pid)
	switch {
	case err != nil:
		p.fail(ProducersListed, scratchRight("Read"), err)
	case !got.Known:
		p.note(ProducersListed, No, "the producer of the last batch is not listed")
	case got.Next() != p.guard.sequence:
		p.note(ProducersListed, No, "the last sequence is %d and listed as %d", p.guard.sequence-1, got.LastSequence)
	default:
		p.note(ProducersListed, Yes, "")
	}
}

func (p *prober) trySettings(ctx context.Context) {
	if err := changeSetting(ctx, p.o.Admin, p.s.target.Topic, "retention.bytes", "-1"); err != nil {
		p.fail(SettingsChangeable, scratchRight("AlterConfigs"), err)
		return
	}
	p.note(SettingsChangeable, Yes, "")
}

// tryAppendTime is for information: klink never sends the bit, but it tells how
// a target validates.
func (p *prober) tryAppendTime(ctx context.Context) {
	base := p.next
	r, _ := p.append(ctx, p.bulk, stampedBatch(time.Now()), 1)
	if r.Outcome != appender.Appended {
		p.failAppend(AppendTimeCleared, r)
		return
	}
	t, id := p.partition()
	c, err := p.o.Reader.Read(ctx, t, id, base, appendBytes)
	if err != nil {
		p.fail(AppendTimeCleared, scratchRight("Read"), err)
		return
	}
	defer c.Release()
	if len(c.Batches) == 0 {
		p.note(AppendTimeCleared, Unknown, "it could not be read back")
		return
	}
	h, err := batch.ParseHeader(c.Batches[0])
	switch {
	case err != nil:
		p.note(AppendTimeCleared, Unknown, "%v", err)
	case h.LogAppendTime():
		p.note(AppendTimeCleared, No, "it is kept")
	default:
		p.note(AppendTimeCleared, Yes, "")
	}
}

func (p *prober) tryPads(ctx context.Context) {
	const n = 1000
	b, err := batch.Pad(n, batch.DefaultPadOptions())
	if err != nil {
		p.fail(PadsTaken, "", err)
		return
	}
	if r, _ := p.append(ctx, p.bulk, b, n); r.Outcome != appender.Appended {
		p.failAppend(PadsTaken, r)
		return
	}
	p.unmoved(ctx, PadsTaken, fmt.Sprintf("%d records in %d bytes", n, len(b)))
}

func (p *prober) tryTrim(ctx context.Context) {
	if _, ok := p.knows[kmsg.DeleteRecords.Int16()]; !ok {
		p.note(TrimMovesStart, No, "the broker does not serve DeleteRecords")
		return
	}
	p.syncEnd(ctx)
	err := deleteRecords(ctx, p.leader, p.s.target, p.next)
	if remote.ReasonOf(err) == state.NoPermission {
		p.fail(TrimMovesStart, scratchRight("Delete"), err)
		return
	}
	t, id := p.partition()
	b, readErr := p.o.Reader.Bounds(ctx, t, id)
	switch {
	case readErr != nil:
		p.fail(TrimMovesStart, "", readErr)
	case b.LogStart == p.next:
		p.note(TrimMovesStart, Yes, "to %d", p.next)
	case err != nil:
		p.fail(TrimMovesStart, "", err)
	default:
		p.note(TrimMovesStart, No, "it is at %d after a trim to %d", b.LogStart, p.next)
	}
}

func (p *prober) tryStart(ctx context.Context) {
	if r, _ := p.append(ctx, p.bulk, plainBatch(1, time.Now()), 1); r.Outcome != appender.Appended {
		p.failAppend(StartKept, r)
		return
	}
	p.note(StartKept, Yes, "at %d", p.next-1)
}
