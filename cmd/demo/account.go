package demo

import "klink/cmd/lab"

// delivered is what a group has been given of one partition, on either side of
// the switch. Ranges are disjoint and in order; repeats count deliveries of
// records that the same cluster had delivered before.
type delivered struct {
	source, target               []lab.Range
	sourceRepeats, targetRepeats int64
}

// twice counts deliveries of records that had been delivered before.
func (d delivered) twice() int64 {
	return d.sourceRepeats + d.targetRepeats + overlap(d.source, d.target)
}

// lost counts the records of a log with one at each offset up to end that the
// group was not given on either side.
func (d delivered) lost(end int64) int64 {
	whole := []lab.Range{{From: 0, To: end}}
	given := overlap(d.source, whole) + overlap(d.target, whole)
	both := overlap(intersect(d.source, d.target), whole)
	return end - (given - both)
}

// resumedAt is the offset of the first record that the target delivered, -1
// where it delivered none.
func (d delivered) resumedAt() int64 {
	if len(d.target) == 0 {
		return -1
	}
	return d.target[0].From
}

func overlap(a, b []lab.Range) (n int64) {
	for _, r := range intersect(a, b) {
		n += r.To - r.From
	}
	return n
}

// intersect returns what is in both lists, disjoint and in order as they are.
func intersect(a, b []lab.Range) (common []lab.Range) {
	for len(a) > 0 && len(b) > 0 {
		from, to := max(a[0].From, b[0].From), min(a[0].To, b[0].To)
		if from < to {
			common = append(common, lab.Range{From: from, To: to})
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return common
}
