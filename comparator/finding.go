package comparator

import "fmt"

// Kind is what sort of difference a finding is.
type Kind string

// The kinds of findings.
const (
	// Missing: the source has a record at the offset and the target none.
	Missing Kind = "missing"
	// Extra: the target has a record at the offset and the source none.
	Extra Kind = "extra"
	// Changed: both have a record at the offset, and the two differ.
	Changed Kind = "changed"
	// Shifted: a run of equal records stands at other offsets on the target.
	Shifted Kind = "shifted"
	// Start: the logs begin at different offsets.
	Start Kind = "start"
	// End: the logs end at different offsets.
	End Kind = "end"
)

// Kinds are all kinds, in the order in which they are shown.
func Kinds() []Kind { return []Kind{Missing, Extra, Changed, Shifted, Start, End} }

// Side is one of the two clusters.
type Side int

// The sides.
const (
	Source Side = iota
	Target
)

// String returns the side's name.
func (s Side) String() string {
	if s == Source {
		return "source"
	}
	return "target"
}

func (s Side) other() Side { return 1 - s }

// Finding is one difference.
type Finding struct {
	Kind Kind `json:"kind"`
	// Offset is where it begins: the source's, or for what only the target has the
	// target's.
	Offset int64 `json:"offset"`
	// Records it stands for; 1 for Start and End.
	Records int64 `json:"records"`
	// ShiftedBy is the target's offset less the source's, where the two are not the
	// same.
	ShiftedBy int64  `json:"shifted_by,omitempty"`
	Detail    string `json:"detail"`
	// Source and Target are the records in question, nil where that side has none
	// or it could not be read again.
	Source *Shown `json:"source,omitempty"`
	Target *Shown `json:"target,omitempty"`
}

// KeepPerKind is how many findings of each kind a partition's report shows in
// full, so that many of one kind cannot hide another.
const KeepPerKind = 5

// Tally counts the findings of one partition and keeps the first of each kind.
type Tally struct {
	// Counts are records by kind, 1 for Start and End. A kind without findings is
	// absent.
	Counts map[Kind]int64 `json:"counts"`
	// Findings are the first ones of each kind, in the order of their discovery.
	Findings []Finding `json:"findings"`
	kept     map[Kind]int
}

// Add counts a finding and keeps it if it is among the first of its kind. It
// returns its place in Findings, -1 where it was only counted.
func (t *Tally) Add(f Finding) int {
	t.ready()
	t.Counts[f.Kind] += f.Records
	if t.kept[f.Kind] >= KeepPerKind {
		return -1
	}
	t.kept[f.Kind]++
	t.Findings = append(t.Findings, f)
	return len(t.Findings) - 1
}

func (t *Tally) ready() {
	if t.Counts == nil {
		t.Counts, t.kept = make(map[Kind]int64), make(map[Kind]int)
	}
}

// absorb adds what another tally counted and kept.
func (t *Tally) absorb(o *Tally) {
	t.ready()
	for kind, n := range o.Counts {
		t.Counts[kind] += n
		t.kept[kind] += o.kept[kind]
	}
	t.Findings = append(t.Findings, o.Findings...)
}

// more adds records to a finding that was added before; at is what Add returned.
func (t *Tally) more(kind Kind, at int, records int64) {
	t.Counts[kind] += records
	if at >= 0 {
		t.Findings[at].Records += records
	}
}

// Equal reports whether there is no finding.
func (t *Tally) Equal() bool { return len(t.Counts) == 0 }

// describe puts a finding into words.
func (f Finding) describe() string {
	words := map[Kind]string{
		Missing: "the target has no record here",
		Extra:   "the source has no record here",
		Changed: "the records differ",
		Shifted: fmt.Sprintf("%d records stand at their offset %+d on the target", f.Records, f.ShiftedBy),
	}[f.Kind]
	switch {
	case words == "":
		return f.Detail
	case f.Detail == "":
		return words
	default:
		return words + ": " + f.Detail
	}
}
