package contrast

// member is a consumer group of the load. Its places are shares of what the source
// had when it read.
type member struct {
	name string
	// place is how far it has come after a step of so many, in percent of what was
	// there after the step that it went by.
	place func(step, steps int) (percent, of int)
}

// The groups.
var company = []member{
	{"current", func(step, _ int) (int, int) { return 100, step }},
	{"lagging", func(step, _ int) (int, int) { return 40, step }},
	{"rewinds", rewinding},
}

const (
	rewindAt = 60 // percent of the steps
	rewindTo = 30 // percent of what was there then
	rereadTo = 50
)

// rewinding keeps up, goes back, and goes on from there.
func rewinding(step, steps int) (percent, of int) {
	back := max(1, steps*rewindAt/100)
	if step < back {
		return 100, step
	}
	return rewindTo + (rereadTo-rewindTo)*(step-back)/max(1, steps-back), back
}

// commitAt is the offset that stands for a share of the records of a partition
// that consumers saw when it had so many: the one after the last of them.
func commitAt(entries []Entry, serials int64, percent int) int64 {
	var seen []int64
	for _, e := range entries[:min(serials, int64(len(entries)))] {
		if e.Committed {
			seen = append(seen, e.Offset)
		}
	}
	n := len(seen) * percent / 100
	if n == 0 {
		return 0
	}
	return seen[n-1] + 1
}
