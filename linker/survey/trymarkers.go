package survey

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/linker/appender"
)

// markersRight is what WriteTxnMarkers needs; ClusterAction alone until 3.7.
const markersRight = "Alter (or ClusterAction) on the cluster"

// fewMarkers are enough to see whether each takes an offset.
const fewMarkers = 100

func (p *prober) tryMarker(ctx context.Context) {
	if most, ok := p.knows[kmsg.WriteTxnMarkers.Int16()]; !ok || most < 1 {
		p.note(MarkersAllowed, No, "the broker does not serve WriteTxnMarkers v1")
		return
	}
	n, err := p.mark(ctx, p.guard, p.guard.take(1))
	switch {
	case err != nil:
		p.fail(MarkersAllowed, markersRight, err)
	case n != 1:
		p.note(MarkersAllowed, No, "answered without error, and the log end moved by %d", n)
	default:
		p.note(MarkersAllowed, Yes, "")
	}
}

func (p *prober) tryMarkers(ctx context.Context) {
	n, err := p.mark(ctx, p.guard, p.guard.take(fewMarkers))
	switch {
	case err != nil:
		p.fail(MarkersCounted, markersRight, err)
		return
	case n != fewMarkers:
		p.note(MarkersCounted, No, "%d markers took %d offsets", fewMarkers, n)
		return
	}
	p.note(MarkersCounted, Yes, "%d in one request", fewMarkers)
	p.lookAtMarkers(ctx, p.next-fewMarkers)
}

// lookAtMarkers checks that consumers skip what stands from base on: control
// batches, and a last stable offset behind them.
func (p *prober) lookAtMarkers(ctx context.Context, base int64) {
	t, id := p.partition()
	c, err := p.o.Reader.Read(ctx, t, id, base, appendBytes)
	if err != nil {
		p.fail(MarkersInvisible, scratchRight("Read"), err)
		return
	}
	defer c.Release()
	seen := base
	for _, b := range c.Batches {
		h, err := batch.ParseHeader(b)
		if err != nil || !h.IsControl() {
			p.note(MarkersInvisible, No, "at offset %d stands no control batch (%v)", seen, err)
			return
		}
		seen = h.NextOffset()
	}
	b, err := p.o.Reader.Bounds(ctx, t, id)
	switch {
	case err != nil:
		p.fail(MarkersInvisible, scratchRight("Describe"), err)
	case seen != p.next:
		p.note(MarkersInvisible, Unknown, "only those up to offset %d of %d could be read back", seen, p.next)
	case b.LastStable != p.next:
		p.note(MarkersInvisible, No, "the last stable offset is %d and the log end %d", b.LastStable, p.next)
	default:
		p.note(MarkersInvisible, Yes, "control batches, as read back")
	}
}

func (p *prober) tryOrder(ctx context.Context) {
	n, err := p.mark(ctx, p.guard, []int32{p.guard.counter - fewMarkers})
	switch {
	case n != 0:
		p.note(MarkersOrdered, No, "it was written")
	case errors.Is(err, kerr.TransactionCoordinatorFenced):
		p.note(MarkersOrdered, Yes, "refused")
	case err == nil:
		p.note(MarkersOrdered, No, "answered without error, and not written")
	default:
		p.fail(MarkersOrdered, markersRight, err)
	}
}

func (p *prober) tryAfterMarkers(ctx context.Context) {
	if r, _ := p.append(ctx, p.guard, plainBatch(1, time.Now()), 1); r.Outcome != appender.Appended {
		p.failAppend(SequenceAfterMarkers, r)
		return
	}
	p.note(SequenceAfterMarkers, Yes, "")
}

// tryFence ends the use of guard: its epoch is over.
func (p *prober) tryFence(ctx context.Context) {
	fence := *p.guard
	fence.epoch++
	n, err := p.mark(ctx, &fence, fence.take(1))
	switch {
	case err != nil:
		p.fail(FenceHolds, markersRight, err)
		return
	case n != 1:
		p.note(FenceHolds, No, "the marker was answered without error, and the log end moved by %d", n)
		return
	}
	if r, _ := p.append(ctx, p.guard, plainBatch(1, time.Now()), 1); r.Outcome != appender.Fenced {
		p.failAppend(FenceHolds, r)
		return
	}
	p.unmoved(ctx, FenceHolds, "refused")
}
