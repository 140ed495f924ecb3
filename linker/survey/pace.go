package survey

import "time"

// Pace is how fast a target takes what mirroring sends it, and where that is
// known from.
type Pace struct {
	Rates
	// Source says where the rates come from.
	Source string `json:"source"`
	// MeasuredAt is null where they were not measured on this target.
	MeasuredAt *time.Time `json:"measured_at"`
	AgeSeconds *float64   `json:"age_seconds"`
}

// The rates that are assumed: no more than the lowest that were measured. On three
// brokers of Kafka 4.3.1 that shared two overloaded processors, with all replicas
// to wait for, it was 900 markers per second in bulk; on one such broker 23 MB and
// 269 single markers per second, and 1.1 million pads, of which half is assumed
// since replicas were not waited for.
const (
	assumedAppendBytes = 20e6
	assumedMarkers     = 250
	assumedMarkersBulk = 900
	assumedPadOffsets  = 500e3
)

// mirrorShare is how much longer data take than bare appends of them: they are
// read, too. It was 1.25 to 1.8 where one machine held both brokers and klink.
const mirrorShare = 1.5

// gapShare is how much longer a gap takes in a mirror than a bare marker: nothing
// else of its partition is under way, before it nor behind it, so two turns of
// klink's loop add to it. It was 2 to 3 times on one machine for all.
const gapShare = 2.5

// recodeBytes per second is what writing batches anew costs klink, on one
// processor, with the slowest of the codecs.
const recodeBytes = 50e6

// The sizes of what is written beside records: a marker is a batch of its own,
// and a pad takes 0.6 to 0.8 bytes by zstd.
const (
	markerBytes = 78
	padBytesX10 = 8
)

// Assumed is the pace where nothing was measured: cautious.
func Assumed() Pace {
	return Pace{Source: "assumed: no more than the lowest that was measured, on overloaded brokers"}.filled()
}

// Measured is the pace that a probe found. What it could not measure is assumed.
func Measured(r ProbeResult, now time.Time) Pace {
	at, age := r.AsOf, now.Sub(r.AsOf).Seconds()
	return Pace{Rates: r.Rates, Source: "measured on this target", MeasuredAt: &at, AgeSeconds: &age}.filled()
}

func (p Pace) filled() Pace {
	for _, x := range []struct {
		rate    **float64
		assumed float64
	}{{&p.AppendBytes, assumedAppendBytes}, {&p.Markers, assumedMarkers}, {&p.MarkersBulk, assumedMarkersBulk}, {&p.PadOffsets, assumedPadOffsets}} {
		if *x.rate == nil || **x.rate <= 0 {
			*x.rate = &x.assumed
		}
	}
	return p
}

// seconds is how long one partition takes alone. A request that writes little
// takes as long as one with a single marker, so a log of tiny pieces is bound by
// their number and not by their bytes. A gap holds up the data behind it.
func (p Pace) seconds(a Amount, pads int64) float64 {
	data := max(float64(a.Bytes) / *p.AppendBytes, float64(a.Appends) / *p.Markers)
	gaps := a.GapOffsets()
	single := min(a.GapRuns, gaps)
	return float64(pads) / *p.PadOffsets + data*mirrorShare + float64(a.Recoded)/recodeBytes +
		float64(single)*gapShare / *p.Markers + float64(gaps-single) / *p.MarkersBulk
}
