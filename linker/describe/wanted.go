package describe

import (
	"maps"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
)

// Command is one order of an operator that counts, or of a worker that took a
// promotion back.
type Command struct {
	Number int32  `json:"number"`
	Verb   string `json:"verb"`
	// Topics are source topics; none is the link itself, or all topics of Group.
	Topics []string `json:"topics"`
	// Partitions are those that it is about; none is all.
	Partitions []int32 `json:"partitions"`
	Group      *string `json:"group"`
	// Fence is the producer epoch below which everything is refused.
	Fence *int16 `json:"fence"`
	// Switch ties it to the cuts that were made for it.
	Switch *string `json:"switch"`
	// NextLink is the link that goes the other way.
	NextLink    *string   `json:"next_link"`
	WaitSeconds *float64  `json:"wait_seconds"`
	At          time.Time `json:"at"`
	By          *string   `json:"by"`
}

// Intent is what is wanted of a link or topic, as the commands say.
type Intent struct {
	Want string `json:"want"`
	// Command is the number of the one that made it so, nil where none did.
	Command *int32 `json:"command"`
	// ByLink is true for a topic that its link's pause holds.
	ByLink bool `json:"by_link"`
	// ReversedInto is the link that mirrors a stopped topic the other way.
	ReversedInto *string `json:"reversed_into"`
	// Fence is the producer epoch in force.
	Fence int16 `json:"fence"`
	// Again is the number of the newest retry, accept, recreate or adopt.
	Again *int32 `json:"again"`
}

// Ack is a worker's word that it obeys a command.
type Ack struct {
	Worker     string           `json:"worker"`
	Command    int32            `json:"command"`
	At         time.Time        `json:"at"`
	Partitions []AckedPartition `json:"partitions"`
}

// AckedPartition is one partition of an Ack; End is exclusive.
type AckedPartition struct {
	Partition int32 `json:"partition"`
	End       int64 `json:"end"`
	// Wrote is true where the worker appended there, and nobody else since it took
	// the partition over.
	Wrote bool `json:"wrote"`
}

// Cut is where a promotion or failover cut a topic.
type Cut struct {
	Switch     string         `json:"switch"`
	At         time.Time      `json:"at"`
	SourceID   *string        `json:"source_id"`
	TargetID   *string        `json:"target_id"`
	Partitions []CutPartition `json:"partitions"`
	// Unsettled: the command that cut it has more to do.
	Unsettled bool `json:"unsettled"`
}

// CutPartition is where one partition was cut.
type CutPartition struct {
	Partition int32 `json:"partition"`
	// TargetEnd and SourceEnd are exclusive.
	TargetEnd     *int64     `json:"target_end"`
	SourceEnd     *int64     `json:"source_end"`
	SourceEndAsOf *time.Time `json:"source_end_as_of"`
	FenceOffset   *int64     `json:"fence_offset"`
	// Unfenced: neither a fence nor a worker's word keeps others from writing.
	Unfenced bool `json:"unfenced"`
}

// Adoption says up to where a target topic counts as this mirror's own.
type Adoption struct {
	At         time.Time          `json:"at"`
	By         *string            `json:"by"`
	SourceID   *string            `json:"source_id"`
	Partitions []AdoptedPartition `json:"partitions"`
}

// AdoptedPartition is one partition of an Adoption; End is exclusive.
type AdoptedPartition struct {
	Partition int32 `json:"partition"`
	End       int64 `json:"end"`
}

func commands(all []intent.Command) []Command {
	out := make([]Command, 0, len(all))
	for _, c := range all {
		d := Command{Number: c.Number, Verb: string(c.Verb), Topics: listed(c.Topics), Partitions: listed(c.Partitions),
			Group: known(c.Group), Switch: known(c.Switch), NextLink: known(c.Next), At: c.At, By: known(c.By)}
		if c.Fence > 0 {
			d.Fence = &c.Fence
		}
		if c.Wait > 0 {
			seconds := c.Wait.Seconds()
			d.WaitSeconds = &seconds
		}
		out = append(out, d)
	}
	return out
}

// listed is a list that JSON writes as one where it is empty.
func listed[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func intentOf(i intent.Intent) Intent {
	out := Intent{Want: string(i.Want), ByLink: i.PausedByLink(), Fence: i.Fence}
	if n := i.Cause.Number; n > 0 {
		out.Command = &n
	}
	if i.Reversed() {
		out.ReversedInto = known(i.Cause.Next)
	}
	if i.Again > 0 {
		out.Again = &i.Again
	}
	return out
}

func acks(all []control.AckRecord) []Ack {
	out := make([]Ack, 0, len(all))
	for _, r := range all {
		a := Ack{Worker: r.Worker, Command: r.Number, At: r.At, Partitions: make([]AckedPartition, 0, len(r.Partitions))}
		for _, p := range r.Partitions {
			a.Partitions = append(a.Partitions, AckedPartition(p))
		}
		out = append(out, a)
	}
	return out
}

// cutsByTopic are the cuts of a link, each topic's by time.
func cutsByTopic(all []control.CutRecord) map[string][]Cut {
	out := make(map[string][]Cut)
	for _, r := range all {
		c := Cut{Switch: r.Switch, At: r.At, SourceID: id(r.SourceID), TargetID: id(r.TargetID), Partitions: []CutPartition{}, Unsettled: r.Unsettled}
		for _, p := range r.Partitions {
			d := CutPartition{Partition: p.Partition, SourceEnd: p.SourceEnd, FenceOffset: p.FenceOffset, Unfenced: p.Unfenced}
			if p.TargetEnd != feed.Unknown {
				d.TargetEnd = &p.TargetEnd
			}
			if !p.SourceSeenAt.IsZero() {
				d.SourceEndAsOf = &p.SourceSeenAt
			}
			c.Partitions = append(c.Partitions, d)
		}
		out[r.Topic] = append(out[r.Topic], c)
	}
	return out
}

func adoption(r control.AdoptRecord, ok bool) *Adoption {
	if !ok {
		return nil
	}
	out := &Adoption{At: r.At, By: known(r.By), SourceID: id(r.SourceID), Partitions: []AdoptedPartition{}}
	for _, p := range slices.Sorted(maps.Keys(r.Ends)) {
		out.Partitions = append(out.Partitions, AdoptedPartition{p, r.Ends[p]})
	}
	return out
}
