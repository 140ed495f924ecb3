package main

import "time"

// sample is one look at a run.
type sample struct {
	at      time.Duration // since the mirror's start
	records int64         // on the target, by its log ends: other offsets count as well
	usage
}

// usage is processor time used so far.
type usage struct {
	mirror, src, dst time.Duration
	self             time.Duration // of this program
	all              time.Duration // of everything on the machine
}

func (u usage) minus(v usage) usage {
	return usage{u.mirror - v.mirror, u.src - v.src, u.dst - v.dst, u.self - v.self, u.all - v.all}
}

// others is what ran beside the measurement.
func (u usage) others() time.Duration {
	return max(0, u.all-u.mirror-u.src-u.dst-u.self)
}

// span is what happened between two samples.
type span struct {
	records int64
	elapsed time.Duration
	usage
}

func between(a, b sample) span {
	return span{records: b.records - a.records, elapsed: b.at - a.at, usage: b.minus(a.usage)}
}

// spans cuts a run: whole is from the first sample with records to the last one,
// second the part after half of those records. Where a run was over between two
// polls, it is taken to have begun at the last poll without records. ok is false
// for a run that moved nothing.
func spans(samples []sample) (whole, second span, ok bool) {
	first := 0
	for first < len(samples) && samples[first].records == 0 {
		first++
	}
	if first == len(samples) {
		return span{}, span{}, false
	}
	last := samples[len(samples)-1]
	if samples[first].records == last.records && first > 0 {
		first--
	}
	whole = between(samples[first], last)
	if whole.records == 0 || whole.elapsed == 0 {
		return span{}, span{}, false
	}
	half := first
	for samples[half].records < samples[first].records+whole.records/2 {
		half++
	}
	second = between(samples[half], last)
	if second.records == 0 || second.elapsed == 0 {
		second = whole // too quick to be cut
	}
	return whole, second, true
}

// Names of what is measured, as in the JSON.
const (
	mbPerSecond       = "mb_per_s"
	mirrorCPU         = "mirror_cpu_s_per_gb"
	brokersCPU        = "brokers_cpu_s_per_gb"
	targetCPU         = "target_broker_cpu_s_per_gb"
	wholeMBPerSecond  = "whole_run_mb_per_s"
	wholeMirrorCPU    = "whole_run_mirror_cpu_s_per_gb"
	wholeBrokersCPU   = "whole_run_brokers_cpu_s_per_gb"
	wholeTargetCPU    = "whole_run_target_broker_cpu_s_per_gb"
	peakRSS           = "peak_rss_mib"
	firstRecord       = "first_record_s"
	measuredSeconds   = "measured_s"
	measuredRecords   = "measured_records"
	othersCores       = "others_cores"
	directP50         = "direct_p50_ms"
	directP99         = "direct_p99_ms"
	mirroredP50       = "mirrored_p50_ms"
	mirroredP99       = "mirrored_p99_ms"
	addedP50          = "added_p50_ms"
	addedP99          = "added_p99_ms"
	mirrorCores       = "mirror_cores"
	latencyDeliveries = "deliveries"

	offsetsPerSecond    = "offsets_per_s"
	mirrorCPUPerMillion = "mirror_cpu_s_per_million_offsets"
	targetCPUPerMillion = "target_broker_cpu_s_per_million_offsets"
	measuredOffsets     = "measured_offsets"

	brokersCores = "brokers_cores"

	readAgain       = "read_again_records"
	behindCommit    = "behind_last_commit_records"
	readAgainBeyond = "read_again_beyond_records"
	switchSeconds   = "switch_s"

	recodeLZ4    = "recode_lz4_mb_per_cpu_s"
	recodeSnappy = "recode_snappy_mb_per_cpu_s"
	wholeRecode  = "whole_mirror_mb_per_cpu_s"

	compareDigests    = "compare_mb_per_s"
	bareDigests       = "bare_digests_mb_per_s"
	compareBytes      = "compare_no_digest_mb_per_s"
	bareBytes         = "bare_reading_mb_per_s"
	compareShare      = "compare_of_bare"
	compareBytesShare = "compare_no_digest_of_bare"
)

// figures turns spans into rates; recordBytes is a record's share of the log.
func figures(whole, second span, recordBytes float64) map[string]float64 {
	gigabytes := func(s span) float64 { return float64(s.records) * recordBytes / 1e9 }
	perGB := func(s span, d time.Duration) float64 { return ratio(d.Seconds(), gigabytes(s)) }
	return map[string]float64{
		mbPerSecond:      1000 * ratio(gigabytes(second), second.elapsed.Seconds()),
		mirrorCPU:        perGB(second, second.mirror),
		brokersCPU:       perGB(second, second.src+second.dst),
		targetCPU:        perGB(second, second.dst),
		wholeMBPerSecond: 1000 * ratio(gigabytes(whole), whole.elapsed.Seconds()),
		wholeMirrorCPU:   perGB(whole, whole.mirror),
		wholeBrokersCPU:  perGB(whole, whole.src+whole.dst),
		wholeTargetCPU:   perGB(whole, whole.dst),
		measuredSeconds:  whole.elapsed.Seconds(),
		measuredRecords:  float64(whole.records),
		othersCores:      ratio(whole.others().Seconds(), whole.elapsed.Seconds()),
	}
}

// offsetFigures turns spans into rates where most offsets are no records, or
// what they take in the log says little.
func offsetFigures(whole, second span) map[string]float64 {
	perMillion := func(d time.Duration) float64 { return 1e6 * ratio(d.Seconds(), float64(second.records)) }
	return map[string]float64{
		offsetsPerSecond:    ratio(float64(second.records), second.elapsed.Seconds()),
		mirrorCPUPerMillion: perMillion(second.mirror),
		targetCPUPerMillion: perMillion(second.dst),
		measuredSeconds:     whole.elapsed.Seconds(),
		measuredOffsets:     float64(whole.records),
		othersCores:         ratio(whole.others().Seconds(), whole.elapsed.Seconds()),
	}
}
